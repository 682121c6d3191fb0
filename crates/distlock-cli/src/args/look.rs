//! What the commands that look, count and measure are told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Subcommand};

use super::{Kind, Store};
use crate::duration;

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
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) store: Store,
    /// The names are those of locks of this kind, held or not, also where `ls` cannot see it
    #[arg(long, value_enum, requires = "names")]
    pub(crate) kind: Option<Kind>,
    /// Print JSON, one line each time; so it is too when standard output is no terminal
    #[arg(long)]
    pub(crate) json: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_interval)]
    pub(crate) interval: Duration,
    /// End after looking so many times [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Only locks whose names start with one of these; with --kind the names themselves
    #[arg(value_name = "PREFIX|NAME")]
    pub(crate) names: Vec<String>,
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
    /// Why, for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Do not ask again on a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
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
    /// Tell the count; one that nobody has set is open
    Count {
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
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) store: Store,
    /// What kind of lock; semaphores have one permit here
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many tasks want the same lock at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: u32,
    /// How long to measure in all
    #[arg(long, value_name = "DURATION", default_value = "3", value_parser = duration::parse_nonzero)]
    pub(crate) seconds: Duration,
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

#[derive(Debug, Group)]
pub(crate) struct Completions {
    /// For which shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Group)]
pub(crate) struct Man {
    /// Write a page for each command into this directory [default: print the first page]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
