//! A count that comes down to zero: what `scripts/latch_*.lua` do, in Rust.

use std::collections::HashSet;
use std::time::Duration;

use super::permits::FOREVER;
use super::{Around, Machine, Step};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Admin, Attempt, Claim, LatchOp, Released, Snapshot, What};

/// How long a count-down is remembered after the last one. It outlives the latch: a count-down that is sent again because
/// its answer was lost must not count for the next latch of that name. Far longer than anybody goes on sending, and so
/// that a server may stand still for a while in between.
pub const REMEMBERED: Duration = Duration::from_secs(60);

/// A latch, or what is remembered of one. An open latch that nobody counted down of late has no entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// The count; `None` if there is no latch, which is the same as an open one.
    pub count: Option<u32>,
    /// The count-downs that were done.
    pub counted: HashSet<Owner>,
    /// Until when they are remembered.
    pub until: Option<Moment>,
}

impl Entry {
    fn remembers(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    fn is_open(&self) -> bool {
        self.count.is_none_or(|count| count == 0)
    }

    /// A latch of zero is no latch.
    fn set(&mut self, count: u32) {
        self.count = Some(count).filter(|count| *count > 0);
    }

    fn count_down(mut self, request: Owner, now: Moment) -> Step<Entry, i64> {
        if !self.remembers(now) {
            self.counted.clear();
        }
        let count = match self.count {
            Some(count) if !self.counted.contains(&request) => count,
            count => return Step::quiet(Some(self), i64::from(count.unwrap_or_default())),
        };
        self.counted.insert(request);
        self.until = Some(now.after(REMEMBERED));
        self.set(count - 1);
        let left = i64::from(count - 1);
        if self.is_open() { Step::loud(Some(self), left) } else { Step::quiet(Some(self), left) }
    }
}

impl Machine for Entry {
    fn is_live(&self, now: Moment) -> bool {
        self.count.is_some() || self.remembers(now)
    }

    /// Nothing is held afterwards, and nothing written.
    fn acquire(entry: Option<Entry>, _: &Claim, _: Moment, _: &dyn Around) -> Step<Entry, Attempt> {
        let answer = match entry.as_ref().is_none_or(Entry::is_open) {
            true => Attempt::Acquired { token: None },
            false => Attempt::Busy { ttl: FOREVER },
        };
        Step::quiet(entry, answer)
    }

    fn release(
        entry: Option<Entry>,
        _: &Claim,
        _: Moment,
        _: &dyn Around,
    ) -> Step<Entry, Released> {
        Step::quiet(entry, Released::NotHeld)
    }

    fn renew(entry: Option<Entry>, _: &Claim, _: Moment) -> Step<Entry, bool> {
        Step::quiet(entry, false)
    }

    /// Opens it.
    fn force(entry: Option<Entry>, _: What, _: Moment, _: &dyn Around) -> Step<Entry, ()> {
        Step::loud(entry.map(|entry| Entry { count: None, ..entry }), ())
    }

    fn admin(entry: Option<Entry>, op: &Admin, now: Moment) -> Step<Entry, i64> {
        let Admin::Latch(op) = op else { return Step::quiet(entry, 0) };
        let mut latch = entry.unwrap_or_default();
        let before = latch.count;
        let was = i64::from(before.unwrap_or_default());
        match *op {
            LatchOp::Init(count) if before.is_none() => {
                latch.set(count);
                Step::quiet(Some(latch), 1)
            }
            LatchOp::Init(_) => Step::quiet(Some(latch), 0),
            LatchOp::CountDown { request } => latch.count_down(request, now),
            LatchOp::Count => Step::quiet(Some(latch), was),
            LatchOp::Reset(count) => {
                latch.set(count);
                if count == 0 {
                    Step::loud(Some(latch), was)
                } else {
                    Step::quiet(Some(latch), was)
                }
            }
            LatchOp::Delete => Step::loud(None, i64::from(before.is_some())),
        }
    }

    fn view(&self, name: &str, _: Moment) -> Snapshot {
        Snapshot::free(name).with_count(self.count.map(i64::from))
    }
}
