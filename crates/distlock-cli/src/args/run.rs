//! The arguments of `run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as Group, ValueEnum};

use super::{Kind, Store};
use crate::duration;

/// The synopsis, for `--help` and the manual page: both must show the `--`.
pub(crate) const USAGE: &str = "\
distlock run [OPTIONS] <NAME>... -- <COMMAND>...
       distlock run [OPTIONS] <NAME>... -c <STRING>";

#[derive(Debug, Group)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind of lock [default: mutex]
    ///
    /// The exit code is 64 if the store does not offer the kind, and 65 if the name holds a lock of another kind.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Let -n commands run at the same time: short for --kind leased_semaphore
    ///
    /// If a run is killed, its permit comes back when the lease of the permit ends.
    #[arg(long, conflicts_with_all = ["kind", "shared"])]
    pub(crate) semaphore: bool,
    /// Share the lock with other readers: short for --kind rw --read, as in flock(1)
    #[arg(long, short = 's', conflicts_with = "write")]
    pub(crate) shared: bool,
    /// Take the read half of a lock of --kind rw, which readers share
    #[arg(long, conflicts_with = "write")]
    pub(crate) read: bool,
    /// Take the write half of a lock of --kind rw, which has one holder: the default
    #[arg(long)]
    pub(crate) write: bool,
    /// Set how many permits the semaphore has in all, if it has none yet; the command takes one
    ///
    /// If the semaphore has another number of permits already, that number stays, and a warning says so. `distlock permits`
    /// changes it.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
    /// Wait at most this long for the lock; 0 tries once [default: no limit]
    ///
    /// A duration is a number of seconds, or numbers with units: 500ms, 10s, 2m, 1h30m. With a limit greater than 0, a store that
    /// cannot be reached is tried again until the limit. Without a limit, or with 0, the exit code is 69 if the store cannot be
    /// reached at the start.
    #[arg(long, short = 'w', value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Try once and do not wait: short for --wait 0, as in flock(1). Not -n, which is --permits
    #[arg(long, visible_alias = "nb", conflicts_with = "wait")]
    pub(crate) nonblock: bool,
    /// Exit with this code instead of 75 if the lock was not acquired within --wait
    #[arg(long, short = 'E', value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Hold the lock, and run the command, at most this long [default: as long as the command runs]
    ///
    /// The command gets SIGTERM while a third of the lease (at most 5 s) is left, so that it is dead before the lease ends. A lease
    /// of 2 s thus leaves the command 1.3 s.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_nonzero)]
    pub(crate) lease: Option<Duration>,
    /// Let the lock expire this long after the last renewal [default: 30s]
    ///
    /// If this machine dies, waiters get the lock after this time. The lock is renewed every third of it while the command runs.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_nonzero, conflicts_with = "lease")]
    pub(crate) watchdog: Option<Duration>,
    /// Choose what happens to the command when the lock is lost [default: stop]
    ///
    /// The exit code is 70 in each case.
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) on_lost: Option<OnLost>,
    /// Do not store who holds the lock
    ///
    /// Without this option, the host, the process id and the name of the command (not its arguments) are stored next to the lock,
    /// where `show` reads them. On servers with users this needs one more permission, see `doctor --acl`.
    #[arg(long)]
    pub(crate) anonymous: bool,
    /// Print to standard error what happens to the lock
    ///
    /// Who holds the lock and since when, the acquire, the fencing token, renewals, renewals without a reply, the loss, the release.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Run STRING with the shell: short for -- sh -c STRING, as in flock(1)
    #[arg(long = "command", short = 'c', value_name = "STRING", conflicts_with = "command")]
    pub(crate) shell: Option<OsString>,
    /// The name of the lock; --kind multi takes several
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The command and its arguments, after --
    #[arg(last = true, required_unless_present = "shell", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What happens to a command whose lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Send SIGTERM, and SIGKILL before the lease ends. If the lock was taken away, another holder may already have it
    #[default]
    Stop,
    /// Send SIGKILL just before the lease ends; at once if the lock was taken away: then another holder may already have it
    Kill,
    /// Let the command run on, at the same time as the next holder, and print a warning
    Warn,
}
