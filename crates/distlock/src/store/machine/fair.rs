//! A hold and a queue: one owner at a time, in the order of their first attempts. What `scripts/fair_*.lua` do, in Rust.
//!
//! A waiter keeps its place until a time that each of its attempts puts off. It counts as present while it has a listener of its own. When the
//! lock is free and the waiters before the first present one have no listeners, all of them get the same short grace: a queue of dead
//! waiters costs as much as one dead waiter.

use std::time::Duration;

use super::{Machine, MachineContext, Transition, Wake, exclusive};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};

/// The longest pause of a waiter between two attempts. A lost message costs as much.
pub const RECHECK: Duration = Duration::from_secs(5);

/// The same for the first waiters in the queue: if the notified waiter dies at that moment, they find out.
pub const RECHECK_NEAR: Duration = Duration::from_millis(1500);

/// How many waiters pause for [`RECHECK_NEAR`] at most.
pub const NEAR: usize = 8;

/// The shortest pause: a waiter with little patience tries more often than the others, so that it keeps its place, but not more often than this.
pub const RECHECK_LEAST: Duration = Duration::from_millis(100);

/// When a lease ends, only the first waiter tries at once. The others try this much later, in case the first does not.
pub const LATER: Duration = Duration::from_secs(2);

/// How long a waiter without a listener keeps its place while the lock is free: it may be about to subscribe.
pub const GRACE: Duration = Duration::from_secs(1);

/// How long a waiter with a listener keeps its place while the lock is free and it does not acquire: it may be cut off.
pub const ABSENCE: Duration = Duration::from_secs(5);

/// How many waiters one operation examines to find a present one.
pub const WALK: usize = 128;

/// When a waiter leaves the queue, the times of those behind it are cut, but not to less than this.
pub const LEAST: Duration = Duration::from_secs(5);

/// When a dead waiter is removed, the next one gets no more time than the rest of the lease and this. Redisson's patience.
pub const PLACE: Duration = Duration::from_secs(300);

/// A lock that is held, waited for, or both. One that is neither has no entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FairEntry {
    /// The hold.
    pub held: Option<exclusive::TimedHold>,
    /// The waiters, the first one first.
    pub queue: Vec<QueuePlace>,
}

/// A waiter's place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The waiter.
    pub owner: Owner,
    /// When it loses its place if it is the first and has not tried again.
    pub until: Moment,
}

impl FairEntry {
    /// Returns the entry without an expired hold.
    fn now(entry: Option<FairEntry>, now: Moment) -> FairEntry {
        let FairEntry { held, queue } = entry.unwrap_or_default();
        FairEntry { held: exclusive::live(held, now), queue }
    }

    /// Returns the entry, or `None` if it has neither a hold nor a waiter.
    fn some(self) -> Option<FairEntry> {
        (self.held.is_some() || !self.queue.is_empty()).then_some(self)
    }

    fn with<T>(self, answer: T, wake: Wake) -> Transition<FairEntry, T> {
        Transition { entry: self.some(), answer, wake }
    }

    fn ttl(&self, now: Moment) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, |held| held.ttl(now))
    }

    fn place_of(&self, owner: Owner) -> Option<usize> {
        self.queue.iter().position(|place| place.owner == owner)
    }

    /// Removes the waiters at the head of the queue whose time is over, and returns whether there were any. With an `asker`, for whom the
    /// lock is free, the waiters behind them that have no listener have had the same grace and are removed too.
    fn drop_dead(
        &mut self,
        now: Moment,
        asker: Option<Owner>,
        context: &dyn MachineContext,
    ) -> bool {
        let mut dead = self.queue.iter().take_while(|place| place.until <= now).count();
        if dead == 0 {
            return false;
        }
        if let Some(asker) = asker {
            let behind = self.queue[dead..].iter().take(WALK);
            let absent =
                |place: &&QueuePlace| place.owner != asker && !context.listens(place.owner);
            dead += behind.take_while(absent).count();
        }
        self.queue.drain(..dead);
        if let Some(first) = self.queue.first() {
            // The patience of the removed waiters is still part of the others' times.
            let by = first.until.since(now.after(self.ttl(now) + PLACE));
            self.closer(0, by);
        }
        true
    }

    /// Cuts the times of the waiters from index `from` on, all by the same. When a waiter acquires, Redisson takes its patience off the times
    /// of all behind it, however little they have left: so it must still be part of them.
    fn closer(&mut self, from: usize, by: Duration) {
        for place in &mut self.queue[from..] {
            place.until = place.until.before(by);
        }
    }

    /// A waiter has left the place at `from`: cuts the times of those behind it, but that of the first of them not below `floor`.
    fn close_up(&mut self, from: usize, by: Duration, floor: Moment) {
        if let Some(first) = self.queue.get(from) {
            self.closer(from, by.min(first.until.since(floor)));
        }
    }

    /// The lock is free and the first waiter does not acquire it: cuts its time to `limit`, and returns the time that it has left, and whether
    /// it had more. The times of the others stay: Redisson takes what is cut off once more when the waiter acquires.
    fn cut(&mut self, limit: Moment, now: Moment) -> (Duration, bool) {
        let head = &mut self.queue[0];
        let had_more = head.until > limit;
        head.until = head.until.min(limit);
        (head.until.since(now), had_more)
    }

    /// Returns the index of the first waiter that is `present`.
    fn first_present(&self, present: impl Fn(Owner) -> bool) -> Option<usize> {
        self.queue.iter().take(WALK).position(|place| present(place.owner))
    }

    /// The lock is free: returns the waiter to notify.
    fn next(&mut self, now: Moment, context: &dyn MachineContext) -> Wake {
        // If no waiter is present, none has to wait for the others, and the next waiter that comes adds to their times.
        let first = self.first_present(|owner| context.listens(owner));
        let Some(first) = first else { return Wake::None };
        if first > 0 {
            self.cut(now.after(GRACE), now);
        }
        Wake::Waiter(self.queue[first].owner)
    }

    /// The lock is free and another waiter is before `me`: returns how long to wait for that one, the waiter to notify, and whether its time
    /// was cut.
    fn stand_by(
        &mut self,
        me: Owner,
        now: Moment,
        context: &dyn MachineContext,
    ) -> (Duration, Wake, bool) {
        let first = self.first_present(|owner| owner == me || context.listens(owner));
        let limit = if first == Some(0) { ABSENCE } else { GRACE };
        let (left, changed) = self.cut(now.after(limit), now);
        let notified = first.map(|first| self.queue[first].owner).filter(|owner| *owner != me);
        (left, notified.map_or(Wake::None, Wake::Waiter), changed)
    }

    /// The lock is held, and another waiter may be the first than before: returns that one if the lock may be free before its next
    /// attempt, which would tell it.
    fn first_in_line(&self, ttl: Duration) -> Wake {
        match self.queue.first() {
            Some(first) if ttl < RECHECK => Wake::Waiter(first.owner),
            _ => Wake::None,
        }
    }

    fn acquire_in_turn(
        mut self,
        claim: &Claim,
        patience: Option<Duration>,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, Attempt> {
        let me = claim.owner;
        // A place lasts at least a millisecond: the wire format knows nothing shorter.
        let patience = patience.map(|patience| patience.max(Duration::from_millis(1)));
        let wait = patience.unwrap_or_default();
        let queued = patience.and(self.place_of(me));
        if let Some(index) = queued {
            // A waiter that tries is present, and does not lose its place by trying.
            let place = &mut self.queue[index];
            place.until = place.until.max(now.after(wait));
        }
        let asker = self.held.is_none().then_some(me);
        let dropped = self.drop_dead(now, asker, context);
        let first_in_line = self.queue.first().is_none_or(|place| place.owner == me);

        if self.held.is_none() && first_in_line {
            let mut wake = Wake::None;
            if !self.queue.is_empty() {
                self.queue.remove(0);
                self.close_up(0, wait, now.after((claim.lease + wait).max(LEAST)));
                wake = self.first_in_line(claim.lease);
            }
            let (held, answer) = exclusive::acquire(None, claim, now);
            return FairEntry { held, ..self }.with(answer, wake);
        }

        let ttl = self.ttl(now);
        // Read before any time is cut: the new place is added to it.
        let last = self.queue.last().map_or(now, |place| place.until).max(now.after(ttl));
        let (mut rest, mut wake) = (ttl, Wake::None);
        if self.held.is_none() {
            let (grace, notified, changed) = self.stand_by(me, now, context);
            rest = grace;
            // A notification may have been lost, and a lease ends without one. Once for each change, so it is no polling.
            if changed || dropped {
                wake = notified;
            }
        } else if !first_in_line {
            wake = if dropped { self.first_in_line(ttl) } else { Wake::None };
            rest += if patience.is_some() { LATER } else { Duration::ZERO };
        }
        if patience.is_some() {
            let recheck = match queued.unwrap_or(self.queue.len()) < NEAR {
                true => RECHECK_NEAR,
                false => RECHECK,
            };
            rest = rest.min(recheck.min(wait / 2).max(RECHECK_LEAST));
            if queued.is_none() {
                self.queue.push(QueuePlace { owner: me, until: last.after(wait) });
            }
        }
        self.with(Attempt::Busy { ttl: rest }, wake)
    }
}

impl Machine for FairEntry {
    fn is_live(&self, now: Moment) -> bool {
        self.queue.iter().any(|place| place.until > now)
            || self.held.as_ref().is_some_and(|held| held.expires > now)
    }

    fn acquire(
        entry: Option<FairEntry>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, Attempt> {
        let entry = FairEntry::now(entry, now);
        if let ClaimKind::Fair { patience } = claim.kind
            && claim.depth == 1
            && claim.heir_of.is_none()
            && entry.held.as_ref().is_none_or(|held| held.owner != claim.owner)
        {
            return entry.acquire_in_turn(claim, patience, now, context);
        }
        // A hold is set or passed on; or the claim is of a kind that ignores the queue.
        let (held, answer) = exclusive::acquire(entry.held, claim, now);
        let answer = match (claim.kind, answer) {
            (ClaimKind::Fenced, Attempt::Acquired { lease, .. }) => {
                Attempt::Acquired { token: Some(context.token()), lease }
            }
            (_, answer) => answer,
        };
        let mut queue = entry.queue;
        if claim.heir_of.is_some() && matches!(answer, Attempt::Acquired { .. }) {
            queue.retain(|place| place.owner != claim.owner);
        }
        FairEntry { held, queue }.with(answer, Wake::None)
    }

    fn release(
        entry: Option<FairEntry>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, Released> {
        let FairEntry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::release(held, claim, now);
        let mut entry = FairEntry { held, queue };
        if !matches!(claim.kind, ClaimKind::Fair { .. }) {
            let freed = matches!(answer, Released::Freed { .. });
            return entry.with(answer, if freed { Wake::All } else { Wake::None });
        }
        entry.drop_dead(now, None, context);
        // Also if it had expired, or was released before and the reply was lost: perhaps no waiter has been notified yet.
        let wake = match entry.held {
            None if claim.depth == 0 => entry.next(now, context),
            _ => Wake::None,
        };
        entry.with(answer, wake)
    }

    fn renew(
        entry: Option<FairEntry>,
        claim: &Claim,
        now: Moment,
    ) -> Transition<FairEntry, Renewed> {
        let FairEntry { held, queue } = entry.unwrap_or_default();
        let (held, answer) = exclusive::renew(held, claim, now);
        Transition::silent(FairEntry { held, queue }.some(), answer)
    }

    fn give_up(
        entry: Option<FairEntry>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, ()> {
        let ClaimKind::Fair { patience } = claim.kind else {
            let Transition { entry, wake, .. } = FairEntry::release(entry, claim, now, context);
            return Transition { entry, answer: (), wake };
        };
        let mut entry = FairEntry::now(entry, now);
        let mut left = entry.drop_dead(now, None, context);
        if entry.held.as_ref().is_some_and(|held| held.owner == claim.owner) {
            entry.held = None;
            left = true;
        }
        if let Some(index) = entry.place_of(claim.owner) {
            entry.queue.remove(index);
            let wait = patience.unwrap_or_default();
            entry.close_up(index, wait, now.after((entry.ttl(now) + wait).max(LEAST)));
            left = true;
        }
        // A waiter that was notified and leaves passes the notification on.
        let wake = match &entry.held {
            None if left => entry.next(now, context),
            Some(held) if left => entry.first_in_line(held.ttl(now)),
            _ => Wake::None,
        };
        entry.with((), wake)
    }

    fn force(
        entry: Option<FairEntry>,
        kind: ClaimKind,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, ()> {
        let mut entry = FairEntry { held: None, ..entry.unwrap_or_default() };
        if !matches!(kind, ClaimKind::Fair { .. }) {
            return entry.with((), Wake::All);
        }
        entry.drop_dead(now, None, context);
        let wake = entry.next(now, context);
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
