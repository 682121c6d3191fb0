//! Permits with ids and leases: what `scripts/leased_*.lua` do, in Rust.

use std::collections::BTreeMap;
use std::time::Duration;

use super::permits::{FOREVER, sum};
use super::{Machine, MachineContext, Transition};
use crate::env::Moment;
use crate::store::{
    Admin, Attempt, Claim, ClaimKind, Holder, LeasedOp, Mode, PermitId, Released, Renewed, Snapshot,
};

/// A semaphore. One that is not initialised, or was deleted, has no entry; a deletion takes the permits from their holders.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LeasedEntry {
    /// The permits left, without those that have expired and were not taken back yet; may be below zero.
    pub left: i64,
    /// When the lease of each permit that is out ends.
    pub out: BTreeMap<PermitId, Moment>,
}

impl LeasedEntry {
    fn new(permits: i64) -> LeasedEntry {
        LeasedEntry { left: permits, out: BTreeMap::new() }
    }

    /// Takes back the permits whose leases have ended, and returns whether there were any.
    fn purge(&mut self, now: Moment) -> bool {
        let before = self.out.len();
        self.out.retain(|_, until| *until > now);
        let back = before - self.out.len();
        self.left += count(back);
        back > 0
    }

    /// Sets the end of a permit's lease, never to earlier than it is: this operation may be late, and a later one may have been applied before it.
    fn extend(&mut self, id: PermitId, until: Moment) {
        let at = self.out.entry(id).or_insert(until);
        *at = (*at).max(until);
    }

    fn is_out(&self, id: &PermitId, now: Moment) -> bool {
        self.out.get(id).is_some_and(|until| *until > now)
    }

    fn acquired(&self, now: Moment) -> i64 {
        count(self.out.values().filter(|until| **until > now).count())
    }

    /// Returns the free permits, those whose leases have ended included.
    fn available(&self, now: Moment) -> i64 {
        self.left + count(self.out.len()) - self.acquired(now)
    }

    /// Returns the time until the next lease ends.
    fn next(&self, now: Moment) -> Option<Duration> {
        self.out.values().min().map(|until| until.since(now))
    }

    /// Gives back those of `ids` that are out, and returns how many they were.
    fn give_back(&mut self, ids: impl Iterator<Item = PermitId>) -> i64 {
        let back = count(ids.filter(|id| self.out.remove(id).is_some()).count());
        self.left += back;
        back
    }

    /// Returns a transition that wakes every waiter if there are `more` permits and some are free.
    fn transition<T>(self, more: bool, answer: T) -> Transition<LeasedEntry, T> {
        if more && self.left > 0 {
            Transition::waking_all(Some(self), answer)
        } else {
            Transition::silent(Some(self), answer)
        }
    }
}

fn count(permits: usize) -> i64 {
    i64::try_from(permits).unwrap_or(i64::MAX)
}

/// Returns the ids of a claim's permits.
fn ids(claim: &Claim) -> impl Iterator<Item = PermitId> + use<> {
    let count = match claim.kind {
        ClaimKind::LeasedPermits { count, .. } => count,
        _ => 0,
    };
    PermitId::of(claim.owner, count)
}

impl Machine for LeasedEntry {
    fn is_live(&self, _: Moment) -> bool {
        true
    }

    fn acquire(
        entry: Option<LeasedEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LeasedEntry, Attempt> {
        let ClaimKind::LeasedPermits { count, initial } = claim.kind else {
            return Transition::silent(entry, Attempt::Busy { ttl: FOREVER });
        };
        let fresh = entry.is_none();
        let initial = initial.map(|permits| LeasedEntry::new(i64::from(permits)));
        let Some(mut entry) = entry.or(initial) else {
            return Transition::silent(None, Attempt::Busy { ttl: FOREVER });
        };
        let more = entry.purge(now) || fresh;
        let until = now.after(claim.lease);
        if entry.left >= i64::from(count) {
            for id in ids(claim) {
                if !entry.out.contains_key(&id) {
                    entry.left -= 1;
                }
                entry.extend(id, until);
            }
        } else if ids(claim).next().is_some_and(|first| entry.out.contains_key(&first)) {
            // The acquire was sent again: the owner has them already.
            for id in ids(claim) {
                entry.out.entry(id).and_modify(|at| *at = (*at).max(until));
            }
        } else {
            let ttl = entry.next(now).unwrap_or(FOREVER);
            return entry.transition(more, Attempt::Busy { ttl });
        }
        entry.transition(more, Attempt::Acquired { token: None, lease: claim.lease })
    }

    /// Gives back those of the claim's permits that the owner still has; `NotHeld` if some of them were lost.
    fn release(
        entry: Option<LeasedEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LeasedEntry, Released> {
        let Some(mut entry) = entry else { return Transition::silent(None, Released::NotHeld) };
        let all = ids(claim).all(|id| entry.is_out(&id, now));
        let back = entry.give_back(ids(claim));
        let answer = if all { Released::Freed { heard_by: 0 } } else { Released::NotHeld };
        entry.transition(back > 0, answer)
    }

    fn renew(
        entry: Option<LeasedEntry>,
        claim: &Claim,
        now: Moment,
    ) -> Transition<LeasedEntry, Renewed> {
        let Some(mut entry) = entry else { return Transition::silent(None, Renewed::Gone) };
        let all = ids(claim).all(|id| entry.is_out(&id, now));
        if !all {
            return Transition::silent(Some(entry), Renewed::Gone);
        }
        ids(claim).for_each(|id| entry.extend(id, now.after(claim.lease)));
        Transition::silent(Some(entry), Renewed::Held { for_: claim.lease })
    }

    fn force(
        entry: Option<LeasedEntry>,
        _: ClaimKind,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LeasedEntry, ()> {
        let Some(LeasedEntry { left, out }) = entry else { return Transition::silent(None, ()) };
        LeasedEntry::new(left + count(out.len())).transition(!out.is_empty(), ())
    }

    fn admin(entry: Option<LeasedEntry>, op: &Admin, now: Moment) -> Transition<LeasedEntry, i64> {
        let Admin::Leased(op) = op else { return Transition::silent(entry, 0) };
        let Some(mut entry) = entry else {
            return match op {
                LeasedOp::Init(permits) => {
                    LeasedEntry::new(i64::from(*permits)).transition(true, 1)
                }
                LeasedOp::Set(permits) => {
                    LeasedEntry::new(i64::from(*permits)).transition(true, i64::from(*permits))
                }
                LeasedOp::Add(permits) => {
                    let permits = sum(0, *permits);
                    LeasedEntry::new(permits).transition(true, permits)
                }
                LeasedOp::Remaining(_) => Transition::silent(None, -2),
                _ => Transition::silent(None, 0),
            };
        };
        let available = entry.available(now);
        match op {
            LeasedOp::Init(_) => Transition::silent(Some(entry), 0),
            LeasedOp::Set(permits) => {
                let more = i64::from(*permits) - entry.left - count(entry.out.len());
                entry.left += more;
                entry.transition(more > 0, available + more)
            }
            LeasedOp::Add(permits) => {
                let before = entry.left;
                entry.left = sum(before, *permits);
                let answer = available + entry.left - before;
                entry.transition(*permits > 0, answer)
            }
            LeasedOp::Available => Transition::silent(Some(entry), available),
            LeasedOp::Acquired => {
                let acquired = entry.acquired(now);
                Transition::silent(Some(entry), acquired)
            }
            LeasedOp::Release(ids) if ids.iter().all(|id| entry.is_out(id, now)) => {
                let back = entry.give_back(ids.iter().copied());
                entry.transition(back > 0, back)
            }
            LeasedOp::Extend(id, lease) if entry.is_out(id, now) => {
                entry.out.insert(*id, now.after(Duration::from_millis(*lease)));
                Transition::silent(Some(entry), 1)
            }
            LeasedOp::Remaining(id) => {
                let left = entry.out.get(id).filter(|until| **until > now);
                let left = left.map_or(-2, |until| whole_millis(until.since(now)));
                Transition::silent(Some(entry), left)
            }
            LeasedOp::Release(_) | LeasedOp::Extend(..) => Transition::silent(Some(entry), 0),
            LeasedOp::Delete => Transition::silent(None, 1),
        }
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let mut out: Vec<_> = self.out.iter().filter(|(_, until)| **until > now).collect();
        out.sort_by_key(|(_, until)| **until);
        let ttl = out.first().map(|(_, until)| until.since(now));
        let holder = |id: &PermitId| Holder::with_mode(id.to_string(), 1, Mode::Permits);
        let holders = out.into_iter().map(|(id, _)| holder(id)).collect();
        Snapshot { holders, ttl, ..Snapshot::free(name) }.with_count(Some(self.available(now)))
    }
}

/// Rounded up: a permit that is out has time left.
fn whole_millis(left: Duration) -> i64 {
    i64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
