//! A hold and a queue: one owner at a time, in the order in which they asked. What `scripts/fair_*.lua` do, in Rust.
//!
//! A waiter keeps its place for as long as its time says, and puts that off each time it asks. It is known to be there
//! while it listens for itself. When the lock is free and those before the first who is there do not listen, they get a
//! short grace, all of them the same one: a queue of the dead costs as much as one of them.

use std::time::Duration;

use super::{Machine, MachineContext, Transition, Wake, exclusive};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Released, Snapshot};

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

/// When somebody is found dead, whoever is first then has no more time than the lock and this. Redisson's patience.
pub const PLACE: Duration = Duration::from_secs(300);

/// A lock that is held, waited for, or both. One that is neither has no entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FairEntry {
    /// Who holds it.
    pub held: Option<exclusive::TimedHold>,
    /// Who waits, first in line first.
    pub queue: Vec<QueuePlace>,
}

/// A waiter's place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// Who waits.
    pub owner: Owner,
    /// When it loses its place if it is first in line and not heard of.
    pub until: Moment,
}

impl FairEntry {
    /// The entry without an expired hold.
    fn now(entry: Option<FairEntry>, now: Moment) -> FairEntry {
        let FairEntry { held, queue } = entry.unwrap_or_default();
        FairEntry { held: exclusive::live(held, now), queue }
    }

    /// `None` if nothing is left.
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

    /// Drops those at the head of the queue whose time is over. If the lock is free for somebody to ask, those behind them
    /// who do not listen have had the same grace. Says whether there were any.
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
            // Nobody has taken the patience of the dead off the others' times.
            let by = first.until.since(now.after(self.ttl(now) + PLACE));
            self.closer(0, by);
        }
        true
    }

    /// Brings the times of those from `from` on closer, all by the same. Redisson takes the patience of whoever comes in off
    /// the times of all behind it, however little they have: so it must still be in there.
    fn closer(&mut self, from: usize, by: Duration) {
        for place in &mut self.queue[from..] {
            place.until = place.until.before(by);
        }
    }

    /// Somebody has left this place: brings those behind it closer, but not the first of them below `floor`.
    fn close_up(&mut self, from: usize, by: Duration, floor: Moment) {
        if let Some(first) = self.queue.get(from) {
            self.closer(from, by.min(first.until.since(floor)));
        }
    }

    /// The lock is free and it is the turn of the first in line, who does not come: leaves it no more time than until `limit`.
    /// Nobody else: what is cut, Java takes off once more when it comes in. Says what it has left, and whether it had more.
    fn cut(&mut self, limit: Moment, now: Moment) -> (Duration, bool) {
        let head = &mut self.queue[0];
        let had_more = head.until > limit;
        head.until = head.until.min(limit);
        (head.until.since(now), had_more)
    }

    /// The first in the queue who is there.
    fn first_present(&self, present: impl Fn(Owner) -> bool) -> Option<usize> {
        self.queue.iter().take(WALK).position(|place| present(place.owner))
    }

    /// The lock is free: whom to call.
    fn next(&mut self, now: Moment, context: &dyn MachineContext) -> Wake {
        // If nobody is there, nobody has to wait for the others, and whoever comes next adds to their times.
        let first = self.first_present(|owner| context.listens(owner));
        let Some(first) = first else { return Wake::None };
        if first > 0 {
            self.cut(now.after(GRACE), now);
        }
        Wake::Waiter(self.queue[first].owner)
    }

    /// The lock is free and it is not this one's turn: how long to wait for the one whose turn it is, and whom to call.
    fn stand_by(
        &mut self,
        me: Owner,
        now: Moment,
        context: &dyn MachineContext,
    ) -> (Duration, Wake, bool) {
        let first = self.first_present(|owner| owner == me || context.listens(owner));
        let limit = if first == Some(0) { ABSENCE } else { GRACE };
        let (left, changed) = self.cut(now.after(limit), now);
        let called = first.map(|first| self.queue[first].owner).filter(|owner| *owner != me);
        (left, called.map_or(Wake::None, Wake::Waiter), changed)
    }

    /// The lock is held, and another one may be first in line than before. It learns that when it asks next, unless the lock
    /// may be free before.
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
        // Nobody's place is worth less than a millisecond: the wire knows nothing shorter.
        let patience = patience.map(|patience| patience.max(Duration::from_millis(1)));
        let wait = patience.unwrap_or_default();
        let queued = patience.and(self.place_of(me));
        if let Some(index) = queued {
            // Who asks is there, and does not lose its place by asking.
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
        // Before anybody's time is cut: it is added to.
        let last = self.queue.last().map_or(now, |place| place.until).max(now.after(ttl));
        let (mut rest, mut wake) = (ttl, Wake::None);
        if self.held.is_none() {
            let (grace, called, changed) = self.stand_by(me, now, context);
            rest = grace;
            // A call may have been lost, and a lease ends without one. Once for each change: this is no polling.
            if changed || dropped {
                wake = called;
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
            (ClaimKind::Fenced, Attempt::Acquired { .. }) => {
                Attempt::Acquired { token: Some(context.token()) }
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
        // Also if it had expired, or was released before and the answer was lost: nobody may have been called yet.
        let wake = match entry.held {
            None if claim.depth == 0 => entry.next(now, context),
            _ => Wake::None,
        };
        entry.with(answer, wake)
    }

    fn renew(entry: Option<FairEntry>, claim: &Claim, now: Moment) -> Transition<FairEntry, bool> {
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
        // Whoever was called and leaves passes the call on.
        let wake = match &entry.held {
            None if left => entry.next(now, context),
            Some(held) if left => entry.first_in_line(held.ttl(now)),
            _ => Wake::None,
        };
        entry.with((), wake)
    }

    fn force(
        entry: Option<FairEntry>,
        what: ClaimKind,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<FairEntry, ()> {
        let mut entry = FairEntry { held: None, ..entry.unwrap_or_default() };
        if !matches!(what, ClaimKind::Fair { .. }) {
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
