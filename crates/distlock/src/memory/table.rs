//! A sharded map of entries with expiry and wake-ups, around `store::state`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::env::{BoxFuture, Env, Moment};
use crate::error::Result;
use crate::store::state::exclusive::{self, Entry};
use crate::store::{Attempt, Claim, Listener, Released, Snapshot, Store, Topic};

const SHARDS: usize = 16;

/// A shard looks for expired entries each time it has grown by this factor since the last time.
const SWEEP_GROWTH: usize = 2;

#[derive(Debug)]
pub(crate) struct MemoryStore {
    env: Arc<dyn Env>,
    shards: Arc<Shards>,
}

#[derive(Debug, Default)]
struct Shards {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    cells: HashMap<Arc<str>, Cell>,
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Cell {
    entry: Option<Entry>,
    topic: Option<Arc<Topic>>,
    listeners: u32,
}

impl Cell {
    fn is_idle(&self, now: Moment) -> bool {
        self.listeners == 0 && self.entry.as_ref().is_none_or(|e| e.expires <= now)
    }
}

impl Shards {
    fn of(&self, name: &str) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStore {
    pub(crate) fn new(env: Arc<dyn Env>) -> Arc<MemoryStore> {
        Arc::new(MemoryStore { env, shards: Arc::default() })
    }

    /// The store that everybody in this process who asks for this name shares, for as long as anybody does.
    pub(crate) fn named(name: &str, env: Arc<dyn Env>) -> Arc<MemoryStore> {
        static NAMED: OnceLock<Mutex<HashMap<String, Weak<Shards>>>> = OnceLock::new();
        let mut named =
            NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, shards| shards.strong_count() > 0);
        let shards = named.get(name).and_then(Weak::upgrade).unwrap_or_default();
        named.insert(name.to_owned(), Arc::downgrade(&shards));
        Arc::new(MemoryStore { env, shards })
    }

    /// Runs one step of a state machine and calls out when it frees the lock.
    fn step<T>(
        &self,
        name: &Arc<str>,
        step: impl FnOnce(Option<Entry>, Moment) -> (Option<Entry>, T),
    ) -> (T, u32) {
        let now = self.env.now();
        let mut shard = self.shards.of(name);
        let cell = shard.cells.entry(name.clone()).or_default();
        let (entry, answer) = step(cell.entry.take(), now);
        cell.entry = entry;
        let listeners = cell.listeners;
        let freed = cell.entry.is_none().then(|| cell.topic.clone()).flatten();
        if cell.is_idle(now) {
            shard.cells.remove(name);
        } else if shard.cells.len() > shard.sweep_at {
            shard.cells.retain(|_, cell| !cell.is_idle(now));
            shard.sweep_at = (shard.cells.len() * SWEEP_GROWTH).max(64);
        }
        drop(shard);
        if let Some(topic) = freed {
            topic.wake();
        }
        (answer, listeners)
    }

    fn look(&self, name: &str) -> Snapshot {
        let now = self.env.now();
        let shard = self.shards.of(name);
        shard.cells.get(name).map_or_else(|| Snapshot::free(name), |cell| cell.view(name, now))
    }
}

impl Cell {
    fn view(&self, name: &str, now: Moment) -> Snapshot {
        match exclusive::live(self.entry.clone(), now) {
            Some(entry) => Snapshot::held(name, vec![entry.holder()], entry.ttl(now)),
            None => Snapshot::free(name),
        }
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for MemoryStore {
    fn answers_at_once(&self) -> bool {
        true
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        ready(Ok(self.step(&claim.name, |entry, now| exclusive::acquire(entry, claim, now)).0))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        let (answer, heard_by) =
            self.step(&claim.name, |entry, now| exclusive::release(entry, claim, now));
        ready(Ok(match answer {
            Released::Freed { .. } => Released::Freed { heard_by },
            other => other,
        }))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        let renew = |claim: &Claim| {
            Ok(self.step(&claim.name, |entry, now| exclusive::renew(entry, claim, now)).0)
        };
        ready(claims.iter().map(renew).collect())
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        let mut shard = self.shards.of(&claim.name);
        let cell = shard.cells.entry(claim.name.clone()).or_default();
        cell.listeners += 1;
        let topic = cell.topic.get_or_insert_default().clone();
        drop(shard);
        let subscription = Subscription { shards: self.shards.clone(), name: claim.name.clone() };
        ready(Ok(Listener::new(topic, subscription)))
    }

    fn inspect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        ready(Ok(self.look(name)))
    }

    fn force<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        let before = self.look(name);
        self.step(&before.name, |_, _| (None, ()));
        ready(Ok(before))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        let now = self.env.now();
        let mut all = Vec::new();
        for shard in &self.shards.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let named = shard.cells.iter().filter(|(name, _)| name.starts_with(prefix));
            all.extend(named.map(|(name, cell)| cell.view(name, now)).filter(Snapshot::is_held));
        }
        ready(Ok(all))
    }
}

/// One listener of a name; the last one takes the topic away.
struct Subscription {
    shards: Arc<Shards>,
    name: Arc<str>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut shard = self.shards.of(&self.name);
        let Some(cell) = shard.cells.get_mut(&self.name) else { return };
        cell.listeners -= 1;
        if cell.listeners == 0 {
            cell.topic = None;
            if cell.entry.is_none() {
                shard.cells.remove(&self.name);
            }
        }
    }
}
