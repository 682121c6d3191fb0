//! The arguments as they are written: nothing here looks at the environment.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::duration;
use crate::exit::CODES;

/// Locks shared by processes or machines: flock across hosts
#[derive(Debug, Parser)]
#[command(name = "distlock", version, arg_required_else_help = true, after_help = CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// Waits for the lock, runs the command, and releases the lock when it has ended. The exit code is the command's.
    /// SIGINT, SIGTERM and SIGHUP are passed on to it; a second SIGINT or SIGTERM kills it. If the lock is about to be
    /// lost, the command gets SIGTERM, and SIGKILL before anybody else can have the lock. The command finds the lock's
    /// name in DISTLOCK_NAME, and in DISTLOCK_TOKEN its fencing token if the kind has one.
    #[command(after_help = CODES)]
    Run(Run),
    /// List the locks that are held
    Ls(Ls),
    /// Show who holds a lock
    Show(Show),
    /// Free a lock whoever holds it
    Unlock(Unlock),
    /// Sell coupons to a crowd, without a lock and with one
    Demo(Demo),
}

/// Where the locks are.
#[derive(Debug, Group)]
pub(crate) struct Store {
    /// Where the locks are: redis://…, rediss://…, file:/dir or memory:
    ///
    /// Without it the environment variable DISTLOCK_URL says, and without that the locks are files in your state
    /// directory. Every user of the machine can read arguments: put a URL with a password into DISTLOCK_URL.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Put this in front of every lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One holder at a time
    Mutex,
}

#[derive(Debug, Group)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) store: Store,
    /// What kind of lock
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
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
    /// The lock's name
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Group)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Only locks whose names start with this
    #[arg(default_value = "", value_name = "PREFIX", hide_default_value = true)]
    pub(crate) names: String,
}

#[derive(Debug, Group)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The lock's name
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Yes, take the lock away from whoever holds it
    #[arg(long)]
    pub(crate) force: bool,
    /// The lock's name
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many customers come at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) tasks: u32,
    /// How many coupons there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) stock: u32,
}
