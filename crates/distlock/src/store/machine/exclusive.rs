//! One owner at a time, counted: what `scripts/exclusive_*.lua` do, in Rust.

use std::time::Duration;

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Holder, Released};

/// A held lock. A free one has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedHold {
    /// Who holds it.
    pub owner: Owner,
    /// How many times.
    pub depth: u32,
    /// When it is free by itself.
    pub expires: Moment,
}

impl TimedHold {
    /// How long it lives on.
    pub fn ttl(&self, now: Moment) -> Duration {
        self.expires.since(now)
    }

    /// The holder, as snapshots show it.
    pub fn holder(&self) -> Holder {
        Holder::new(self.owner.to_string(), self.depth)
    }
}

/// What is left of an entry at `now`: nothing once it has expired.
pub fn live(entry: Option<TimedHold>, now: Moment) -> Option<TimedHold> {
    entry.filter(|e| e.expires > now)
}

/// Takes the lock, sets the depth of a hold, or passes it from `heir_of` to the owner.
pub fn acquire(
    entry: Option<TimedHold>,
    claim: &Claim,
    now: Moment,
) -> (Option<TimedHold>, Attempt) {
    let taken =
        TimedHold { owner: claim.owner, depth: claim.depth, expires: now.after(claim.lease) };
    let acquired = Attempt::Acquired { token: None };
    match live(entry, now) {
        // Never shortened by a step of the same stay: this one may be late, and a later one may have been here before.
        Some(e) if e.owner == claim.owner => {
            let expires = e.expires.max(taken.expires);
            (Some(TimedHold { expires, ..taken }), acquired)
        }
        Some(e) if Some(e.owner) == claim.heir_of => (Some(taken), acquired),
        // A free lock can be taken, but not re-entered or inherited: the earlier hold is gone.
        None if claim.depth == 1 && claim.heir_of.is_none() => (Some(taken), acquired),
        other => {
            let ttl = other.as_ref().map_or(Duration::ZERO, |e| e.ttl(now));
            (other, Attempt::Busy { ttl })
        }
    }
}

/// Sets the hold to the claim's depth; at 0 the lock is free.
pub fn release(
    entry: Option<TimedHold>,
    claim: &Claim,
    now: Moment,
) -> (Option<TimedHold>, Released) {
    match live(entry, now) {
        Some(e) if e.owner == claim.owner && claim.depth == 0 => {
            (None, Released::Freed { heard_by: 0 })
        }
        Some(e) if e.owner == claim.owner => {
            (Some(TimedHold { depth: claim.depth, ..e }), Released::StillHeld)
        }
        other => (other, Released::NotHeld),
    }
}

/// Sets the time to live if the owner still holds it; never to less.
pub fn renew(entry: Option<TimedHold>, claim: &Claim, now: Moment) -> (Option<TimedHold>, bool) {
    match live(entry, now) {
        Some(e) if e.owner == claim.owner => {
            (Some(TimedHold { expires: e.expires.max(now.after(claim.lease)), ..e }), true)
        }
        other => (other, false),
    }
}
