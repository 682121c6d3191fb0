//! One owner at a time, counted: what `scripts/exclusive_*.lua` do, in Rust.

use std::time::Duration;

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Holder, Released};

/// A held lock, until its lease ends. A free lock has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedHold {
    /// The holder.
    pub owner: Owner,
    /// Its hold count.
    pub depth: u32,
    /// When it expires.
    pub expires: Moment,
}

impl TimedHold {
    /// Returns its time to live.
    pub fn ttl(&self, now: Moment) -> Duration {
        self.expires.since(now)
    }

    /// Returns the holder as snapshots show it.
    pub fn holder(&self) -> Holder {
        Holder::new(self.owner.to_string(), self.depth)
    }
}

/// Returns the hold, or `None` if it has expired at `now`.
pub fn live(entry: Option<TimedHold>, now: Moment) -> Option<TimedHold> {
    entry.filter(|e| e.expires > now)
}

/// Acquires the lock, sets the depth of a hold, or passes it from `heir_of` to the owner.
pub fn acquire(
    entry: Option<TimedHold>,
    claim: &Claim,
    now: Moment,
) -> (Option<TimedHold>, Attempt) {
    let hold =
        TimedHold { owner: claim.owner, depth: claim.depth, expires: now.after(claim.lease) };
    let acquired = Attempt::Acquired { token: None };
    match live(entry, now) {
        // An operation of the same stay never shortens it: this one may be late, and a later one may have been applied before it.
        Some(e) if e.owner == claim.owner => {
            let expires = e.expires.max(hold.expires);
            (Some(TimedHold { expires, ..hold }), acquired)
        }
        Some(e) if Some(e.owner) == claim.heir_of => (Some(hold), acquired),
        // A free lock can be acquired, but not re-entered or inherited: the earlier hold is gone.
        None if claim.depth == 1 && claim.heir_of.is_none() => (Some(hold), acquired),
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
