//! The arguments as they are written: nothing here looks at the environment.

mod kind;
mod look;
mod permits;
mod run;
pub(crate) mod separator;

use clap::{Args as Group, Parser, Subcommand};

pub(crate) use kind::Kind;
pub(crate) use look::{Bench, Completions, Demo, Doctor, Latch, Ls, Man, Show, Unlock, Watch};
pub(crate) use permits::Permits;
pub(crate) use run::{OnLost, Run};

use crate::exit::{CODES, DOCTOR_CODES, READING_CODES};

/// Three calls, for those who read nothing else.
const EXAMPLES: &str = "\
Examples:
  distlock run nightly -- ./report.sh             one at a time on this machine
  distlock run --url redis://host -w 0 nightly -- ./report.sh
                                                  one at a time on all machines; exit 75 if busy
  distlock show nightly                           who holds it

";

/// Run commands under locks that processes and machines share: flock across hosts
#[derive(Debug, Parser)]
#[command(name = "distlock", version, arg_required_else_help = true, after_help = [EXAMPLES, CODES].concat())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock
    ///
    /// Waits for the lock, runs the command, and releases the lock when the command has ended. The exit code is the command's.
    /// Signals are passed on to the command; the same SIGINT or SIGTERM again, half a second to five seconds later, kills it. If the
    /// lock is about to be lost, the command gets SIGTERM, and SIGKILL before the lease ends. If the lock was taken away, another
    /// holder may already have it. --on-lost changes what the command gets. The environment of the command has the name of the lock
    /// in DISTLOCK_NAME (several names one per line) and, with --kind fenced, the fencing token in DISTLOCK_TOKEN.
    #[command(override_usage = run::USAGE, after_help = CODES)]
    Run(Run),
    /// List the locks that are held
    ///
    /// Held fair, fenced and spin locks are stored like mutexes and are listed as mutex. On a server, simple locks, semaphores and
    /// latches are not listed, because the server cannot tell them from other values; `show NAME` shows them.
    #[command(after_help = READING_CODES)]
    Ls(Ls),
    /// Show one lock: its kind, its holders and its time to live
    ///
    /// Without --kind, the kind is read from what is stored. A fair lock without waiters, a fenced lock and a spin lock are stored
    /// like a mutex and shown as mutex. On a server, a semaphore without taken permits and a latch are both a plain number; then the
    /// kinds that it can be are shown.
    #[command(after_help = READING_CODES)]
    Show(Show),
    /// Watch the held locks, live
    ///
    /// Shows every held lock with its holders, how many wait, how long its lease has left, and how long the holders had waited. The
    /// waits are a sample: of holders that store who they are, and that held a lock at the time of a poll. q or Ctrl-C quits,
    /// arrows scroll. If the store cannot be reached, the screen says so, and polling goes on.
    #[command(after_help = READING_CODES)]
    Watch(Watch),
    /// Take a lock away from its holder
    ///
    /// First writes to an audit log who does it, when, from whom and why: distlock-audit.log in your state directory, or the file
    /// that DISTLOCK_AUDIT names. If the log cannot be written, nothing is freed. On a terminal it asks for confirmation; the exit
    /// code is 1 if the answer is no.
    #[command(after_help = READING_CODES)]
    Unlock(Unlock),
    /// Show or set how many permits a semaphore has
    ///
    /// Prints the permits in all, those that are taken and those that are free. --set changes the number in all; permits that are
    /// taken stay taken, and if more are taken than there are now, the next ones to be returned are not given out again.
    #[command(after_help = READING_CODES)]
    Permits(Permits),
    /// Set a latch, count it down, or print its count
    ///
    /// A latch opens when its count has come down to zero. `distlock run --kind latch NAME -- COMMAND` waits for that.
    /// `unlock --force --kind latch` opens a latch at once.
    #[command(subcommand, after_help = READING_CODES)]
    Latch(Latch),
    /// Check whether the store is fit for locks
    ///
    /// Prints for every server what was seen, what it means for locks, and what to change. Works where locks do not: a wrong password
    /// or a replica is a finding. Changes nothing.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(Doctor),
    /// Measure how fast locks are in this store, from this machine
    ///
    /// Measures how long lock and unlock take without contention, how many pairs a second are done with contention, and how long a
    /// waiter waits after the release. Uses names of its own. Leaves nothing in the store but the counter of a fenced lock.
    #[command(after_help = READING_CODES)]
    Bench(Bench),
    /// Show what a lock is good for: sell coupons without a lock, then with one
    ///
    /// The exit code is 1 if the coupons were not sold exactly once each with the lock.
    #[command(after_help = READING_CODES)]
    Demo(Demo),
    /// Print a completion script for a shell
    ///
    /// For bash: source <(distlock completions bash)
    Completions(Completions),
    /// Print the manual page, or write all pages to a directory
    Man(Man),
}

/// Where the locks are.
#[derive(Debug, Group)]
pub(crate) struct Store {
    /// Keep the locks there: redis://host:port, rediss://…, file:/dir; file: alone is the default directory
    ///
    /// Without --url, the environment variable DISTLOCK_URL names the store, and without that the locks are files in your state
    /// directory. Every user of the machine can read arguments: put a URL with a password into DISTLOCK_URL.
    /// --kind redlock takes several: repeat --url, or put white space between the URLs in DISTLOCK_URL. memory: exists in one
    /// process only; it is for `demo` and `bench`.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// Put PREFIX in front of every lock name
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
}
