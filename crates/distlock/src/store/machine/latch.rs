//! A count that comes down to zero: what `scripts/latch_*.lua` do, in Rust.

use std::collections::HashMap;
use std::time::Duration;

use super::permits::FOREVER;
use super::{Machine, MachineContext, Transition};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Admin, Attempt, Claim, ClaimKind, LatchOp, Released, Renewed, Snapshot};

/// How long a count-down is remembered whose reply does not arrive. Longer than the latch exists: if it is sent again, it must not count for
/// the next latch of that name. Far longer than a caller tries, even if the server pauses in between.
pub const REMEMBERED: Duration = Duration::from_secs(60);

/// A latch, and the count-downs whose replies may be in flight. An open latch without these has no entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LatchEntry {
    /// The count; `None` if there is no latch, which is the same as an open one.
    pub count: Option<u32>,
    /// The count-downs that were applied: the result of each, and until when it is remembered.
    pub counted: HashMap<Owner, (u32, Moment)>,
}

impl LatchEntry {
    fn is_open(&self) -> bool {
        self.count.is_none_or(|count| count == 0)
    }

    /// Sets the count; 0 removes the latch.
    fn set(&mut self, count: u32) {
        self.count = Some(count).filter(|count| *count > 0);
    }

    fn count_down(mut self, request: Owner, now: Moment) -> Transition<LatchEntry, i64> {
        self.counted.retain(|_, (_, until)| *until > now);
        if let Some((answer, _)) = self.counted.get(&request) {
            let answer = i64::from(*answer);
            return Transition::silent(Some(self), answer);
        }
        let Some(count) = self.count else { return Transition::silent(Some(self), 0) };
        let left = count - 1;
        self.counted.insert(request, (left, now.after(REMEMBERED)));
        self.set(left);
        match left {
            0 => Transition::waking_all(Some(self), 0),
            left => Transition::silent(Some(self), i64::from(left)),
        }
    }
}

impl Machine for LatchEntry {
    fn is_live(&self, now: Moment) -> bool {
        self.count.is_some() || self.counted.values().any(|(_, until)| *until > now)
    }

    /// Writes nothing, and nothing is held afterwards.
    fn acquire(
        entry: Option<LatchEntry>,
        claim: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LatchEntry, Attempt> {
        let answer = match entry.as_ref().is_none_or(LatchEntry::is_open) {
            true => Attempt::Acquired { token: None, lease: claim.lease },
            false => Attempt::Busy { ttl: FOREVER },
        };
        Transition::silent(entry, answer)
    }

    fn release(
        entry: Option<LatchEntry>,
        _: &Claim,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LatchEntry, Released> {
        Transition::silent(entry, Released::NotHeld)
    }

    fn renew(entry: Option<LatchEntry>, _: &Claim, _: Moment) -> Transition<LatchEntry, Renewed> {
        Transition::silent(entry, Renewed::Gone)
    }

    /// Opens the latch.
    fn force(
        entry: Option<LatchEntry>,
        _: ClaimKind,
        _: Moment,
        _: &dyn MachineContext,
    ) -> Transition<LatchEntry, ()> {
        Transition::waking_all(entry.map(|entry| LatchEntry { count: None, ..entry }), ())
    }

    fn admin(entry: Option<LatchEntry>, op: &Admin, now: Moment) -> Transition<LatchEntry, i64> {
        let Admin::Latch(op) = op else { return Transition::silent(entry, 0) };
        let mut latch = entry.unwrap_or_default();
        let before = latch.count;
        let was = i64::from(before.unwrap_or_default());
        match *op {
            LatchOp::Init(count) if before.is_none() => {
                latch.set(count);
                Transition::silent(Some(latch), 1)
            }
            LatchOp::Init(_) => Transition::silent(Some(latch), 0),
            LatchOp::CountDown { request } => latch.count_down(request, now),
            LatchOp::Forget { request } => {
                let known = latch.counted.remove(&request);
                let known = known.is_some_and(|(_, until)| until > now);
                Transition::silent(Some(latch), i64::from(known))
            }
            LatchOp::Count => Transition::silent(Some(latch), was),
            LatchOp::Reset(count) => {
                latch.set(count);
                match count {
                    0 => Transition::waking_all(Some(latch), was),
                    _ => Transition::silent(Some(latch), was),
                }
            }
            LatchOp::Delete => {
                latch.count = None;
                Transition::waking_all(Some(latch), i64::from(before.is_some()))
            }
        }
    }

    fn view(&self, name: &str, _: Moment) -> Snapshot {
        Snapshot::free(name).with_count(self.count.map(i64::from))
    }
}
