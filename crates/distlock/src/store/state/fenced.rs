//! Fencing tokens: how they are numbered and how they are checked.

use super::{Around, Machine, Step};
use crate::env::Moment;
use crate::store::{Admin, Attempt, Claim, Released, Snapshot, What};

/// The token after `last`. Not below the time in milliseconds, so that tokens go on rising when the counter is lost.
pub fn next(last: u64, millis: u64) -> u64 {
    last.saturating_add(1).max(millis)
}

/// The checking side: the highest token seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The highest token that was shown.
    pub highest: u64,
}

/// A gate is not a lock: it can only be shown tokens.
impl Machine for Gate {
    fn is_live(&self, _: Moment) -> bool {
        true
    }

    fn acquire(entry: Option<Gate>, _: &Claim, _: Moment, _: &dyn Around) -> Step<Gate, Attempt> {
        Step::quiet(entry, Attempt::Busy { ttl: std::time::Duration::MAX })
    }

    fn release(entry: Option<Gate>, _: &Claim, _: Moment, _: &dyn Around) -> Step<Gate, Released> {
        Step::quiet(entry, Released::NotHeld)
    }

    fn renew(entry: Option<Gate>, _: &Claim, _: Moment) -> Step<Gate, bool> {
        Step::quiet(entry, false)
    }

    fn force(entry: Option<Gate>, _: What, _: Moment, _: &dyn Around) -> Step<Gate, ()> {
        Step::quiet(entry, ())
    }

    fn admin(entry: Option<Gate>, op: &Admin, _: Moment) -> Step<Gate, i64> {
        match op {
            Admin::Fence { token } => {
                let highest = entry.map_or(0, |gate| gate.highest);
                let passes = *token >= highest;
                let gate = Gate { highest: highest.max(*token) };
                Step::quiet(Some(gate), i64::from(passes))
            }
            Admin::FenceForget => Step::quiet(None, i64::from(entry.is_some())),
            _ => Step::quiet(entry, 0),
        }
    }

    fn view(&self, name: &str, _: Moment) -> Snapshot {
        Snapshot::free(name).with_count(i64::try_from(self.highest).ok())
    }
}
