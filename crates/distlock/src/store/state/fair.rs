//! A hold and a queue: one owner at a time, in the order in which they asked. What `scripts/fair_*.lua` do, in Rust.
//!
//! A waiter keeps its place for as long as its time says, and puts that off each time it asks. It is known to be there
//! while it listens for itself. When the lock is free and those before the first who is there do not listen, they get a
//! short grace, all of them the same one: a queue of the dead costs as much as one of them.

use std::ops::Range;
use std::time::Duration;

use super::{Around, Machine, Step, Wake, exclusive};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Released, Snapshot, What};

/// The longest that a waiter rests before it asks again. A lost call costs as much.
pub const RECHECK: Duration = Duration::from_secs(5);

/// The same for the first few in line: if whoever was called dies at that moment, it is they who find out.
pub const RECHECK_NEAR: Duration = Duration::from_millis(1500);

/// How many these are.
pub const NEAR: usize = 8;

/// A waiter with little patience asks more often than that, lest its place be given away; but not more often than this.
pub const RECHECK_LEAST: Duration = Duration::from_millis(100);

/// When a lease ends only the first in line comes at once. The others come this much later, in case it does not.
pub const LATER: Duration = Duration::from_secs(2);

/// How long one who does not listen keeps its place while the lock is free: it may be about to listen.
pub const GRACE: Duration = Duration::from_secs(1);

/// How long one who listens but does not come keeps its place while the lock is free: it may be cut off.
pub const ABSENCE: Duration = Duration::from_secs(5);

/// How many are looked at in one step for one who is there.
pub const WALK: usize = 128;

/// When somebody goes, those behind it come closer to their turn and so to their time. It is not cut to less than this.
pub const LEAST: Duration = Duration::from_secs(5);

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
    /// The entry without an expired hold.
    fn now(entry: Option<Entry>, now: Moment) -> Entry {
        let Entry { held, queue } = entry.unwrap_or_default();
        Entry { held: exclusive::live(held, now), queue }
    }

    /// `None` if nothing is left.
    fn some(self) -> Option<Entry> {
        (self.held.is_some() || !self.queue.is_empty()).then_some(self)
    }

    fn with<T>(self, answer: T, wake: Wake) -> Step<Entry, T> {
        Step { entry: self.some(), answer, wake }
    }

    fn ttl(&self, now: Moment) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, |held| held.ttl(now))
    }

    fn place_of(&self, owner: Owner) -> Option<usize> {
        self.queue.iter().position(|place| place.owner == owner)
    }

    /// Drops those at the head of the queue whose time is over. Says whether there were any.
    fn drop_dead(&mut self, now: Moment) -> bool {
        let dead = self.queue.iter().take_while(|place| place.until <= now).count();
        self.queue.drain(..dead);
        dead > 0
    }

    /// Brings the times of those from `from` on closer, but not below `floor`.
    fn lower(&mut self, from: usize, by: Duration, floor: Moment) {
        for place in &mut self.queue[from..] {
            place.until = place.until.before(by).max(place.until.min(floor));
        }
    }

    /// Leaves these waiters no more time than until `limit`, and brings those behind them closer by as much. Says whether
    /// any of them had more.
    fn cut(&mut self, these: Range<usize>, limit: Moment, now: Moment) -> bool {
        let mut by = Duration::ZERO;
        for place in &mut self.queue[these.clone()] {
            by = by.max(place.until.since(limit));
            place.until = place.until.min(limit);
        }
        self.lower(these.end, by, now.after(LEAST));
        by > Duration::ZERO
    }

    /// The first in the queue who is there. Those before it get a short grace; also says whether any of them had more.
    fn first_present(
        &mut self,
        now: Moment,
        present: impl Fn(Owner) -> bool,
    ) -> (Option<usize>, bool) {
        let near = &self.queue[..self.queue.len().min(WALK)];
        let first = near.iter().position(|place| present(place.owner));
        let absent = 0..first.unwrap_or(near.len());
        (first, self.cut(absent, now.after(GRACE), now))
    }

    /// The lock is free: whom to call.
    fn next(&mut self, now: Moment, around: &dyn Around) -> Wake {
        let (first, _) = self.first_present(now, |owner| around.listens(owner));
        first.map_or(Wake::Nobody, |first| Wake::Waiter(self.queue[first].owner))
    }

    /// The lock is free and it is not this one's turn: how long to wait for those whose turn it is, and whom to call.
    fn stand_by(&mut self, me: Owner, now: Moment, around: &dyn Around) -> (Duration, Wake, bool) {
        let present = |owner| owner == me || around.listens(owner);
        let (first, mut changed) = self.first_present(now, present);
        let mut before = first.unwrap_or(self.queue.len().min(WALK));
        let mut called = Wake::Nobody;
        if let Some(first) = first
            && self.queue[first].owner != me
        {
            changed |= self.cut(first..first + 1, now.after(ABSENCE), now);
            called = Wake::Waiter(self.queue[first].owner);
            before += 1;
        }
        let last = self.queue[..before].iter().map(|place| place.until).max();
        (last.map_or(Duration::ZERO, |last| last.since(now)), called, changed)
    }

    /// The lock is held, and another one may be first in line than before. It learns that when it asks next, unless the lock
    /// may be free before.
    fn first_in_line(&self, ttl: Duration) -> Wake {
        match self.queue.first() {
            Some(first) if ttl < RECHECK => Wake::Waiter(first.owner),
            _ => Wake::Nobody,
        }
    }

    fn acquire_in_turn(
        mut self,
        claim: &Claim,
        patience: Option<Duration>,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, Attempt> {
        let me = claim.owner;
        // Nobody's place is worth less than a millisecond: the wire knows nothing shorter.
        let patience = patience.map(|patience| patience.max(Duration::from_millis(1)));
        let wait = patience.unwrap_or_default();
        let queued = patience.and(self.place_of(me));
        if let Some(index) = queued {
            // Who asks is there, and does not lose its place by asking.
            let place = &mut self.queue[index];
            place.until = place.until.max(now.after(wait));
        }
        let dropped = self.drop_dead(now);
        let first_in_line = self.queue.first().is_none_or(|place| place.owner == me);

        if self.held.is_none() && first_in_line {
            let mut wake = Wake::Nobody;
            if !self.queue.is_empty() {
                self.queue.remove(0);
                self.lower(0, wait, now.after((claim.lease + wait).max(LEAST)));
                wake = self.first_in_line(claim.lease);
            }
            let (held, answer) = exclusive::acquire(None, claim, now);
            return Entry { held, ..self }.with(answer, wake);
        }

        let ttl = self.ttl(now);
        let (mut rest, mut wake) = (ttl, Wake::Nobody);
        if self.held.is_none() {
            let (grace, called, changed) = self.stand_by(me, now, around);
            rest = grace;
            // A call may have been lost, and a lease ends without one. Once for each change: this is no polling.
            if changed || dropped {
                wake = called;
            }
        } else if !first_in_line {
            wake = if dropped { self.first_in_line(ttl) } else { Wake::Nobody };
            rest += if patience.is_some() { LATER } else { Duration::ZERO };
        }
        if patience.is_some() {
            let recheck = match queued.unwrap_or(self.queue.len()) < NEAR {
                true => RECHECK_NEAR,
                false => RECHECK,
            };
            rest = rest.min(recheck.min(wait / 2).max(RECHECK_LEAST));
            if queued.is_none() {
                let last = self.queue.last().map_or(now, |place| place.until).max(now.after(ttl));
                self.queue.push(Place { owner: me, until: last.after(wait) });
            }
        }
        self.with(Attempt::Busy { ttl: rest }, wake)
    }
}

impl Machine for Entry {
    fn is_live(&self, now: Moment) -> bool {
        self.queue.iter().any(|place| place.until > now)
            || self.held.as_ref().is_some_and(|held| held.expires > now)
    }

    fn acquire(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, Attempt> {
        let entry = Entry::now(entry, now);
        if let What::Fair { patience } = claim.what
            && claim.depth == 1
            && claim.heir_of.is_none()
            && entry.held.as_ref().is_none_or(|held| held.owner != claim.owner)
        {
            return entry.acquire_in_turn(claim, patience, now, around);
        }
        // A hold is set or passed on; or the claim is of a kind that ignores the queue.
        let (held, answer) = exclusive::acquire(entry.held, claim, now);
        let answer = match (claim.what, answer) {
            (What::Fenced, Attempt::Acquired { .. }) => {
                Attempt::Acquired { token: Some(around.token()) }
            }
            (_, answer) => answer,
        };
        let mut queue = entry.queue;
        if claim.heir_of.is_some() && matches!(answer, Attempt::Acquired { .. }) {
            queue.retain(|place| place.owner != claim.owner);
        }
        Entry { held, queue }.with(answer, Wake::Nobody)
    }

    fn release(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, Released> {
        let Entry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::release(held, claim, now);
        let mut entry = Entry { held, queue };
        if !matches!(claim.what, What::Fair { .. }) {
            let freed = matches!(answer, Released::Freed { .. });
            return entry.with(answer, if freed { Wake::Everybody } else { Wake::Nobody });
        }
        entry.drop_dead(now);
        // Also if it had expired, or was released before and the answer was lost: nobody may have been called yet.
        let wake = match entry.held {
            None if claim.depth == 0 => entry.next(now, around),
            _ => Wake::Nobody,
        };
        entry.with(answer, wake)
    }

    fn renew(entry: Option<Entry>, claim: &Claim, now: Moment) -> Step<Entry, bool> {
        let Entry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::renew(held, claim, now);
        Step::quiet(Entry { held, queue }.some(), answer)
    }

    fn give_up(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, ()> {
        let What::Fair { patience } = claim.what else {
            let Step { entry, wake, .. } = Entry::release(entry, claim, now, around);
            return Step { entry, answer: (), wake };
        };
        let mut entry = Entry::now(entry, now);
        let mut left = entry.drop_dead(now);
        if entry.held.as_ref().is_some_and(|held| held.owner == claim.owner) {
            entry.held = None;
            left = true;
        }
        if let Some(index) = entry.place_of(claim.owner) {
            entry.queue.remove(index);
            let wait = patience.unwrap_or_default();
            entry.lower(index, wait, now.after((entry.ttl(now) + wait).max(LEAST)));
            left = true;
        }
        // Whoever was called and leaves passes the call on.
        let wake = match &entry.held {
            None if left => entry.next(now, around),
            Some(held) if left => entry.first_in_line(held.ttl(now)),
            _ => Wake::Nobody,
        };
        entry.with((), wake)
    }

    fn force(
        entry: Option<Entry>,
        what: What,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Entry, ()> {
        let mut entry = Entry { held: None, ..entry.unwrap_or_default() };
        if !matches!(what, What::Fair { .. }) {
            return entry.with((), Wake::Everybody);
        }
        entry.drop_dead(now);
        let wake = entry.next(now, around);
        entry.with((), wake)
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let waiting = self.queue.iter().skip_while(|place| place.until <= now);
        let queue = waiting.map(|place| place.owner.to_string()).collect();
        let snapshot = match &self.held {
            Some(held) if held.expires > now => {
                Snapshot::held(name, vec![held.holder()], held.ttl(now))
            }
            _ => Snapshot::free(name),
        };
        snapshot.with_queue(queue)
    }
}

#[cfg(test)]
mod tests;
