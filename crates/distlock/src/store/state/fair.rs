//! A hold and a queue: one owner at a time, in the order in which they asked. What `scripts/fair_*.lua` do, in Rust.

use super::{Around, Machine, Step, exclusive};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Released, Snapshot, What};

/// A lock that is held, waited for, or both. One that is neither has no entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Who holds it.
    pub held: Option<exclusive::Entry>,
    /// Who waits, first in line first.
    pub queue: Vec<Place>,
}

/// A waiter's place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who waits.
    pub owner: Owner,
    /// When it loses its place if it is first in line and not heard of.
    pub until: Moment,
}

impl Entry {
    /// `None` if nothing is left.
    fn some(self) -> Option<Entry> {
        (self.held.is_some() || !self.queue.is_empty()).then_some(self)
    }
}

impl Machine for Entry {
    fn is_live(&self, now: Moment) -> bool {
        !self.queue.is_empty() || self.held.as_ref().is_some_and(|held| held.expires > now)
    }

    fn acquire(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, Attempt> {
        let Entry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::acquire(held, claim, now);
        let answer = match (claim.what, answer) {
            (What::Fenced, Attempt::Acquired { .. }) => {
                Attempt::Acquired { token: Some(around.token()) }
            }
            (_, answer) => answer,
        };
        Step::quiet(Entry { held, queue }.some(), answer)
    }

    fn release(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Released> {
        let Entry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::release(held, claim, now);
        let entry = Entry { held, queue }.some();
        match answer {
            Released::Freed { .. } => Step::loud(entry, answer),
            _ => Step::quiet(entry, answer),
        }
    }

    fn renew(entry: Option<Entry>, claim: &Claim, now: Moment) -> Step<Entry, bool> {
        let Entry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::renew(held, claim, now);
        Step::quiet(Entry { held, queue }.some(), answer)
    }

    fn force(entry: Option<Entry>, _: What, _: Moment, _: &dyn Around) -> Step<Entry, ()> {
        let queue = entry.map(|entry| entry.queue).unwrap_or_default();
        Step::loud(Entry { held: None, queue }.some(), ())
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let queue = self.queue.iter().map(|place| place.owner.to_string()).collect();
        let snapshot = match &self.held {
            Some(held) if held.expires > now => {
                Snapshot::held(name, vec![held.holder()], held.ttl(now))
            }
            _ => Snapshot::free(name),
        };
        snapshot.with_queue(queue)
    }
}
