//! `distlock run`: a command under a lock.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::child::Child;
use crate::exit::{Exit, Failure};
use crate::lock::{Held, Lock};
use crate::plan::Run;
use crate::print;
use crate::signals::Signals;
use crate::view;

/// The longest time a command has between SIGTERM and SIGKILL: what shutting down in good order usually takes.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// At most this much before the end of the lease comes SIGKILL: it takes a moment to take effect on a busy machine.
const LONGEST_MARGIN: Duration = Duration::from_millis(100);

/// The lease is looked at this often even if nothing is due: timers stand still while the machine is suspended.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// What the command left running is looked for this often.
const SHORT_NAP: Duration = Duration::from_millis(10);

/// After this time without output a user wonders what is going on.
const PUZZLEMENT: Duration = Duration::from_secs(1);

pub(super) async fn run(plan: Run) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|cause| Failure::System("catch signals", cause))?;

    let lock = tokio::select! {
        lock = Lock::open(&plan.store, &plan.lock, plan.watchdog) => lock?,
        signal = signals.recv() => return Ok(Exit::Signal(signal.as_raw())),
    };
    let held = tokio::select! {
        held = lock.acquire(plan.wait, plan.lease) => held,
        never = say_why_nothing_happens(&lock, &plan) => match never {},
        signal = signals.recv() => {
            // Leaving the wait gives back whatever it had taken; closing makes sure of it.
            lock.close().await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
    };
    let exit = match held {
        Ok(held) => under(held, &plan, &mut signals).await,
        Err(error) => Err(error.into()),
    };
    lock.close().await;
    exit
}

/// Somebody who looks at a terminal should know what it waits for.
async fn say_why_nothing_happens(lock: &Lock, plan: &Run) -> Infallible {
    if std::io::stderr().is_terminal() {
        sleep(PUZZLEMENT).await;
        if let Ok(seen) = lock.inspect().await
            && let Some(why) = view::why_wait(plan.lock.kind, &seen)
        {
            print::complain(&why);
        }
    }
    std::future::pending().await
}

/// Runs the command under the lock and gives the lock back.
async fn under(held: Held, plan: &Run, signals: &mut Signals) -> Result<Exit, Failure> {
    let vars = [
        ("DISTLOCK_NAME", Some(plan.lock.names.join("\n"))),
        ("DISTLOCK_TOKEN", held.token().map(|token| token.to_string())),
    ];
    let ended = match Child::start(&plan.command, &vars) {
        Ok(child) => watch_over(&held, child, signals).await,
        Err(cause) => Err(cause),
    };
    let was_lost = held.is_lost();
    let names: Vec<String> = plan.lock.names.iter().map(|name| print::name(name)).collect();
    let name = names.join(", ");
    let unlocked = held.unlock().await;
    match (ended, unlocked) {
        (Err(cause), _) => Err(Failure::System("run the command", cause)),
        (Ok(End { stopped: true, .. }), _) => {
            let why = match plan.lease {
                Some(_) if !was_lost => "its lease ended",
                Some(_) | None => "it was lost",
            };
            print::complain(&format!(
                "the command was stopped because it must not outlive the lock {name}: {why}"
            ));
            Ok(Exit::Lost)
        }
        (Ok(end), Err(error)) if Exit::of(&error) == Exit::Lost => {
            print::complain(&format!("{error}; the command had ended with {}", end.status));
            Ok(Exit::Lost)
        }
        (Ok(end), Err(error)) => {
            // The command ran under the lock from beginning to end; only others have to wait now.
            print::complain(&format!("{error}; the lock {name} is free when its lease ends"));
            Ok(Exit::Command(end.status))
        }
        (Ok(end), Ok(())) => Ok(Exit::Command(end.status)),
    }
}

/// How the command ended.
struct End {
    status: ExitStatus,
    /// Whether it was stopped for the sake of the lock.
    stopped: bool,
}

/// What has been done to end the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// A signal that asks programs to end was passed on to it.
    Asked,
    /// The lock is lost or about to be; SIGTERM was sent.
    Stopping,
    /// SIGKILL was sent.
    Killed,
}

/// Waits for the end of the command; passes signals on to it; ends it before the lock ends.
async fn watch_over(held: &Held, mut child: Child, signals: &mut Signals) -> std::io::Result<End> {
    if child.leads() {
        signals.refuse_suspension()?;
    }
    let lost = held.lost();
    tokio::pin!(lost);
    let mut noticed = false;

    // A third of the lease, so that the command has two thirds for its work.
    let grace = (held.remaining() / 3).min(LONGEST_GRACE);
    let margin = (grace / 10).min(LONGEST_MARGIN);
    let mut ends = Instant::now() + held.remaining();
    let mut stage = Stage::Running;
    let (mut signalled, mut stopped) = (false, false);
    let mut ended: Option<(ExitStatus, Instant)> = None;

    loop {
        let now = Instant::now();
        if let Some((status, at)) = ended {
            // What a command leaves running when it ends by itself is none of our business. What it leaves when it was
            // told to end may still be at work on what the lock guards.
            if !signalled || stage == Stage::Killed || !child.left_something() {
                return Ok(End { status, stopped });
            }
            if now >= at + LONGEST_GRACE {
                child.signal(Signal::KILL);
                return Ok(End { status, stopped });
            }
        }
        if !held.is_lost() {
            ends = now + held.remaining();
        }
        if !stopped && (held.is_lost() || ends <= now + grace) {
            // Somebody may have taken the lock away with most of the lease left: then the grace is all there is.
            ends = ends.min(now + grace);
            (signalled, stopped) = (true, true);
            if stage != Stage::Killed {
                stage = Stage::Stopping;
                child.signal(Signal::TERM);
            }
        }
        if stage == Stage::Stopping && ends <= now + margin {
            stage = Stage::Killed;
            child.signal(Signal::KILL);
        }

        let nap = match stage {
            _ if ended.is_some() => SHORT_NAP,
            Stage::Running | Stage::Asked => ends.saturating_duration_since(now + grace),
            Stage::Stopping => ends.saturating_duration_since(now + margin),
            Stage::Killed => LONGEST_NAP,
        };
        tokio::select! {
            status = child.wait(), if ended.is_none() => match status {
                Ok(status) => ended = Some((status, Instant::now())),
                Err(cause) => {
                    child.signal(Signal::KILL); // one that cannot be watched over must not run
                    return Err(cause);
                }
            },
            signal = signals.recv() => {
                signalled = true;
                match (stage, signal) {
                    // Many services take it as "read your settings again", any number of times.
                    (_, Signal::HUP) => child.signal(signal),
                    (Stage::Running, _) => {
                        stage = Stage::Asked;
                        // The terminal has sent its own signals to the command already.
                        if child.leads() || signal == Signal::TERM {
                            child.signal(signal);
                        }
                    }
                    // Whoever asks twice means it.
                    _ => {
                        stage = Stage::Killed;
                        child.signal(Signal::KILL);
                    }
                }
            }
            () = &mut lost, if !noticed => noticed = true,
            () = sleep(nap.min(LONGEST_NAP)) => {}
        }
    }
}
