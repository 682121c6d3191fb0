//! The arguments of the commands that look, count and measure.

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
    /// List only locks whose names start with PREFIX
    #[arg(default_value = "", value_name = "PREFIX", hide_default_value = true)]
    pub(crate) names: String,
}

#[derive(Debug, Group)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind of lock [default: read from what is stored]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The name of the lock
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Watch the locks of this kind that are named, held or not; also kinds that `ls` does not list
    #[arg(long, value_enum, requires = "names")]
    pub(crate) kind: Option<Kind>,
    /// Print one line of JSON per poll; the default if standard input or output is not a terminal
    #[arg(long)]
    pub(crate) json: bool,
    /// Set the time between polls
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_interval)]
    pub(crate) interval: Duration,
    /// Exit after N polls [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Watch only locks whose names start with one of these; with --kind these are whole names
    #[arg(value_name = "PREFIX|NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Group)]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind of lock [default: read from what is stored]
    ///
    /// A latch is opened. A semaphore gets back the permits that are taken.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Confirm that the lock is to be taken away from its holder: required
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the reason to the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Do not ask for confirmation on a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The name of the lock
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Latch {
    /// Set the count of a latch that has none; a latch with a count keeps it
    Init {
        #[command(flatten)]
        latch: LatchName,
        /// How many times the latch must be counted down until it opens
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
        count: u32,
    },
    /// Count a latch down by one
    Down {
        #[command(flatten)]
        latch: LatchName,
    },
    /// Print the count; a latch that was never set is open
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
    /// The name of the latch
    pub(crate) name: String,
}

#[derive(Debug, Group)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Check only this kind; repeat it for several [default: all kinds]
    #[arg(long = "kind", value_enum, value_name = "KIND")]
    pub(crate) kinds: Vec<Kind>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the permissions that a Redis user needs for locks whose names start with PREFIX; check nothing
    ///
    /// Prints a line for redis-cli, to be run on every server, with the name and the password in the place of USER and PASSWORD. It
    /// includes what a cluster or a sentinel needs if the URL is of one.
    #[arg(long, value_name = "PREFIX", conflicts_with = "json")]
    pub(crate) acl: Option<String>,
}

#[derive(Debug, Group)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind of lock; semaphores get one permit
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Set how many tasks ask for the same lock at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) tasks: u32,
    /// Set how long to measure in all
    #[arg(long, value_name = "DURATION", default_value = "3", value_parser = duration::parse_nonzero)]
    pub(crate) seconds: Duration,
}

#[derive(Debug, Group)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind of lock; semaphores get one permit
    #[arg(long, value_enum, default_value_t = Kind::Mutex)]
    pub(crate) kind: Kind,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Set how many customers come at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) tasks: u32,
    /// Set how many coupons there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) stock: u32,
}

#[derive(Debug, Group)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Group)]
pub(crate) struct Man {
    /// Write a page for each command to this directory [default: print the first page]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
