//! `distlock run`: a command under a lock.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::process::ExitStatus;
use std::time::Duration;

use distlock::{Guard, Locks};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::child::Child;
use crate::exit::{Exit, Failure};
use crate::plan::Run;
use crate::print;
use crate::signals::Signals;

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

    let locks = tokio::select! {
        locks = plan.store.connect(plan.watchdog) => locks?,
        signal = signals.recv() => return Ok(Exit::Signal(signal.as_raw())),
    };
    let guard = tokio::select! {
        guard = acquire(&locks, &plan) => guard,
        never = say_why_nothing_happens(&locks, &plan) => match never {},
        signal = signals.recv() => {
            // Leaving the wait gives back whatever it had taken; closing makes sure of it.
            super::close(&locks).await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
    };
    let exit = match guard {
        Ok(guard) => under(guard, &plan, &mut signals).await,
        Err(failure) => Err(failure),
    };
    super::close(&locks).await;
    exit
}

async fn acquire(locks: &Locks, plan: &Run) -> Result<Guard, Failure> {
    let mut request = locks.mutex(&plan.name).lock();
    if let Some(wait) = plan.wait {
        request = request.wait(wait);
    }
    if let Some(lease) = plan.lease {
        request = request.lease(lease);
    }
    Ok(request.await?)
}

/// Somebody who looks at a terminal should know what it waits for.
async fn say_why_nothing_happens(locks: &Locks, plan: &Run) -> Infallible {
    if std::io::stderr().is_terminal() {
        sleep(PUZZLEMENT).await;
        if let Ok(Some(holder)) = locks.mutex(&plan.name).holder().await {
            let (name, owner) = (print::name(&plan.name), print::name(&holder.owner));
            print::complain(&format!("waiting for the lock {name}, held by {owner}"));
        }
    }
    std::future::pending().await
}

/// Runs the command under the lock and gives the lock back.
async fn under(guard: Guard, plan: &Run, signals: &mut Signals) -> Result<Exit, Failure> {
    let vars = [("DISTLOCK_NAME", Some(plan.name.clone())), ("DISTLOCK_TOKEN", None)];
    let ended = match Child::start(&plan.command, &vars) {
        Ok(child) => watch_over(&guard, child, signals).await,
        Err(cause) => Err(cause),
    };
    let was_lost = guard.is_lost();
    let name = print::name(&plan.name);
    let unlocked = guard.unlock().await;
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
async fn watch_over(
    guard: &Guard,
    mut child: Child,
    signals: &mut Signals,
) -> std::io::Result<End> {
    if child.leads() {
        signals.refuse_suspension()?;
    }
    let lost = guard.lost();
    tokio::pin!(lost);
    let mut noticed = false;

    // A third of the lease, so that the command has two thirds for its work.
    let grace = (guard.remaining() / 3).min(LONGEST_GRACE);
    let margin = (grace / 10).min(LONGEST_MARGIN);
    let mut ends = Instant::now() + guard.remaining();
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
        if !guard.is_lost() {
            ends = now + guard.remaining();
        }
        if !stopped && (guard.is_lost() || ends <= now + grace) {
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
