//! What to do, with nothing left to decide: arguments resolved against the environment.

mod choice;
mod run;
mod state;
mod store;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use crate::args::{self, Args, Command, Kind};
use crate::exit::Failure;
use crate::print;

pub(crate) use choice::Choice;
pub(crate) use run::Run;
pub(crate) use store::{Setup, Store};

/// One run of this program.
#[derive(Debug)]
pub(crate) enum Plan {
    Run(Run),
    Ls(Ls),
    Show(Show),
    Watch(Watch),
    Unlock(Unlock),
    Permits(Permits),
    Latch(Latch),
    Doctor(Doctor),
    Bench(Bench),
    Demo(Demo),
    Completions(clap_complete::Shell),
    /// Into the directory, or the first page to standard output.
    Man(Option<PathBuf>),
}

#[derive(Debug)]
pub(crate) struct Ls {
    pub(crate) store: Store,
    pub(crate) names: String,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Show {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    /// Whether the user named the kind; otherwise the store tells.
    pub(crate) named: bool,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) store: Store,
    /// What the names that it lists start with; at least one, unless only `locks` are looked at.
    pub(crate) prefixes: Vec<String>,
    /// Looked at one by one.
    pub(crate) locks: Vec<Choice>,
    pub(crate) interval: Duration,
    pub(crate) count: Option<u64>,
    /// Lines for programs instead of a screen.
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Unlock {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    /// Whether the user named the kind; otherwise the store tells.
    pub(crate) named: bool,
    /// Where it is written down.
    pub(crate) audit: PathBuf,
    pub(crate) reason: Option<String>,
    /// Whether to ask for confirmation.
    pub(crate) ask: bool,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Permits {
    pub(crate) store: Store,
    pub(crate) name: String,
    /// `None` if the store tells.
    pub(crate) kind: Option<Kind>,
    pub(crate) set: Option<u32>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Latch {
    pub(crate) store: Store,
    pub(crate) name: String,
    pub(crate) act: LatchAct,
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LatchAct {
    Init(u32),
    Down,
    Count,
}

#[derive(Debug)]
pub(crate) struct Doctor {
    pub(crate) store: Store,
    /// The kinds that must work.
    pub(crate) kinds: Vec<distlock::store::Kind>,
    /// For which names to print rules, instead of looking.
    pub(crate) acl: Option<String>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) tasks: u32,
    /// For all of it.
    pub(crate) time: Duration,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Demo {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) tasks: u32,
    pub(crate) stock: u32,
    pub(crate) json: bool,
}

impl Plan {
    pub(crate) fn new(args: Args) -> Result<Plan, Failure> {
        Ok(match args.command {
            Command::Run(run) => Plan::Run(Run::new(run)?),
            Command::Ls(ls) => Plan::Ls(Ls {
                store: looking(ls.store, Kind::Mutex)?,
                names: ls.names,
                json: ls.json,
            }),
            Command::Show(show) => Plan::Show(Show {
                store: looking(show.store, show.kind.unwrap_or(Kind::Mutex))?,
                lock: Choice::single(show.kind.unwrap_or(Kind::Mutex), show.name)?,
                named: show.kind.is_some(),
                json: show.json,
            }),
            Command::Watch(watch) => Plan::Watch(Watch::new(watch)?),
            Command::Unlock(unlock) => Plan::Unlock(Unlock::new(unlock)?),
            Command::Permits(permits) => Plan::Permits(Permits {
                store: looking(permits.store, Kind::LeasedSemaphore)?,
                name: permits.name,
                kind: permits.kind.map(Kind::from),
                set: permits.set,
                json: permits.json,
            }),
            Command::Latch(latch) => {
                let (latch, act) = match latch {
                    args::Latch::Init { latch, count } => (latch, LatchAct::Init(count)),
                    args::Latch::Down { latch } => (latch, LatchAct::Down),
                    args::Latch::Count { latch } => (latch, LatchAct::Count),
                };
                let store = looking(latch.store, Kind::Latch)?;
                Plan::Latch(Latch { store, name: latch.name, act, json: latch.json })
            }
            Command::Doctor(doctor) => Plan::Doctor(Doctor {
                // Any number of servers can be looked at.
                store: Store::new(doctor.store, Kind::Redlock)?,
                kinds: match doctor.kinds.is_empty() {
                    true => distlock::store::Kind::ALL.to_vec(),
                    false => doctor.kinds.into_iter().map(Kind::of_library).collect(),
                },
                acl: doctor.acl,
                json: doctor.json,
            }),
            Command::Bench(bench) => Plan::Bench(Bench {
                store: Store::new(bench.store, bench.kind)?.with_different_members(bench.kind)?,
                lock: Choice::trial(bench.kind, "bench")?,
                tasks: bench.tasks,
                time: bench.seconds,
                json: bench.json,
            }),
            Command::Demo(demo) => Plan::Demo(Demo {
                store: Store::new(demo.store, demo.kind)?.with_different_members(demo.kind)?,
                lock: Choice::trial(demo.kind, "demo")?,
                tasks: demo.tasks,
                stock: demo.stock,
                json: demo.json,
            }),
            Command::Completions(completions) => Plan::Completions(completions.shell),
            Command::Man(man) => Plan::Man(man.dir),
        })
    }
}

/// The store of a command that looks for locks of others.
fn looking(args: args::Store, kind: Kind) -> Result<Store, Failure> {
    let store = Store::new(args, kind)?.with_different_members(kind)?;
    store.warn_of_weakness(kind);
    Ok(store)
}

impl Watch {
    fn new(watch: args::Watch) -> Result<Watch, Failure> {
        let store = looking(watch.store, watch.kind.unwrap_or(Kind::Mutex))?;
        let (prefixes, locks) = match watch.kind {
            Some(kind) => {
                let locks = watch.names.into_iter().map(|name| Choice::single(kind, name));
                (Vec::new(), locks.collect::<Result<_, _>>()?)
            }
            None if watch.names.is_empty() => (vec![String::new()], Vec::new()),
            None => (watch.names, Vec::new()),
        };
        // Drawing needs a terminal to draw on, and a keyboard to quit with.
        let json =
            watch.json || !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal());
        Ok(Watch { store, prefixes, locks, interval: watch.interval, count: watch.count, json })
    }
}

impl Unlock {
    fn new(unlock: args::Unlock) -> Result<Unlock, Failure> {
        if !unlock.force {
            let kind = unlock.kind.map(|kind| format!(" --kind {}", kind.word()));
            let (kind, name) = (kind.unwrap_or_default(), print::name(&unlock.name));
            return Err(Failure::Usage(format!(
                "`unlock` takes the lock away from a holder that may be running: see the holder with `distlock show{kind} {name}`, and add --force to take it away"
            )));
        }
        let kind = unlock.kind.unwrap_or(Kind::Mutex);
        Ok(Unlock {
            store: looking(unlock.store, kind)?,
            lock: Choice::single(kind, unlock.name)?,
            named: unlock.kind.is_some(),
            audit: state::audit_log()?,
            reason: unlock.reason,
            ask: !unlock.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            json: unlock.json,
        })
    }
}
