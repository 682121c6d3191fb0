//! What `run` is told.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as Group, ValueEnum};

use super::{Kind, Store};
use crate::duration;

#[derive(Debug, Group)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) store: Store,
    /// What kind of lock
    ///
    /// A kind that the store does not have ends with 64.
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Let so many in at a time, -n says how many: short for --kind leased_semaphore
    ///
    /// The permit of a run that is killed comes back by itself.
    #[arg(long, conflicts_with = "kind")]
    pub(crate) semaphore: bool,
    /// Share a lock of --kind rw with other readers
    #[arg(long, conflicts_with = "write")]
    pub(crate) read: bool,
    /// Hold a lock of --kind rw alone: the default
    #[arg(long)]
    pub(crate) write: bool,
    /// How many permits a semaphore has in all, unless that has been set before; the command takes one
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Wait at most this long for the lock, 0 to try once [default: for ever]
    ///
    /// A duration is a number of seconds, or numbers with units: 500ms, 10s, 2m, 1h30m.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Hold the lock, and run the command, at most this long [default: as long as the command runs]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_nonzero)]
    pub(crate) lease: Option<Duration>,
    /// How long others wait for the lock if this machine dies [default: 30s]
    ///
    /// The lock is renewed every third of it while the command runs.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_nonzero, conflicts_with = "lease")]
    pub(crate) watchdog: Option<Duration>,
    /// What becomes of the command when the lock is lost [default: stop]
    ///
    /// Whatever it is, the exit code is 70.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) on_lost: Option<OnLost>,
    /// Do not say who holds the lock
    ///
    /// Otherwise host, process and the command's name, without its arguments, are kept beside the lock, where `show` finds them. It
    /// takes a permission more on servers that have users, see `doctor --acl`.
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// Say on standard error what happens to the lock
    ///
    /// Who is waited for and since when it has been inside, when the lock is had, its fencing token, renewals, doubts, the loss, the
    /// release.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The lock's name; with --kind multi as many as you like
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What becomes of a command whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM in time for it to end in good order, SIGKILL before anybody else can have the lock
    #[default]
    Stop,
    /// SIGKILL, at the last moment before anybody else can have the lock, or at once if it was taken away
    Kill,
    /// It runs on, together with whoever has the lock next. For commands that are worse stopped than doubled
    Warn,
}
