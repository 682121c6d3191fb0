//! What `run` is to do.

use std::ffi::OsString;
use std::time::Duration;

use super::{Choice, Store};
use crate::args::{self, Kind, OnLost};
use crate::exit::Failure;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) anonymous: bool,
    pub(crate) verbose: bool,
    pub(crate) command: Vec<OsString>,
}

impl Run {
    pub(super) fn new(run: args::Run) -> Result<Run, Failure> {
        let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
        // Of the two kinds the one whose permits come back.
        let kind = if run.semaphore { Kind::LeasedSemaphore } else { run.kind };
        if run.names.len() > 1 && kind != Kind::Multi {
            return wrong("several names: --kind multi takes all of these locks, or none");
        }
        if (run.read || run.write) && kind != Kind::Rw {
            return wrong("--read and --write are for --kind rw");
        }
        if run.permits.is_some() && !kind.has_permits() {
            return wrong(
                "--permits (-n) is for --semaphore, --kind semaphore and --kind leased_semaphore",
            );
        }
        if kind == Kind::Latch && (run.lease.is_some() || run.watchdog.is_some()) {
            return wrong(
                "--lease and --watchdog are not for --kind latch: nothing is held while the command runs",
            );
        }
        if run.on_lost.is_some() && matches!(kind, Kind::Latch | Kind::Semaphore) {
            let kind = kind.word();
            return wrong(&format!(
                "--on-lost is not for --kind {kind}: there is no lease that could be lost"
            ));
        }
        Ok(Run {
            store: Store::new(run.store, kind)?,
            lock: Choice { kind, names: run.names, read: run.read, permits: run.permits },
            wait: run.wait,
            lease: run.lease,
            watchdog: run.watchdog,
            on_lost: run.on_lost.unwrap_or_default(),
            anonymous: run.anonymous,
            verbose: run.verbose,
            command: run.command,
        })
    }
}
