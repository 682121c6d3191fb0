//! Many readers or one writer: what `scripts/rw_*.lua` do, in Rust.

use std::time::Duration;

use super::{Around, Machine, Step};
use crate::env::Moment;
use crate::store::{Attempt, Claim, Released, Snapshot, What};

/// To be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry;

impl Machine for Entry {
    fn is_live(&self, _now: Moment) -> bool {
        true
    }

    fn acquire(
        entry: Option<Entry>,
        _claim: &Claim,
        _now: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Attempt> {
        Step::quiet(entry, Attempt::Busy { ttl: Duration::ZERO })
    }

    fn release(
        entry: Option<Entry>,
        _claim: &Claim,
        _now: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Released> {
        Step::quiet(entry, Released::NotHeld)
    }

    fn renew(entry: Option<Entry>, _claim: &Claim, _now: Moment) -> Step<Entry, bool> {
        Step::quiet(entry, false)
    }

    fn force(_: Option<Entry>, _: What, _: Moment, _: &dyn Around) -> Step<Entry, ()> {
        Step::loud(None, ())
    }

    fn view(&self, name: &str, _now: Moment) -> Snapshot {
        Snapshot::free(name)
    }
}
