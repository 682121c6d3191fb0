//! Which lanes there are: one per name that somebody uses.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waiters::Lane;

const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Shards {
    maps: [Mutex<HashSet<ByName>>; SHARDS],
    hasher: RandomState,
}

impl Shards {
    fn of(&self, name: &str) -> MutexGuard<'_, HashSet<ByName>> {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        self.maps[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane under its own name: a map would keep the name twice.
#[derive(Debug)]
struct ByName(Arc<Lane>);

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (*self.0.name).hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

/// All lanes in use.
#[derive(Debug, Default)]
pub(super) struct Lanes(Arc<Shards>);

impl Lanes {
    pub(super) fn get(&self, name: &Arc<str>) -> LaneRef {
        let mut shard = self.0.of(name);
        if let Some(ByName(lane)) = shard.get(&**name) {
            return LaneRef::to(lane);
        }
        let lane = Arc::new(Lane::new(name.clone(), self.0.clone()));
        shard.insert(ByName(lane.clone()));
        LaneRef::to(&lane)
    }

    pub(super) fn find(&self, name: &str) -> Option<LaneRef> {
        self.0.of(name).get(name).map(|ByName(lane)| LaneRef::to(lane))
    }

    pub(super) fn all(&self) -> Vec<LaneRef> {
        let mut lanes = Vec::new();
        for map in &self.0.maps {
            let map = map.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.extend(map.iter().map(|ByName(lane)| LaneRef::to(lane)));
        }
        lanes
    }
}

/// A use of a lane; the last one to go takes the lane out of the map.
#[derive(Debug)]
pub(super) struct LaneRef(Option<Arc<Lane>>);

impl Deref for LaneRef {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.0.as_ref().expect("BUG: a lane is given back only in drop")
    }
}

impl LaneRef {
    /// For a lane that is in use, or whose shard is locked.
    fn to(lane: &Arc<Lane>) -> LaneRef {
        lane.users.fetch_add(1, Ordering::Relaxed);
        LaneRef(Some(lane.clone()))
    }

    /// The lane itself, which does not keep it in use.
    pub(super) fn lane(&self) -> Arc<Lane> {
        self.0.clone().expect("BUG: a lane is given back only in drop")
    }
}

impl Clone for LaneRef {
    fn clone(&self) -> LaneRef {
        LaneRef::to(&self.lane())
    }
}

impl Drop for LaneRef {
    fn drop(&mut self) {
        let Some(lane) = self.0.take() else { return };
        let home = lane.home.clone();
        let mut shard = home.of(&lane.name);
        // Nobody else can get at it while the shard is locked.
        if lane.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            shard.remove(&*lane.name);
        }
        drop(shard);
        drop(lane);
    }
}
