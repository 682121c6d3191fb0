//! One owner at a time, uncounted: what `scripts/simple_*.lua` do, in Rust.

use std::time::Duration;

use super::{Machine, MachineContext, Transition, exclusive};
use crate::env::Moment;
use crate::store::{Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};

/// A held lock. The depth is always 1: the format has no room for it, and the engine of the holder counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleEntry(pub exclusive::TimedHold);

fn inner(entry: Option<SimpleEntry>) -> Option<exclusive::TimedHold> {
    entry.map(|SimpleEntry(held)| held)
}

fn outer(entry: Option<exclusive::TimedHold>) -> Option<SimpleEntry> {
    entry.map(|held| SimpleEntry(exclusive::TimedHold { depth: 1, ..held }))
}

impl Machine for SimpleEntry {
    fn is_live(&self, now: Moment) -> bool {
        self.0.expires > now
    }

    fn acquire(
        entry: Option<SimpleEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<SimpleEntry, Attempt> {
        let (entry, answer) = exclusive::acquire(inner(entry), claim, now);
        Transition::silent(outer(entry), answer)
    }

    fn release(
        entry: Option<SimpleEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<SimpleEntry, Released> {
        let (entry, answer) = exclusive::release(inner(entry), claim, now);
        Transition::silent(outer(entry), answer)
    }

    fn renew(
        entry: Option<SimpleEntry>,
        claim: &Claim,
        now: Moment,
    ) -> Transition<SimpleEntry, Renewed> {
        let (entry, answer) = exclusive::renew(inner(entry), claim, now);
        Transition::silent(outer(entry), answer)
    }

    fn force(
        _: Option<SimpleEntry>,
        _: ClaimKind,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<SimpleEntry, ()> {
        Transition::silent(None, ())
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let ttl: Duration = self.0.ttl(now);
        Snapshot::held(name, vec![self.0.holder()], ttl)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::Wake;
    use super::*;
    use crate::Owner;

    struct NoListeners;

    impl MachineContext for NoListeners {
        fn listens(&self, _: Owner) -> bool {
            false
        }

        fn token(&self) -> u64 {
            0
        }
    }

    const LEASE: Duration = Duration::from_secs(1);

    fn claim(owner: Owner, depth: u32) -> Claim {
        let kind = ClaimKind::Simple;
        Claim { name: "k".into(), owner, lease: LEASE, depth, heir_of: None, kind, info: None }
    }

    #[test]
    fn the_depth_is_the_holders_affair() {
        let now = Moment::from_origin(LEASE);
        let (me, other) = (Owner::mint(Uuid::new_v4()), Owner::mint(Uuid::new_v4()));
        let mut entry = None;
        for depth in [1, 2, 2, 3] {
            let step = SimpleEntry::acquire(entry, &claim(me, depth), now, &NoListeners);
            assert_eq!(step.answer, Attempt::Acquired { token: None, lease: LEASE });
            assert_eq!(step.entry.as_ref().unwrap().0.depth, 1);
            entry = step.entry;
        }
        let busy = SimpleEntry::acquire(entry.clone(), &claim(other, 1), now, &NoListeners);
        assert_eq!(busy.answer, Attempt::Busy { ttl: LEASE });
        for depth in [2, 1] {
            let step = SimpleEntry::release(entry, &claim(me, depth), now, &NoListeners);
            assert_eq!(step.answer, Released::StillHeld);
            entry = step.entry;
        }
        let freed = SimpleEntry::release(entry, &claim(me, 0), now, &NoListeners);
        assert_eq!((freed.entry, freed.answer), (None, Released::Freed { heard_by: 0 }));
        assert_eq!(freed.wake, Wake::None);
    }

    #[test]
    fn what_has_run_out_can_be_taken_but_not_reentered_renewed_or_released() {
        let start = Moment::from_origin(LEASE);
        let over = start.after(LEASE);
        let me = Owner::mint(Uuid::new_v4());
        let entry = SimpleEntry::acquire(None, &claim(me, 1), start, &NoListeners).entry;
        assert!(entry.as_ref().unwrap().is_live(start));
        assert!(!entry.as_ref().unwrap().is_live(over));
        let again = SimpleEntry::acquire(entry.clone(), &claim(me, 2), over, &NoListeners);
        assert_eq!(again.answer, Attempt::Busy { ttl: Duration::ZERO });
        assert_eq!(SimpleEntry::renew(entry.clone(), &claim(me, 1), over).answer, Renewed::Gone);
        let gone = SimpleEntry::release(entry.clone(), &claim(me, 0), over, &NoListeners);
        assert_eq!(gone.answer, Released::NotHeld);
        let next =
            SimpleEntry::acquire(entry, &claim(Owner::mint(Uuid::new_v4()), 1), over, &NoListeners);
        assert_eq!(next.answer, Attempt::Acquired { token: None, lease: LEASE });
    }
}
