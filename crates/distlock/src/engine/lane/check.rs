//! The invariants of a lane, checked after every event in tests and debug builds.

use super::holding::{Occupant, Op, StoreView, Telling};
use super::waiting::{Asking, Waiting};
use super::{Lane, Parties};
use crate::env::Moment;

/// In longer queues waiters are not compared with each other: that would take longer than what is tested.
const MOST: usize = 32;

impl<P: Parties> Lane<P> {
    /// Panics if an invariant does not hold.
    pub(super) fn check(&self, now: Moment) {
        assert!(!matches!(self.telling, Telling::Answering), "BUG: an answer was not handled");
        if self.may_tell() {
            assert!(self.untold().is_none(), "BUG: the store is not told {:?}", self.untold());
            assert!(self.receipts.is_empty(), "BUG: receipts wait, and no step is under way");
            let left_behind = matches!(self.holder, Occupant::LeftBehind { .. });
            assert!(!left_behind, "BUG: what was left behind is kept, and no step is under way");
            assert!(!self.is_counted, "BUG: a release is counted, and none is under way");
            assert!(!self.renew_wanted, "BUG: a renewal is wanted and not sent");
        }
        if let Occupant::Held(held) = &self.holder {
            assert!(held.depth > 0 && held.watched <= held.depth, "BUG: {held:?}");
            assert!(now < held.life.deadline, "BUG: held after its deadline: {held:?}");
            assert!(held.life.deadline <= held.life.expires, "BUG: {held:?}");
            let doubted = self.doubts.iter().any(|doubt| doubt.stay == held.stay);
            assert!(!doubted, "BUG: the store is told to forget the stay that holds: {held:?}");
            // Of what the store has nothing of, it must at least be about to hear.
            assert!(self.view != StoreView::Nothing, "BUG: the store has nothing of {held:?}");
        }
        if let Telling::Under(under) = &self.telling {
            let waits = under.receipts.is_empty() || under.op.is_release();
            assert!(waits, "BUG: receipts wait for {:?}", under.op);
            let own = matches!(under.op, Op::Acquire(_) | Op::Renew { .. } | Op::Forget { .. });
            assert!(!own, "BUG: {:?} is not told in turn", under.op);
        }
        let tickets = self.queue.iter().map(|waiter| waiter.ticket);
        assert!(tickets.is_sorted_by(|a, b| a < b), "BUG: the queue is out of order");
        let waits = self.waiting != Waiting::Off;
        assert!(waits || self.queue.is_empty(), "BUG: a task waits, and no one looks after it");
        assert!(self.will_look(), "BUG: nothing makes the lane look again: {:?}", self.waiting);
        if let Asking::Driver { .. } = self.asking {
            assert!(waits, "BUG: the driver asks, and no task waits");
            assert!(self.waiting == Waiting::Looking, "BUG: the driver asks while it waits");
        }
        if self.queue.len() > MOST {
            return;
        }
        // A named owner may wait twice, and come back to a stay that it left behind. Of the waiter that is asked for now, an acquisition
        // that was not durable is taken back first.
        let asked = match self.asking {
            Asking::Driver { ticket, .. } => Some(ticket),
            _ => None,
        };
        let minted = || {
            let waiters = self.queue.iter();
            waiters.filter(|waiter| !waiter.want.explicit && Some(waiter.ticket) != asked)
        };
        for waiter in minted() {
            let same = minted().filter(|other| other.want.stay == waiter.want.stay);
            assert!(same.count() == 1, "BUG: two waiters have one stay");
            let doubted = self.doubts.iter().any(|doubt| doubt.stay == waiter.want.stay);
            assert!(!doubted, "BUG: the store is told to forget a stay that waits");
        }
    }

    /// Whether anything makes the lane look again.
    fn will_look(&self) -> bool {
        match self.waiting {
            Waiting::Off => self.queue.is_empty(),
            Waiting::Looking => matches!(self.asking, Asking::Driver { .. }),
            Waiting::Subscribing { .. } => true,
            Waiting::Resting { until } => {
                until != Moment::NEVER
                    || !self.is_idle()
                    || !matches!(self.holder, Occupant::Vacant)
            }
        }
    }
}
