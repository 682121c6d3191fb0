//! Fencing tokens: how they are numbered and how they are checked.

use super::{Machine, MachineContext, Transition};
use crate::env::Moment;
use crate::store::{Admin, Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};

/// Returns the token after `last`: at least the time in milliseconds, so that tokens go on rising when the counter is lost.
pub fn next(last: u64, millis: u64) -> u64 {
    last.saturating_add(1).max(millis)
}

/// The gate of a resource: the highest token that it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateEntry {
    /// The highest token that was shown.
    pub highest: u64,
}

impl GateEntry {
    /// The highest number that a script can return exactly.
    const FURTHEST: u64 = 1 << 53;

    /// Returns the gate after `token` was shown, and whether the token passes: one equal to the highest is its holder's next write.
    pub fn shown(gate: Option<GateEntry>, token: u64) -> (GateEntry, bool) {
        let highest = gate.map_or(0, |gate| gate.highest);
        (GateEntry { highest: highest.max(token) }, token >= highest)
    }
}

/// A gate is not a lock: it can only be shown tokens.
impl Machine for GateEntry {
    fn is_live(&self, _: Moment) -> bool {
        true
    }

    fn acquire(
        entry: Option<GateEntry>,
        _: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<GateEntry, Attempt> {
        Transition::silent(entry, Attempt::Busy { ttl: std::time::Duration::MAX })
    }

    fn release(
        entry: Option<GateEntry>,
        _: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<GateEntry, Released> {
        Transition::silent(entry, Released::NotHeld)
    }

    fn renew(entry: Option<GateEntry>, _: &Claim, _: Moment) -> Transition<GateEntry, Renewed> {
        Transition::silent(entry, Renewed::Gone)
    }

    fn force(
        entry: Option<GateEntry>,
        _: ClaimKind,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<GateEntry, ()> {
        Transition::silent(entry, ())
    }

    fn admin(entry: Option<GateEntry>, op: &Admin, _: Moment) -> Transition<GateEntry, i64> {
        match op {
            Admin::Fence { token } => {
                let (gate, passes) = GateEntry::shown(entry, *token);
                let seen = i64::try_from(gate.highest.min(GateEntry::FURTHEST)).unwrap_or(i64::MAX);
                Transition::silent(Some(gate), if passes { 1 } else { -seen })
            }
            Admin::FenceForget => Transition::silent(None, i64::from(entry.is_some())),
            _ => Transition::silent(entry, 0),
        }
    }

    fn view(&self, name: &str, _: Moment) -> Snapshot {
        Snapshot::free(name).with_count(i64::try_from(self.highest).ok())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_rise_whatever_the_clock_does_and_go_on_from_the_clock_when_the_counter_is_lost(
            clock in prop::collection::vec(0..1_u64 << 52, 1..50),
            lost in prop::collection::vec(prop::bool::weighted(0.2), 50),
        ) {
            let (mut counter, mut highest) = (0, 0);
            for (millis, lost) in clock.into_iter().zip(lost) {
                // A counter that is lost while the clock steps back is the one case that nothing can mend.
                if lost && millis > highest {
                    counter = 0;
                }
                counter = next(counter, millis);
                prop_assert!(counter > highest, "{counter} after {highest}");
                prop_assert!(counter >= millis);
                highest = counter;
            }
        }

        #[test]
        fn a_gate_lets_in_exactly_what_is_not_older_than_the_newest(
            tokens in prop::collection::vec(0..6_u64, 1..40),
        ) {
            let (mut gate, mut newest) = (None, 0);
            for token in tokens {
                let (after, passes) = GateEntry::shown(gate, token);
                prop_assert_eq!(passes, token >= newest);
                newest = newest.max(token);
                prop_assert_eq!(after.highest, newest);
                gate = Some(after);
            }
        }
    }

    #[test]
    fn a_refusal_names_the_highest_token() {
        let show = |gate, token| GateEntry::admin(gate, &Admin::Fence { token }, Moment::NEVER);
        let first = show(None, 7);
        assert_eq!(first.answer, 1);
        assert_eq!(show(first.entry, 6).answer, -7);
        assert_eq!(show(first.entry, 7).answer, 1);
        let far = show(first.entry, u64::MAX);
        assert_eq!(show(far.entry, u64::MAX - 1).answer, -(1 << 53));
        assert_eq!(GateEntry::admin(far.entry, &Admin::FenceForget, Moment::NEVER).answer, 1);
        assert_eq!(GateEntry::admin(None, &Admin::FenceForget, Moment::NEVER).answer, 0);
    }
}
