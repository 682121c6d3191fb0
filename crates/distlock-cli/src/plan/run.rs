//! What `run` does.

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
    /// The exit code if the lock was not acquired in time, if the user chose one.
    pub(crate) not_acquired: Option<u8>,
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
        let kind = match (run.kind, run.semaphore, run.shared) {
            // Of the two kinds the one whose permits come back.
            (_, true, _) => Kind::LeasedSemaphore,
            (None | Some(Kind::Rw), _, true) => Kind::Rw,
            (Some(kind), _, true) => {
                return wrong(&format!(
                    "--shared (-s) means --kind rw --read and does not fit --kind {}",
                    kind.word()
                ));
            }
            (kind, ..) => kind.unwrap_or(Kind::Mutex),
        };
        let read = run.read || run.shared;
        if run.names.len() > 1 && kind != Kind::Multi {
            return wrong(
                "several names were given: use --kind multi to take all of these locks or none, or put `--` before the command",
            );
        }
        if (read || run.write) && kind != Kind::Rw {
            return wrong("--read and --write need --kind rw");
        }
        if run.permits.is_some() && !kind.has_permits() {
            return wrong(
                "--permits (-n) needs --semaphore, --kind semaphore or --kind leased_semaphore; for flock's -n write --nonblock",
            );
        }
        if kind == Kind::Latch && (run.lease.is_some() || run.watchdog.is_some()) {
            return wrong(
                "--lease and --watchdog do not fit --kind latch: no lock is held while the command runs",
            );
        }
        if run.on_lost.is_some() && matches!(kind, Kind::Latch | Kind::Semaphore) {
            let kind = kind.word();
            return wrong(&format!(
                "--on-lost does not fit --kind {kind}: it has no lease that could be lost"
            ));
        }
        let store = Store::new(run.store, kind)?.with_different_members(kind)?;
        store.warn_of_weakness(kind);
        Ok(Run {
            store,
            lock: Choice { kind, names: run.names, read, permits: run.permits },
            wait: if run.nonblock { Some(Duration::ZERO) } else { run.wait },
            not_acquired: run.conflict_exit_code,
            lease: run.lease,
            watchdog: run.watchdog,
            on_lost: run.on_lost.unwrap_or_default(),
            anonymous: run.anonymous,
            verbose: run.verbose,
            command: match run.shell {
                Some(text) => vec!["sh".into(), "-c".into(), text],
                None => run.command,
            },
        })
    }
}
