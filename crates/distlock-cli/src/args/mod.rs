//! The arguments as they are written: nothing here looks at the environment.

mod kind;
mod look;
mod run;

use clap::{Args as Group, Parser, Subcommand};

pub(crate) use kind::Kind;
pub(crate) use look::{Bench, Completions, Demo, Doctor, Latch, Ls, Man, Show, Unlock, Watch};
pub(crate) use run::{OnLost, Run};

use crate::exit::{CODES, DOCTOR_CODES, READING_CODES};

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
    /// Signals are passed on to it; a SIGINT or SIGTERM that is sent again within five seconds kills it. If the lock is about to be
    /// lost, the command gets SIGTERM, and SIGKILL before anybody else can have the lock; --on-lost says otherwise. The command
    /// finds the lock's name in DISTLOCK_NAME (several names one per line), and in DISTLOCK_TOKEN its fencing token if the kind has
    /// one.
    #[command(after_help = CODES)]
    Run(Run),
    /// List the locks that are held
    ///
    /// While they are held, fair, fenced and spin look like mutex and are listed as that. On a server, locks of --kind simple,
    /// semaphores and latches are not listed: it cannot tell them from other values. See `show --kind`.
    #[command(after_help = READING_CODES)]
    Ls(Ls),
    /// Show who holds a lock
    #[command(after_help = READING_CODES)]
    Show(Show),
    /// Watch who holds what, live
    ///
    /// Every held lock with its holders, how many wait, how long its lease has left, and how long holders had waited. That is known of
    /// holders that say so, and of those that were there when it was looked: a sample. Ends with q or Ctrl-C; arrows scroll. Goes
    /// on when the store is away.
    #[command(after_help = READING_CODES)]
    Watch(Watch),
    /// Free a lock whoever holds it
    ///
    /// Who did it, when, to whom and why goes to an audit log first: distlock-audit.log in your state directory, or the file that
    /// DISTLOCK_AUDIT names. If that cannot be written, nothing is freed. On a terminal it asks first; after the answer no the exit
    /// code is 1.
    #[command(after_help = READING_CODES)]
    Unlock(Unlock),
    /// Set a latch, count it down, or tell its count
    ///
    /// Whoever waits for a latch (`distlock run --kind latch NAME -- COMMAND`) goes on when its count has come down to zero.
    /// `unlock --force --kind latch` opens it at once.
    #[command(subcommand, after_help = READING_CODES)]
    Latch(Latch),
    /// Look whether the store is fit for locks
    ///
    /// Says of every server what was seen, what it means for locks, and what to change. Works where locks do not: a wrong password
    /// or a replica is a finding. Changes nothing.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(Doctor),
    /// Measure locks in this store, from here
    ///
    /// How long it takes to lock and unlock when nobody else wants to, how often a second that can be done when others do, and how
    /// long a waiter sleeps after the lock was freed. On names that nobody uses; but for the counter of a fenced lock, nothing stays.
    #[command(after_help = READING_CODES)]
    Bench(Bench),
    /// Sell coupons to a crowd, without a lock and with one
    Demo(Demo),
    /// Print completions for a shell
    ///
    /// For bash: source <(distlock completions bash)
    Completions(Completions),
    /// Print the manual page, or write all of them
    Man(Man),
}

/// Where the locks are.
#[derive(Debug, Group)]
pub(crate) struct Store {
    /// Where the locks are: redis://…, rediss://…, file:/dir or memory:
    ///
    /// Without it the environment variable DISTLOCK_URL says, and without that the locks are files in your state
    /// directory. Every user of the machine can read arguments: put a URL with a password into DISTLOCK_URL.
    /// For --kind redlock say it once per server; in DISTLOCK_URL put white space between them.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Put this in front of every lock's name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
}
