//! Watching over the command: signals go on to it, and it does not outlive the lock.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::args::OnLost;
use crate::child::Child;
use crate::lock::Held;
use crate::signals::Signals;

/// The longest time a command has between SIGTERM and SIGKILL: what shutting down in good order usually takes.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// At most this much before the end of the lease comes SIGKILL: it takes a moment to take effect on a busy machine.
const LONGEST_MARGIN: Duration = Duration::from_millis(100);

/// The lease is looked at this often even if nothing is due: timers stand still while the machine is suspended.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Timers are about as precise; whatever is due is not looked for more often.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// What the command left running is looked for this often.
const SHORT_NAP: Duration = Duration::from_millis(10);

/// How the command ended.
pub(super) struct End {
    pub(super) status: ExitStatus,
    /// Whether it was stopped for the sake of the lock.
    pub(super) stopped: bool,
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

/// Waits for the end of the command; passes signals on to it; ends it before the lock ends, unless the policy is to warn: then
/// `warn` is called when the lock is lost.
pub(super) async fn watch_over(
    held: &Held,
    mut child: Child,
    signals: &mut Signals,
    policy: OnLost,
    mut warn: impl FnMut(),
) -> std::io::Result<End> {
    if child.leads() {
        signals.refuse_suspension()?;
    }
    let lost = held.lost();
    tokio::pin!(lost);
    let mut noticed = false;

    // A third of the lease, so that the command has two thirds for its work.
    let grace = (held.remaining() / 3).min(LONGEST_GRACE);
    let margin = (grace / 10).min(LONGEST_MARGIN);
    // What comes first comes this long before the lease ends.
    let notice = match policy {
        OnLost::Stop => grace,
        OnLost::Kill => margin,
        OnLost::Warn => Duration::ZERO,
    };
    let mut ends = Instant::now() + held.remaining();
    let mut stage = Stage::Running;
    let (mut signalled, mut stopped, mut warned) = (false, false, false);
    let mut ended: Option<(ExitStatus, Instant)> = None;

    loop {
        let now = Instant::now();
        if let Some((status, at)) = ended {
            // What a command leaves running when it ends by itself is none of our business. What it leaves when it was
            // told to end may still be at work on what the lock guards.
            let left = signalled && child.left_something();
            let late = stage == Stage::Killed || now >= at + LONGEST_GRACE;
            if left && late {
                child.signal(Signal::KILL);
            }
            if !left || late {
                child.dismiss();
                return Ok(End { status, stopped });
            }
        }
        if !held.is_lost() {
            ends = now + held.remaining();
        }
        match policy {
            OnLost::Warn => {
                if !warned && held.is_lost() {
                    warned = true;
                    warn();
                }
            }
            _ if stopped || !(held.is_lost() || ends <= now + notice) => {}
            OnLost::Stop => {
                // Somebody may have taken the lock away with most of the lease left: then the grace is all there is.
                ends = ends.min(now + grace);
                (signalled, stopped) = (true, true);
                if stage != Stage::Killed {
                    stage = Stage::Stopping;
                    child.signal(Signal::TERM);
                }
            }
            OnLost::Kill => {
                (signalled, stopped, stage) = (true, true, Stage::Killed);
                child.signal(Signal::KILL);
            }
        }
        if stage == Stage::Stopping && ends <= now + margin {
            stage = Stage::Killed;
            child.signal(Signal::KILL);
        }

        let nap = match stage {
            _ if ended.is_some() => SHORT_NAP,
            _ if warned => LONGEST_NAP,
            Stage::Running | Stage::Asked => {
                ends.saturating_duration_since(now + notice).max(SHORTEST_NAP)
            }
            Stage::Stopping => ends.saturating_duration_since(now + margin),
            Stage::Killed => LONGEST_NAP,
        };
        tokio::select! {
            status = child.wait(), if ended.is_none() => match status {
                Ok(status) => {
                    signalled |= status.signal() == Some(Signal::HUP.as_raw());
                    ended = Some((status, Instant::now()));
                }
                Err(cause) => {
                    child.signal(Signal::KILL); // one that cannot be watched over must not run
                    return Err(cause);
                }
            },
            signal = signals.recv() => {
                // Many services take SIGHUP as "read your settings again", any number of times.
                signalled |= signal != Signal::HUP;
                match (stage, signal) {
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
