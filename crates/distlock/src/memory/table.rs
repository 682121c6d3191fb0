//! A sharded map of entries with expiry and wake-ups.
//!
//! The clock is read once a name's shard is locked: steps then follow each other in time as they do in the map. A time from
//! before the lock may be older than what somebody else wrote meanwhile, who would seem to have more than a whole lease left.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::env::Moment;
use crate::error::Result;
use crate::holder::HolderInfo;
use crate::owner::Owner;
use crate::store::machine::entry::{self, AnyEntry, AnyTransition};
use crate::store::machine::{MachineContext, Transition, Wake, fenced};
use crate::store::{Claim, ClaimKind, Holder, Listener, Snapshot, Topic};

const SHARDS: usize = 16;

/// A shard looks for expired entries each time it has grown by this factor since the last time.
const SWEEP_GROWTH: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Table {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// The last fencing token.
    token: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Shard {
    cells: HashMap<Arc<str>, Cell>,
    sweep_at: usize,
}

/// What stands under a name, and who listens to it.
#[derive(Debug, Default)]
struct Cell {
    entry: Option<AnyEntry>,
    ears: Ears,
    /// What holders say of themselves. In a box because most locks have none.
    infos: Option<Box<Infos>>,
}

/// By [`Holder::info_key`](crate::store::Holder::info_key).
type Infos = HashMap<String, Arc<HolderInfo>>;

/// Those who listen to a name.
#[derive(Debug, Default)]
struct Ears {
    everybody: Option<Ear>,
    /// Those who wait in the queue of a fair lock listen for themselves.
    waiters: HashMap<Owner, Ear>,
}

#[derive(Debug, Default)]
struct Ear {
    topic: Arc<Topic>,
    listeners: u32,
}

impl Ears {
    fn is_empty(&self) -> bool {
        self.everybody.is_none() && self.waiters.is_empty()
    }

    fn of(&self, waiter: Option<Owner>) -> Option<&Ear> {
        match waiter {
            Some(waiter) => self.waiters.get(&waiter),
            None => self.everybody.as_ref(),
        }
    }

    fn join(&mut self, waiter: Option<Owner>) -> Arc<Topic> {
        let ear = match waiter {
            Some(waiter) => self.waiters.entry(waiter).or_default(),
            None => self.everybody.get_or_insert_default(),
        };
        ear.listeners += 1;
        ear.topic.clone()
    }

    fn leave(&mut self, waiter: Option<Owner>) {
        match waiter {
            Some(waiter) => {
                if let Some(ear) = self.waiters.get_mut(&waiter) {
                    ear.listeners -= 1;
                    if ear.listeners == 0 {
                        self.waiters.remove(&waiter);
                    }
                }
            }
            None => {
                if let Some(ear) = &mut self.everybody {
                    ear.listeners -= 1;
                    if ear.listeners == 0 {
                        self.everybody = None;
                    }
                }
            }
        }
    }
}

impl Cell {
    /// Keeps what the claim says of its holder, if that holds now, and forgets whoever does not hold any more.
    fn note(&mut self, claim: Option<&Claim>, now: Moment) {
        if let Some((claim, info)) = claim.and_then(|claim| Some((claim, claim.info.as_ref()?)))
            && claim.depth > 0
        {
            self.infos.get_or_insert_default().insert(claim.info_key(), info.clone());
        }
        let Some(infos) = &mut self.infos else { return };
        let holders = match &self.entry {
            Some(entry) => entry.view("", now).holders,
            None => Vec::new(),
        };
        let hold: HashSet<String> = holders.iter().map(Holder::info_key).collect();
        infos.retain(|key, _| hold.contains(key));
        if infos.is_empty() {
            self.infos = None;
        }
    }

    /// What stands there, with what is around it.
    fn view(&self, entry: &AnyEntry, name: &str, now: Moment) -> Snapshot {
        let mut seen = entry.view(name, now);
        if let Some(infos) = &self.infos {
            for holder in &mut seen.holders {
                holder.info = infos.get(&holder.info_key()).map(|info| HolderInfo::clone(info));
            }
        }
        let listeners = self.ears.everybody.iter().chain(self.ears.waiters.values());
        let waiters = listeners.map(|ear| ear.listeners).sum();
        seen.with_waiters(Some(waiters))
    }

    fn is_idle(&self, now: Moment) -> bool {
        self.ears.is_empty() && self.entry.as_ref().is_none_or(|entry| !entry.is_live(now))
    }
}

impl Table {
    fn of(&self, name: &str) -> MutexGuard<'_, Shard> {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one step of a machine and calls out what it says; also tells how many heard that.
    pub(super) fn step<T>(
        &self,
        name: &Arc<str>,
        claim: Option<&Claim>,
        clock: impl FnOnce() -> Moment,
        step: impl FnOnce(Option<AnyEntry>, Moment, &dyn MachineContext) -> AnyTransition<T>,
    ) -> Result<(T, u32)> {
        let mut shard = self.of(name);
        let now = clock();
        let cell = shard.cells.entry(name.clone()).or_default();
        let before = cell.entry.take().filter(|entry| entry.is_live(now));
        let Transition { entry, answer, wake } =
            match step(before, now, &Near { table: self, ears: &cell.ears }) {
                Ok(step) => step,
                Err(taken) => {
                    cell.entry = Some(taken.0.clone());
                    return Err(taken.refused());
                }
            };
        cell.entry = entry;
        cell.note(claim, now);
        let called = match wake {
            Wake::None => None,
            Wake::All => cell.ears.of(None),
            Wake::Waiter(waiter) => cell.ears.of(Some(waiter)),
        };
        let called = called.map(|ear| (ear.topic.clone(), ear.listeners));
        if cell.is_idle(now) {
            shard.cells.remove(name);
        } else if shard.cells.len() > shard.sweep_at {
            shard.cells.retain(|_, cell| !cell.is_idle(now));
            shard.sweep_at = (shard.cells.len() * SWEEP_GROWTH).max(64);
        }
        drop(shard);
        let heard_by = called.map_or(0, |(topic, listeners)| {
            topic.wake();
            listeners
        });
        Ok((answer, heard_by))
    }

    /// What stands under a name, read as a lock of this kind.
    pub(super) fn look(
        &self,
        what: ClaimKind,
        name: &str,
        clock: impl FnOnce() -> Moment,
    ) -> Result<Snapshot> {
        let shard = self.of(name);
        let now = clock();
        let seen = shard.cells.get(name).and_then(|cell| Some((cell, cell.entry.as_ref()?)));
        match seen.filter(|(_, entry)| entry.is_live(now)) {
            None => Ok(Snapshot::free(name)),
            Some((_, entry)) if !entry.is_of(what) => {
                Err(entry::WrongKind(entry.clone()).refused())
            }
            Some((cell, entry)) => Ok(cell.view(entry, name, now)),
        }
    }

    #[cfg(all(test, feature = "redis"))]
    pub(super) fn peek(&self, name: &str) -> Option<AnyEntry> {
        self.of(name).cells.get(name).and_then(|cell| cell.entry.clone())
    }

    pub(super) fn list(&self, prefix: &str, clock: impl Fn() -> Moment) -> Vec<Snapshot> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let now = clock();
            let named = shard.cells.iter().filter(|(name, _)| name.starts_with(prefix));
            let live = named.filter_map(|(name, cell)| Some((name, cell, cell.entry.as_ref()?)));
            let live = live.filter(|(.., entry)| entry.is_live(now));
            let seen = live.map(|(name, cell, entry)| cell.view(entry, name, now));
            all.extend(seen.filter(Snapshot::is_held));
        }
        all
    }

    /// Listens to a name, or for one waiter.
    pub(super) fn listen(self: &Arc<Self>, name: &Arc<str>, waiter: Option<Owner>) -> Listener {
        let mut shard = self.of(name);
        let topic = shard.cells.entry(name.clone()).or_default().ears.join(waiter);
        drop(shard);
        Listener::new(topic, Subscription { table: self.clone(), name: name.clone(), waiter })
    }
}

/// What a machine may ask while its cell is being worked on.
struct Near<'a> {
    table: &'a Table,
    ears: &'a Ears,
}

impl MachineContext for Near<'_> {
    fn listens(&self, owner: Owner) -> bool {
        self.ears.of(Some(owner)).is_some()
    }

    fn token(&self) -> u64 {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut token = self.table.token.lock().unwrap_or_else(PoisonError::into_inner);
        *token = fenced::next(*token, millis);
        *token
    }
}

/// One listener; the last one takes the topic away.
struct Subscription {
    table: Arc<Table>,
    name: Arc<str>,
    waiter: Option<Owner>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut shard = self.table.of(&self.name);
        let Some(cell) = shard.cells.get_mut(&self.name) else { return };
        cell.ears.leave(self.waiter);
        if cell.ears.is_empty() && cell.entry.is_none() {
            shard.cells.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::holder::{Asker, service};
    use crate::store::ClaimKind;
    use crate::store::machine::entry;

    /// Whoever comes and goes beside one who stays leaves no words behind.
    #[test]
    fn words_go_with_their_holders() {
        let table = Table::default();
        let (name, now): (Arc<str>, _) = ("s".into(), Moment::from_origin(Duration::from_secs(1)));
        let asker = Asker::new(&service("billing"), Some("x"), now);
        let claim = |owner, depth| Claim {
            name: name.clone(),
            owner,
            lease: Duration::from_secs(30),
            depth,
            heir_of: None,
            kind: ClaimKind::Permits { count: 1, initial: Some(3) },
            info: Some(asker.info(&crate::env::System)),
        };
        let words = || table.of(&name).cells[&name].infos.as_ref().map_or(0, |infos| infos.len());
        let take = |claim: &Claim| {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::acquire(entry, claim, now, context)
            };
            table.step(&name, Some(claim), || now, step).map(drop).unwrap();
        };
        let leave = |claim: &Claim| {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::release(entry, claim, now, context)
            };
            table.step(&name, Some(claim), || now, step).map(drop).unwrap();
        };
        let client = uuid::Uuid::new_v4();
        take(&claim(Owner::mint(client), 1));
        for _ in 0..10 {
            let owner = Owner::mint(client);
            take(&claim(owner, 1));
            assert_eq!(words(), 2);
            leave(&claim(owner, 0));
            assert_eq!(words(), 1);
        }
    }
}
