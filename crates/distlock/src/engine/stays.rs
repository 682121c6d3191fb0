//! Which id the store knows an owner by.
//!
//! An [`Owner`] that the program names is an identity inside the process, and may enter and leave as often as it likes. The store gets
//! an id for each stay. Were it the owner's own, a release that the network delivers late would free the owner's next stay.

use std::sync::{Arc, Mutex, PoisonError};

use super::Engine;
use super::hold::{Tenure, Who};
use super::kind_rules::Class;
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{ClaimKind, Snapshot};

/// Stays of named owners whose guards were leaked: they go on at the store, and their owner may come back to them.
#[derive(Debug, Default)]
pub(super) struct Leaked(Mutex<Vec<LeakedStay>>);

#[derive(Debug)]
struct LeakedStay {
    name: Arc<str>,
    class: Class,
    owner: Owner,
    stay: Owner,
    /// When the store drops it.
    until: Moment,
}

impl Leaked {
    fn with<T>(&self, look: impl FnOnce(&mut Vec<LeakedStay>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, left: LeakedStay, now: Moment) {
        self.with(|all| {
            all.retain(|left| left.until > now);
            all.push(left);
        });
    }

    /// The id under which `owner` left something, most recently, in this class, that the store has not dropped by now. An id of what it
    /// has dropped is over: used again, the next stay could be released by it.
    fn find(&self, name: &str, owner: Owner, class: Class, now: Moment) -> Option<Owner> {
        self.with(|all| {
            let own = |left: &&LeakedStay| {
                let alike = left.owner == owner && left.class == class && *left.name == *name;
                alike && left.until > now
            };
            all.iter().rev().find(own).map(|left| left.stay)
        })
    }

    fn remove(&self, stay: Owner) {
        self.with(|all| all.retain(|left| left.stay != stay));
    }
}

impl Engine {
    /// Who asks next: a named owner under the id that it has, every other caller under a new one.
    pub(super) fn new_stay(
        &self,
        name: &Arc<str>,
        what: ClaimKind,
        owner: Owner,
        explicit: bool,
    ) -> Who {
        match explicit {
            true => Who { owner, stay: self.stay_of(name, what, owner) },
            false => Who::new(self.mint_owner()),
        }
    }

    /// The id for what a named owner is about to ask for: a new one, unless the owner is in there already. A writer may read
    /// under the same id, and the store tells by the id that it may; an owner that left a guard behind comes back to that stay.
    pub(super) fn stay_of(&self, name: &Arc<str>, what: ClaimKind, owner: Owner) -> Owner {
        let present = match what {
            ClaimKind::Read | ClaimKind::Write { .. } => self.present(name, owner, is_rw),
            _ => None,
        };
        let present =
            present.or_else(|| self.leaked.find(name, owner, what.class(), self.env.now()));
        present.unwrap_or_else(|| self.mint_owner())
    }

    /// The id under which `owner` is in a lane of such a class now.
    fn present(&self, name: &str, owner: Owner, is_one: fn(Class) -> bool) -> Option<Owner> {
        let tenures = self.lanes.named(name).into_iter().filter_map(|lane| lane.tenure());
        let mut own = tenures.filter(|tenure| tenure.owner == owner && is_one(tenure.what.class()));
        own.next().map(|tenure| tenure.stay)
    }

    /// Whether a guard of this process holds it for that owner, or under that id.
    pub(super) fn is_guarded(&self, name: &str, what: ClaimKind, who: Owner) -> bool {
        let tenures = self.lanes.named(name).into_iter().filter_map(|lane| lane.tenure());
        let mut alike = tenures.filter(|tenure| tenure.what.class() == what.class());
        alike.any(|tenure| tenure.owner == who || tenure.stay == who)
    }

    /// The owner whose stay has this id, if it is one of this process; else it is an owner itself, or unknown here.
    pub(crate) fn owner_of(&self, name: &str, who: Owner) -> Owner {
        let tenures = self.lanes.named(name).into_iter().filter_map(|lane| lane.tenure());
        let mut stays = tenures.filter(|tenure| tenure.stay == who);
        let left = || {
            self.leaked.with(|all| {
                let mut left = all.iter().filter(|left| *left.name == *name && left.stay == who);
                left.next().map(|left| left.owner)
            })
        };
        stays.next().map(|tenure| tenure.owner).or_else(left).unwrap_or(who)
    }

    /// The last guard of this stay was leaked.
    pub(super) fn remember_leaked(&self, tenure: &Tenure) {
        if tenure.owner != tenure.stay {
            let (name, class) = (tenure.name().clone(), tenure.what.class());
            let (owner, stay, until) = (tenure.owner, tenure.stay, tenure.vitals.expires());
            self.leaked.add(LeakedStay { name, class, owner, stay, until }, self.env.now());
        }
    }

    /// The id under which `owner` left a guard behind; its own if it is not known here: then it is the id of a stay, told by another
    /// process.
    pub(super) fn left_by(&self, name: &str, what: ClaimKind, owner: Owner) -> Owner {
        self.leaked.find(name, owner, what.class(), self.env.now()).unwrap_or(owner)
    }

    /// That stay is over.
    pub(super) fn forget_leaked(&self, stay: Owner) {
        self.leaked.remove(stay);
    }

    /// What the store says, with owners of this process under the names that the program gave them.
    pub(crate) fn in_own_names(&self, mut seen: Snapshot) -> Snapshot {
        let lanes = self.lanes.named(&seen.name);
        let held = lanes.iter().filter_map(|lane| lane.tenure());
        let mut names: Vec<(Owner, Owner)> =
            held.map(|tenure| (tenure.stay, tenure.owner)).collect();
        for lane in &lanes {
            lane.read(|lane| names.extend(lane.waiters()));
        }
        self.leaked.with(|all| {
            let here = all.iter().filter(|left| *left.name == *seen.name);
            names.extend(here.map(|left| (left.stay, left.owner)));
        });
        for (stay, owner) in names.into_iter().filter(|(stay, owner)| stay != owner) {
            let stay = stay.to_string();
            let holders = seen.holders.iter_mut().map(|holder| &mut holder.owner);
            for id in holders.chain(&mut seen.queue).filter(|id| **id == stay) {
                *id = owner.to_string();
            }
        }
        seen
    }
}

/// Both halves of a read-write lock.
fn is_rw(class: Class) -> bool {
    matches!(class, Class::Read | Class::Write)
}
