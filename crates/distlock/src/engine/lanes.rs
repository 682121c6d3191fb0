//! The table of lanes: those in use, by name.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Engine;
use super::kind_rules::Spot;
use super::lane::Lane;
use super::shell::LaneCell;
use crate::owner::Owner;
use crate::store::ClaimKind;

const SHARDS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Shards {
    maps: [Mutex<HashSet<Named>>; SHARDS],
    hasher: RandomState,
}

impl Shards {
    fn of(&self, name: &str) -> MutexGuard<'_, HashSet<Named>> {
        let shard = self.hasher.hash_one(name) as usize % SHARDS;
        self.maps[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lanes of one name, kept under the name that they have themselves: a map would keep it twice. Most names have one.
#[derive(Debug)]
enum Named {
    One(Arc<LaneCell>),
    Many(Box<Several>),
}

/// In a box, so that the many that are one stay small.
#[derive(Debug)]
struct Several(Vec<Arc<LaneCell>>);

impl Named {
    fn lanes(&self) -> &[Arc<LaneCell>] {
        match self {
            Named::One(lane) => std::slice::from_ref(lane),
            Named::Many(several) => &several.0,
        }
    }

    fn find(&self, spot: Spot) -> Option<&Arc<LaneCell>> {
        self.lanes().iter().find(|lane| lane.is_at(spot))
    }

    fn with(self, lane: Arc<LaneCell>) -> Named {
        match self {
            Named::One(first) => Named::Many(Box::new(Several(vec![first, lane]))),
            Named::Many(mut several) => {
                several.0.push(lane);
                Named::Many(several)
            }
        }
    }

    fn without(self, gone: &Arc<LaneCell>) -> Option<Named> {
        match self {
            Named::One(lane) => (!Arc::ptr_eq(&lane, gone)).then_some(Named::One(lane)),
            Named::Many(mut several) => {
                let lanes = &mut several.0;
                if let Some(at) = lanes.iter().position(|lane| Arc::ptr_eq(lane, gone)) {
                    lanes.swap_remove(at);
                }
                if lanes.len() > 1 {
                    Some(Named::Many(several))
                } else {
                    lanes.pop().map(Named::One)
                }
            }
        }
    }
}

impl Borrow<str> for Named {
    fn borrow(&self) -> &str {
        self.lanes().first().map_or("", |lane| &*lane.name)
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let name: &str = self.borrow();
        name.hash(state);
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Named) -> bool {
        let (name, others): (&str, &str) = (self.borrow(), other.borrow());
        name == others
    }
}

impl Eq for Named {}

/// All lanes in use.
#[derive(Debug, Default)]
pub(super) struct Lanes(Arc<Shards>);

impl Lanes {
    /// Where a caller waits for `what`.
    pub(super) fn to_wait(
        &self,
        engine: &Engine,
        name: &Arc<str>,
        what: ClaimKind,
        owner: Owner,
        named: bool,
    ) -> LaneRef {
        self.get(engine, name, what, what.waits_at(owner, named))
    }

    /// Where a hold of `what` is kept.
    pub(super) fn to_sit(
        &self,
        engine: &Engine,
        name: &Arc<str>,
        what: ClaimKind,
        owner: Owner,
    ) -> LaneRef {
        self.get(engine, name, what, what.sits_at(owner))
    }

    fn get(&self, engine: &Engine, name: &Arc<str>, what: ClaimKind, spot: Spot) -> LaneRef {
        let common = what.counted_at(spot);
        // The lane in which releases are counted, before the shard is locked: it is in the same one.
        let counted = match common {
            None => None,
            Some(common) => match self.find(name, spot) {
                Some(lane) => return lane,
                None => Some(self.get(engine, name, what, common)),
            },
        };
        let mut shard = self.0.of(name);
        if let Some(lane) = shard.get(&**name).and_then(|named| named.find(spot)) {
            let lane = LaneRef::to(lane);
            drop(shard);
            return lane; // and the counted one is given back, now that the shard is free
        }
        // Holds of several owners are not kept in the lane in which they all wait.
        let sits_here = !what.is_shared() || spot.own.is_some();
        let lane = Lane::new(engine.rules.clone(), counted.is_some(), sits_here);
        let lane = Arc::new(LaneCell::new(name.clone(), spot, counted, lane, self.0.clone()));
        let named = match shard.take(&**name) {
            Some(named) => named.with(lane.clone()),
            None => Named::One(lane.clone()),
        };
        shard.insert(named);
        LaneRef::to(&lane)
    }

    pub(super) fn find(&self, name: &str, spot: Spot) -> Option<LaneRef> {
        self.0.of(name).get(name).and_then(|named| named.find(spot)).map(LaneRef::to)
    }

    /// The lanes of one name.
    pub(super) fn named(&self, name: &str) -> Vec<LaneRef> {
        let shard = self.0.of(name);
        let lanes = shard.get(name).map(Named::lanes).unwrap_or_default();
        lanes.iter().map(LaneRef::to).collect()
    }

    /// In the order of their names, so that what is done to all of them is done in the same order in each run of a test.
    pub(super) fn all(&self) -> Vec<LaneRef> {
        let mut lanes = Vec::new();
        for map in &self.0.maps {
            let map = map.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.extend(map.iter().flat_map(Named::lanes).map(LaneRef::to));
        }
        lanes.sort_by(|a, b| a.name.cmp(&b.name));
        lanes
    }
}

/// A use of a lane; the last one to go takes the lane out of the map.
#[derive(Debug)]
pub(super) struct LaneRef(Option<Arc<LaneCell>>);

impl Deref for LaneRef {
    type Target = LaneCell;

    fn deref(&self) -> &LaneCell {
        self.0.as_ref().expect("BUG: a lane is given back only in drop")
    }
}

impl LaneRef {
    /// For a lane that is in use, or whose shard is locked. One that has just gone out of use is not found by its name any more: it takes
    /// no more callers, and what comes for it finds that no task waits.
    pub(super) fn to(lane: &Arc<LaneCell>) -> LaneRef {
        lane.users.fetch_add(1, Ordering::Relaxed);
        LaneRef(Some(lane.clone()))
    }

    /// The lane itself, which does not keep it in use.
    pub(super) fn lane(&self) -> &Arc<LaneCell> {
        self.0.as_ref().expect("BUG: a lane is given back only in drop")
    }
}

impl Clone for LaneRef {
    fn clone(&self) -> LaneRef {
        LaneRef::to(self.lane())
    }
}

impl Drop for LaneRef {
    fn drop(&mut self) {
        let Some(lane) = self.0.take() else { return };
        // Only the last one needs the table.
        let one_of_many = |users: usize| (users > 1).then(|| users - 1);
        if lane.users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_of_many).is_ok() {
            return;
        }
        let home = lane.home.clone();
        let mut shard = home.of(&lane.name);
        // No caller can find it while the shard is locked.
        if lane.users.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(left) = shard.take(&*lane.name).and_then(|named| named.without(&lane))
        {
            shard.insert(left);
        }
        drop(shard);
        drop(lane);
    }
}
