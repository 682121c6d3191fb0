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
    /// Where it is written down.
    pub(crate) audit: PathBuf,
    pub(crate) reason: Option<String>,
    /// Whether somebody is there to be asked.
    pub(crate) ask: bool,
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
                store: Store::new(ls.store, Kind::Mutex)?,
                names: ls.names,
                json: ls.json,
            }),
            Command::Show(show) => Plan::Show(Show {
                store: Store::new(show.store, show.kind)?,
                lock: Choice::single(show.kind, show.name)?,
                json: show.json,
            }),
            Command::Watch(watch) => Plan::Watch(Watch::new(watch)?),
            Command::Unlock(unlock) => Plan::Unlock(Unlock::new(unlock)?),
            Command::Latch(latch) => {
                let (latch, act) = match latch {
                    args::Latch::Init { latch, count } => (latch, LatchAct::Init(count)),
                    args::Latch::Down { latch } => (latch, LatchAct::Down),
                    args::Latch::Count { latch } => (latch, LatchAct::Count),
                };
                let store = Store::new(latch.store, Kind::Latch)?;
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
                store: Store::new(bench.store, bench.kind)?,
                lock: Choice::trial(bench.kind, "bench")?,
                tasks: bench.tasks,
                time: bench.seconds,
                json: bench.json,
            }),
            Command::Demo(demo) => Plan::Demo(Demo {
                store: Store::new(demo.store, demo.kind)?,
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

impl Watch {
    fn new(watch: args::Watch) -> Result<Watch, Failure> {
        let store = Store::new(watch.store, watch.kind.unwrap_or(Kind::Mutex))?;
        let (prefixes, locks) = match watch.kind {
            Some(kind) => {
                let locks = watch.names.into_iter().map(|name| Choice::single(kind, name));
                (Vec::new(), locks.collect::<Result<_, _>>()?)
            }
            None if watch.names.is_empty() => (vec![String::new()], Vec::new()),
            None => (watch.names, Vec::new()),
        };
        // Drawing needs somebody who sees it, and somebody who can say that it is enough.
        let json =
            watch.json || !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal());
        Ok(Watch { store, prefixes, locks, interval: watch.interval, count: watch.count, json })
    }
}

impl Unlock {
    fn new(unlock: args::Unlock) -> Result<Unlock, Failure> {
        if !unlock.force {
            let (kind, name) = (unlock.kind.word(), print::name(&unlock.name));
            return Err(Failure::Usage(format!(
                "`unlock` takes the lock away from its holder, who may be at work; see `distlock show --kind {kind} {name}`, and add --force if you mean it"
            )));
        }
        Ok(Unlock {
            store: Store::new(unlock.store, unlock.kind)?,
            lock: Choice::single(unlock.kind, unlock.name)?,
            audit: state::audit_log()?,
            reason: unlock.reason,
            ask: !unlock.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            json: unlock.json,
        })
    }
}
