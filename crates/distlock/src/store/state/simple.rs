//! One owner at a time, uncounted: what `scripts/simple_*.lua` do, in Rust.

use std::time::Duration;

use super::{Around, Machine, Step, exclusive};
use crate::env::Moment;
use crate::store::{Attempt, Claim, Released, Snapshot, What};

/// A held lock. The depth is not kept: the format has no room for it, and the holder knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(pub exclusive::Entry);

fn inner(entry: Option<Entry>) -> Option<exclusive::Entry> {
    entry.map(|Entry(held)| held)
}

fn outer(entry: Option<exclusive::Entry>) -> Option<Entry> {
    entry.map(|held| Entry(exclusive::Entry { depth: 1, ..held }))
}

impl Machine for Entry {
    fn is_live(&self, now: Moment) -> bool {
        self.0.expires > now
    }

    fn acquire(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Attempt> {
        let (entry, answer) = exclusive::acquire(inner(entry), claim, now);
        Step::quiet(outer(entry), answer)
    }

    fn release(
        entry: Option<Entry>,
        claim: &Claim,
        now: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Released> {
        let (entry, answer) = exclusive::release(inner(entry), claim, now);
        Step::quiet(outer(entry), answer)
    }

    fn renew(entry: Option<Entry>, claim: &Claim, now: Moment) -> Step<Entry, bool> {
        let (entry, answer) = exclusive::renew(inner(entry), claim, now);
        Step::quiet(outer(entry), answer)
    }

    fn force(_: Option<Entry>, _: What, _: Moment, _: &dyn Around) -> Step<Entry, ()> {
        Step::quiet(None, ())
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let ttl: Duration = self.0.ttl(now);
        Snapshot::held(name, vec![self.0.holder()], ttl)
    }
}
