//! Watching over the command: signals go on to it, and it does not outlive the lock.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use distlock::env::{Env, Moment, System};
use rustix::process::Signal;
use tokio::time::sleep;

use super::asked::{Asked, Request};
use super::lease::{LONGEST_GRACE, Lease};
use crate::args::OnLost;
use crate::child::Child;
use crate::lock::Held;
use crate::signals::Signals;

/// The lease is looked at this often even if nothing is due: timers stand still while the machine is suspended.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Timers are about as precise; whatever is due is not looked for more often.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// What the command left running is looked for this often.
const SHORT_NAP: Duration = Duration::from_millis(10);

/// The same where it takes a look at every process there is.
const HEAVY_NAP: Duration = Duration::from_millis(50);

/// Signals that a program may take for anything. If one of them ends the command, it was told to end.
const AMBIGUOUS: [Signal; 5] = [Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2];

/// How the command ended.
pub(super) struct End {
    pub(super) status: ExitStatus,
    /// Why it was stopped for the sake of the lock, if it was.
    pub(super) stopped: Option<Why>,
}

/// What came first: until all that was stopped is dead, the one may become the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The lock was lost.
    Lost,
    /// It was about to end.
    Ending,
}

/// What has been done to end the command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
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

    let mut lease = Lease::new(System.now(), held.remaining(), policy);
    let mut asked = Asked::default();
    let mut stage = Stage::Running;
    let (mut signalled, mut stopped, mut warned) = (false, None, false);
    let mut ended: Option<(ExitStatus, Moment)> = None;
    let mut killed: Option<Moment> = None;
    let mut newborn = true;
    let why = || if held.is_lost() { Why::Lost } else { Why::Ending };

    loop {
        let now = System.now();
        child.tidy();
        if let Some((status, at)) = ended {
            // What a command leaves running when it ends by itself is none of our business. What it leaves when it was
            // told to end may still be at work on what the lock guards.
            let left = signalled && child.left_something();
            let late = stage == Stage::Killed || now >= at.after(LONGEST_GRACE);
            if left && late {
                child.signal(Signal::KILL);
                killed.get_or_insert(now);
            }
            // The next holder must not come in beside one that has not died yet. But some cannot: the disk does not answer, or
            // their parent does not reap them.
            if !left || killed.is_some_and(|at| now >= at.after(LONGEST_GRACE)) {
                child.dismiss();
                return Ok(End { status, stopped });
            }
        }
        lease.follow(now, held.remaining_unless_lost());
        match policy {
            OnLost::Warn => {
                if !warned && held.is_lost() {
                    warned = true;
                    warn();
                }
            }
            _ if stopped.is_some() || !(held.is_lost() || lease.until_notice(now).is_zero()) => {}
            OnLost::Stop => {
                lease.cut(now);
                (signalled, stopped) = (true, Some(why()));
                if stage != Stage::Killed {
                    stage = Stage::Stopping;
                    asked.passed_on(Signal::TERM, now);
                    child.signal(Signal::TERM);
                }
            }
            OnLost::Kill => {
                (signalled, stopped, stage) = (true, Some(why()), Stage::Killed);
                child.signal(Signal::KILL);
            }
        }
        if stage == Stage::Stopping && lease.until_end(now).is_zero() {
            stage = Stage::Killed;
            child.signal(Signal::KILL);
        }

        let nap = match stage {
            _ if newborn => SHORTEST_NAP,
            _ if ended.is_some() && child.leads() => SHORT_NAP,
            _ if ended.is_some() => HEAVY_NAP,
            _ if warned => LONGEST_NAP,
            Stage::Running => lease.until_notice(now).max(SHORTEST_NAP),
            Stage::Stopping => lease.until_end(now),
            Stage::Killed => LONGEST_NAP,
        };
        tokio::select! {
            biased;
            signal = signals.recv() => match signal {
                // The terminal has sent its own signals to the command already, and what they mean is between the two: a
                // query that is cancelled, a list of threads. Only those that came before the command was there may have
                // missed it.
                Signal::INT | Signal::QUIT if !child.leads() && !newborn => {}
                Signal::INT | Signal::TERM => {
                    signalled = true;
                    match asked.hear(signal, System.now()) {
                        Request::New => child.signal(signal),
                        Request::Echo => {}
                        Request::Repeated => {
                            stage = Stage::Killed;
                            child.signal(Signal::KILL);
                        }
                    }
                }
                // Unexpected, these kill: who knows them is the command, not what it started.
                Signal::USR1 | Signal::USR2 => child.signal_alone(signal),
                // Many services take SIGHUP as "read your settings again", and some tell what they do on SIGQUIT, any
                // number of times.
                _ => child.signal(signal),
            },
            status = child.wait(), if ended.is_none() => match status {
                Ok(status) => {
                    let end = status.signal();
                    signalled |= AMBIGUOUS.iter().any(|signal| end == Some(signal.as_raw()));
                    ended = Some((status, System.now()));
                }
                Err(cause) => {
                    child.signal(Signal::KILL); // one that cannot be watched over must not run
                    return Err(cause);
                }
            },
            () = &mut lost, if !noticed => noticed = true,
            () = sleep(nap.min(LONGEST_NAP)) => newborn = false,
        }
    }
}
