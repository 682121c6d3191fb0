//! A store on virtual time whose answers take a moment, and which can be out of reach for one process at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::env::{BoxFuture, Env, Virtual};
use distlock::store::machine::fair::FairEntry;
use distlock::store::machine::{Machine, MachineContext, Transition, Wake};
use distlock::store::{
    Attempt, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store, Topic,
};
use distlock::{Error, ErrorKind, Locks, Owner, Result};

/// How long an answer takes: a step that is polled once is on its way.
const LATENCY: Duration = Duration::from_millis(1);
/// How long a reply is waited for that does not come.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// What processes share.
#[derive(Debug)]
struct Table {
    env: Virtual,
    entries: Mutex<HashMap<Arc<str>, FairEntry>>,
    released: Arc<Topic>,
}

/// What happens to the steps that one process begins from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Healthy,
    /// Nothing arrives, and no reply comes.
    Silent,
    /// Connections are refused.
    Refused,
}

/// One process's way to the store.
#[derive(Clone, Debug)]
pub(crate) struct Shaky {
    table: Arc<Table>,
    network: Arc<Mutex<Network>>,
    begun: Arc<AtomicU64>,
}

/// Neither fair nor fenced locks are kept here.
struct Nothing;

impl MachineContext for Nothing {
    fn listens(&self, _: Owner) -> bool {
        false
    }

    fn token(&self) -> u64 {
        0
    }
}

impl Shaky {
    /// A store of its own, for a runtime with a paused clock.
    pub(crate) fn new() -> Shaky {
        let (env, entries, released) = (Virtual::new(), Mutex::default(), Arc::default());
        Shaky::on(Arc::new(Table { env, entries, released }))
    }

    fn on(table: Arc<Table>) -> Shaky {
        Shaky { table, network: Arc::new(Mutex::new(Network::Healthy)), begun: Arc::default() }
    }

    /// Another process's way to the same store.
    pub(crate) fn elsewhere(&self) -> Shaky {
        Shaky::on(self.table.clone())
    }

    /// A process that goes this way.
    pub(crate) async fn open(&self, watchdog: Duration) -> Locks {
        let builder = Locks::builder().store(Arc::new(self.clone())).env(self.table.env.clone());
        builder.watchdog(watchdog).connect().await.expect("the store can be opened")
    }

    pub(crate) fn set(&self, network: Network) {
        *self.network.lock().expect("nothing panics with it locked") = network;
    }

    /// How many steps this process has begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits until this process has begun another step.
    pub(crate) async fn begins(&self) {
        let before = self.begun();
        while self.begun() == before {
            tokio::time::sleep(LATENCY).await;
        }
    }

    /// Who holds the lock, without asking over the network.
    pub(crate) fn look(&self, name: &str) -> Snapshot {
        let entries = self.table.entries.lock().expect("nothing panics with it locked");
        let now = self.table.env.now();
        entries.get(name).map_or_else(|| Snapshot::free(name), |entry| entry.view(name, now))
    }

    /// One step: it happens when it is sent, and its answer takes a moment.
    async fn step<T>(&self, step: impl FnOnce(&Table) -> T) -> Result<T> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let network = *self.network.lock().expect("nothing panics with it locked");
        match network {
            Network::Healthy => {
                let answer = step(&self.table);
                tokio::time::sleep(LATENCY).await;
                Ok(answer)
            }
            Network::Silent => {
                tokio::time::sleep(REPLY_TIMEOUT).await;
                Err(Error::new(ErrorKind::Indeterminate, "no reply in time"))
            }
            Network::Refused => {
                tokio::time::sleep(LATENCY).await;
                Err(Error::new(ErrorKind::Unavailable, "connection refused"))
            }
        }
    }
}

impl Table {
    fn step<T>(
        &self,
        name: &str,
        step: impl FnOnce(Option<FairEntry>) -> Transition<FairEntry, T>,
    ) -> T {
        let mut entries = self.entries.lock().expect("nothing panics with it locked");
        let Transition { entry, answer, wake } = step(entries.remove(name));
        let now = self.env.now();
        entries.extend(entry.filter(|entry| entry.is_live(now)).map(|entry| (name.into(), entry)));
        drop(entries);
        if wake != Wake::None {
            self.released.wake();
        }
        answer
    }
}

impl Store for Shaky {
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.step(|table| {
            let now = table.env.now();
            table.step(&claim.name, |entry| FairEntry::acquire(entry, claim, now, &Nothing))
        }))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(self.step(|table| {
            let now = table.env.now();
            table.step(&claim.name, |entry| FairEntry::release(entry, claim, now, &Nothing))
        }))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        let renew = |table: &Table| -> Vec<Renewed> {
            let now = table.env.now();
            let one = |claim: &Claim| {
                table.step(&claim.name, |entry| FairEntry::renew(entry, claim, now))
            };
            claims.iter().map(one).collect()
        };
        Box::pin(async move {
            match self.step(renew).await {
                Ok(all) => all.into_iter().map(Ok).collect(),
                Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn listen<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(self.step(|table| Listener::new(table.released.clone(), ())))
    }

    fn inspect<'a>(&'a self, _: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.step(|_| self.look(name)))
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.step(move |table| {
            let before = self.look(name);
            let now = table.env.now();
            table.step(name, |entry| FairEntry::force(entry, what, now, &Nothing));
            before
        }))
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(self.step(|_| Vec::new()))
    }
}
