//! One owner at a time, counted: what `scripts/exclusive_*.lua` do, in Rust.

use std::time::Duration;

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Holder, Released, Renewed};

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
    let expires = now.after(claim.lease);
    let hold = TimedHold { owner: claim.owner, depth: claim.depth, expires };
    let granted = match live(entry, now) {
        // An operation of the same stay never shortens it: this one may be late, and a later one may have been applied before it.
        Some(e) if e.owner == claim.owner => TimedHold { expires: e.expires.max(expires), ..hold },
        Some(e) if Some(e.owner) == claim.heir_of => hold,
        // A free lock can be acquired, but not re-entered or inherited: the earlier hold is gone.
        None if claim.depth == 1 && claim.heir_of.is_none() => hold,
        other => {
            let ttl = other.as_ref().map_or(Duration::ZERO, |e| e.ttl(now));
            return (other, Attempt::Busy { ttl });
        }
    };
    let lease = granted.ttl(now);
    (Some(granted), Attempt::Acquired { token: None, lease })
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
pub fn renew(entry: Option<TimedHold>, claim: &Claim, now: Moment) -> (Option<TimedHold>, Renewed) {
    match live(entry, now) {
        Some(e) if e.owner == claim.owner => {
            let renewed = TimedHold { expires: e.expires.max(now.after(claim.lease)), ..e };
            let for_ = renewed.ttl(now);
            (Some(renewed), Renewed::Held { for_ })
        }
        other => (other, Renewed::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ClaimKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn claim(owner: Owner, seconds: u32) -> Claim {
        Claim {
            name: "k".into(),
            owner,
            lease: SECOND * seconds,
            depth: 1,
            heir_of: None,
            kind: ClaimKind::Exclusive,
            info: None,
        }
    }

    #[test]
    fn what_is_granted_is_what_is_kept() {
        let (me, heir) = (Owner::mint(uuid::Uuid::nil()), Owner::mint(uuid::Uuid::nil()));
        let start = Moment::from_origin(SECOND);
        let granted = |seconds| Attempt::Acquired { token: None, lease: SECOND * seconds };
        let held = |seconds| Renewed::Held { for_: SECOND * seconds };

        let (entry, answer) = acquire(None, &claim(me, 30), start);
        assert_eq!(answer, granted(30));
        // Two seconds later the same stay asks for less than it has, and then for more.
        let later = start.after(2 * SECOND);
        let (entry, answer) = acquire(entry, &claim(me, 10), later);
        assert_eq!(answer, granted(28));
        let (entry, answer) = renew(entry, &claim(me, 10), later);
        assert_eq!(answer, held(28));
        let (entry, answer) = renew(entry, &claim(me, 40), later);
        assert_eq!(answer, held(40));
        // A hand-over is another stay.
        let passed = Claim { heir_of: Some(me), ..claim(heir, 10) };
        let (entry, answer) = acquire(entry, &passed, later);
        assert_eq!(answer, granted(10));
        assert_eq!(renew(entry.clone(), &claim(me, 10), later).1, Renewed::Gone);
        assert_eq!(renew(entry, &claim(heir, 10), later.after(10 * SECOND)).1, Renewed::Gone);
    }
}
