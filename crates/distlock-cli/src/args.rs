//! The arguments as they are written: nothing here looks at the environment.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};

use crate::duration;
use crate::exit::{CODES, DOCTOR_CODES};

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
    /// name in DISTLOCK_NAME (several names one per line), and in DISTLOCK_TOKEN its fencing token if the kind has one.
    #[command(after_help = CODES)]
    Run(Run),
    /// List the locks that are held
    ///
    /// While they are held, fair, fenced and spin look like mutex and are listed as that. Locks of --kind simple, semaphores
    /// and latches are not listed: a server cannot tell them from other values. See `show --kind`.
    Ls(Ls),
    /// Show who holds a lock
    Show(Show),
    /// Free a lock whoever holds it
    Unlock(Unlock),
    /// Set a latch, or count it down
    ///
    /// Whoever waits for a latch (`distlock run --kind latch NAME -- COMMAND`) goes on when its count has come down to zero.
    /// `show --kind latch` tells the count; `unlock --force --kind latch` opens it at once.
    #[command(subcommand)]
    Latch(Latch),
    /// Look whether the store is fit for locks
    ///
    /// Says of every server what was seen, what it means for locks, and what to change. Works where locks do not: a wrong password
    /// or a replica is a finding. Changes nothing.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(Doctor),
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
    /// For --kind redlock say it once per server; in DISTLOCK_URL put spaces between them.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Put this in front of every lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
}

/// The kinds, as the command line calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One holder at a time
    Mutex,
    /// One holder at a time, in the order of asking
    Fair,
    /// Many readers or one writer: --read, or --write
    Rw,
    /// One holder at a time, with a number higher than all before in DISTLOCK_TOKEN
    Fenced,
    /// A mutex for servers without pub/sub: whoever waits asks again and again
    Spin,
    /// A value set with SET NX PX, as programs do by hand
    Simple,
    /// All of several mutexes or none: several names
    Multi,
    /// A mutex on a majority of independent servers: several --url
    Redlock,
    /// So many holders at a time: --permits. A run that is killed never gives its permit back
    Semaphore,
    /// So many holders at a time: --permits. The permit of a run that is killed comes back
    #[value(alias = "leased-semaphore")]
    LeasedSemaphore,
    /// Held by nobody: the command runs when a count has come down to zero, see `distlock latch`
    Latch,
}

impl Kind {
    /// The same for the library.
    pub(crate) fn of_library(self) -> distlock::store::Kind {
        use distlock::store::Kind as K;
        match self {
            Kind::Mutex => K::Mutex,
            Kind::Fair => K::Fair,
            Kind::Rw => K::Rw,
            Kind::Fenced => K::Fenced,
            Kind::Spin => K::Spin,
            Kind::Simple => K::Simple,
            Kind::Multi => K::Multi,
            Kind::Redlock => K::Redlock,
            Kind::Semaphore => K::Semaphore,
            Kind::LeasedSemaphore => K::LeasedSemaphore,
            Kind::Latch => K::Latch,
        }
    }

    /// The word itself.
    pub(crate) fn word(self) -> &'static str {
        self.of_library().as_str()
    }
}

#[derive(Debug, Group)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) store: Store,
    /// What kind of lock
    ///
    /// The store `file:` has mutex, spin and multi; the other kinds need a server, or memory:.
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Share a lock of --kind rw with other readers
    #[arg(long, conflicts_with = "write")]
    pub(crate) read: bool,
    /// Hold a lock of --kind rw alone: the default
    #[arg(long)]
    pub(crate) write: bool,
    /// How many permits a semaphore has in all, unless that has been set before; the command takes one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
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
    /// The lock's name; with --kind multi as many as you like
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
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
    /// What kind of lock
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
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
    /// What kind of lock; a latch is opened, a semaphore gets back what is out
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Yes, take the lock away from whoever holds it
    #[arg(long)]
    pub(crate) force: bool,
    /// The lock's name
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Latch {
    /// Set the count of a latch that has none; one that has keeps it
    Init {
        #[command(flatten)]
        latch: LatchName,
        /// How many times it must be counted down
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
        count: u32,
    },
    /// Count a latch down by one
    Down {
        #[command(flatten)]
        latch: LatchName,
    },
}

#[derive(Debug, Group)]
pub(crate) struct LatchName {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The latch's name
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Only these kinds must work: say it once per kind [default: all]
    #[arg(long = "kind", value_enum, value_name = "KIND")]
    pub(crate) kinds: Vec<Kind>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the least that a user needs whose locks' names start with PREFIX, and look at nothing
    ///
    /// A line for redis-cli, for every server; put a name and a password in the place of USER and PASSWORD. What it takes for a cluster
    /// or a sentinel is in it if the URL is of one.
    #[arg(long, value_name = "PREFIX", conflicts_with = "json")]
    pub(crate) acl: Option<String>,
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) store: Store,
    /// What kind of lock; semaphores have one permit here
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
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
