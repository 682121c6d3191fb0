//! A number of permits: what `scripts/permits_*.lua` do, in Rust.

use std::collections::HashMap;
use std::time::Duration;

use super::{Machine, MachineContext, Transition};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{
    Admin, Attempt, Claim, ClaimKind, Holder, Mode, PermitsOp, Released, Renewed, Snapshot,
};

/// The lease of permits that have none. Redisson's number for it: the longest time its clock can add to the
/// present without an overflow.
pub const FOREVER: Duration = Duration::from_millis(922_337_203_685_477);

/// The highest number of permits, and with a minus the lowest. The scripts count exactly up to here.
pub const MOST: i64 = 999_999_999_999_999;

/// A semaphore. One that is not initialised, or was deleted, has no entry; a deletion takes the permits from their holders.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PermitsEntry {
    /// The permits left; below zero when more were taken away than were left.
    pub left: i64,
    /// The permits of each owner. Each acquisition has its own owner, so an acquire that is sent again finds it here.
    pub out: HashMap<Owner, u32>,
}

impl PermitsEntry {
    fn new(permits: u32) -> PermitsEntry {
        PermitsEntry { left: i64::from(permits), out: HashMap::new() }
    }

    /// Adds permits, or takes some away; wakes the waiters if some are free then.
    fn add(self, permits: i64) -> Transition<PermitsEntry, i64> {
        let left = sum(self.left, permits);
        transition(permits > 0 && left > 0, Some(PermitsEntry { left, ..self }), left)
    }

    /// Gives back permits that were taken.
    fn give_back<T>(mut self, permits: i64, answer: T) -> Transition<PermitsEntry, T> {
        self.left += permits;
        transition(permits > 0 && self.left > 0, Some(self), answer)
    }
}

/// Returns the sum, within what a semaphore counts.
pub(super) fn sum(left: i64, permits: i64) -> i64 {
    left.saturating_add(permits).clamp(-MOST, MOST)
}

/// Returns a transition that wakes every waiter if `wake`.
fn transition<T>(
    wake: bool,
    entry: Option<PermitsEntry>,
    answer: T,
) -> Transition<PermitsEntry, T> {
    if wake { Transition::waking_all(entry, answer) } else { Transition::silent(entry, answer) }
}

impl Machine for PermitsEntry {
    fn is_live(&self, _: Moment) -> bool {
        true
    }

    fn acquire(
        entry: Option<PermitsEntry>,
        claim: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<PermitsEntry, Attempt> {
        let ClaimKind::Permits { count, initial } = claim.kind else {
            return Transition::silent(entry, Attempt::Busy { ttl: FOREVER });
        };
        let fresh = entry.is_none();
        let Some(mut entry) = entry.or_else(|| initial.map(PermitsEntry::new)) else {
            return Transition::silent(None, Attempt::Busy { ttl: FOREVER });
        };
        let wake = fresh && entry.left > 0;
        let granted = entry.out.contains_key(&claim.owner) || entry.left >= i64::from(count);
        if !granted {
            return transition(wake, Some(entry), Attempt::Busy { ttl: FOREVER });
        }
        if !entry.out.contains_key(&claim.owner) {
            entry.left -= i64::from(count);
            entry.out.insert(claim.owner, count);
        }
        transition(wake, Some(entry), Attempt::Acquired { token: None, lease: claim.lease })
    }

    fn release(
        entry: Option<PermitsEntry>,
        claim: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<PermitsEntry, Released> {
        let Some(mut entry) = entry else { return Transition::silent(None, Released::NotHeld) };
        match entry.out.remove(&claim.owner) {
            None => Transition::silent(Some(entry), Released::NotHeld),
            Some(count) => entry.give_back(i64::from(count), Released::Freed { heard_by: 0 }),
        }
    }

    /// Permits have no lease, so any lease is granted as long as the owner has them.
    fn renew(
        entry: Option<PermitsEntry>,
        claim: &Claim,
        _: Moment,
    ) -> Transition<PermitsEntry, Renewed> {
        let held = entry.as_ref().is_some_and(|entry| entry.out.contains_key(&claim.owner));
        let renewed = if held { Renewed::Held { for_: claim.lease } } else { Renewed::Gone };
        Transition::silent(entry, renewed)
    }

    /// Gives back the permits of every known owner; permits that other clients took without a trace stay out.
    fn force(
        entry: Option<PermitsEntry>,
        _: ClaimKind,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<PermitsEntry, ()> {
        let Some(mut entry) = entry else { return Transition::silent(None, ()) };
        let back = entry.out.drain().map(|(_, count)| i64::from(count)).sum();
        entry.give_back(back, ())
    }

    fn admin(entry: Option<PermitsEntry>, op: &Admin, _: Moment) -> Transition<PermitsEntry, i64> {
        let Admin::Permits(op) = op else { return Transition::silent(entry, 0) };
        match (*op, entry) {
            (PermitsOp::Init(_), Some(entry)) => Transition::silent(Some(entry), 0),
            (PermitsOp::Init(permits), None) => {
                transition(permits > 0, Some(PermitsEntry::new(permits)), 1)
            }
            (PermitsOp::Add(permits), entry) => entry.unwrap_or_default().add(permits),
            (PermitsOp::Release(permits), entry) => {
                entry.unwrap_or_default().add(i64::from(permits))
            }
            (PermitsOp::ReleaseIfExists(permits), Some(entry)) => {
                Transition { answer: 1, ..entry.add(i64::from(permits)) }
            }
            (PermitsOp::Drain, Some(mut entry)) => {
                let left = std::mem::take(&mut entry.left);
                Transition::silent(Some(entry), left)
            }
            (PermitsOp::Available, Some(entry)) => {
                let left = entry.left;
                Transition::silent(Some(entry), left)
            }
            (PermitsOp::Delete, Some(_)) => Transition::silent(None, 1),
            (
                PermitsOp::Drain
                | PermitsOp::Available
                | PermitsOp::Delete
                | PermitsOp::ReleaseIfExists(_),
                None,
            ) => Transition::silent(None, 0),
        }
    }

    fn view(&self, name: &str, _: Moment) -> Snapshot {
        let holder = |(owner, count): (&Owner, &u32)| {
            Holder::with_mode(owner.to_string(), *count, Mode::Permits)
        };
        let holders = self.out.iter().map(holder).collect();
        Snapshot { holders, ..Snapshot::free(name) }.with_count(Some(self.left))
    }
}
