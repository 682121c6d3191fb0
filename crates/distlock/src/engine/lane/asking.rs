//! Which way a caller goes: the store, one level deeper, the queue, or first an answer to something that is under way.

use super::holding::{Occupant, Op, Step, Telling};
use super::waiting::{Asking, Waiting};
use super::{Effect, Effects, Lane, Parties, StepId, Want};
use crate::env::Moment;

/// What the lane tells a caller to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Way<H> {
    /// Ask the store, as this step: as the lane's one contender, or beside it.
    Attempt { step: StepId, leads: bool },
    /// The owner holds it: the level is counted, ask the store for it.
    Reenter { step: StepId, hold: H },
    /// Join the queue.
    Queue,
    /// Look again when the lane is so.
    Settle(Until),
    /// What the caller asks about is not held.
    Lost,
}

/// What a caller waits for before it looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Until {
    /// The store is told nothing of the hold.
    Told,
    /// Nor of any other stay.
    ToldAll,
    /// Nothing that ended here is still on its way to be free.
    LetGo,
    /// The driver asks for no waiter that has left.
    NobodyIsAskedFor,
    /// Nothing is under way that a new attempt must not meet.
    Idle,
    /// Nothing is under way that can change what the store has.
    Quiet,
    /// Nothing of this lane.
    Any,
}

impl<P: Parties> Lane<P> {
    /// `releasing`: releases that are counted in this lane's name are under way.
    pub(super) fn ask(&mut self, want: &Want, releasing: bool, out: &mut Effects<P>) {
        let way = self.way(want, releasing, out);
        out.push(Effect::Way(way));
    }

    fn way(&mut self, want: &Want, releasing: bool, out: &mut Effects<P>) -> Way<P::Hold> {
        // Own releases first, so that `drop(guard); try_lock()` succeeds.
        if want.once && releasing {
            return Way::Settle(Until::Any);
        }
        if want.what.is_shared() && !want.explicit {
            // Each under an owner of its own: they need not come one after the other unless another one waits already.
            return match want.once || self.queue.is_empty() {
                true => self.attempt_beside(),
                false => Way::Queue,
            };
        }
        if want.explicit && matches!(&self.holder, Occupant::Held(held) if held.owner == want.owner)
        {
            return self.reenter(want, out);
        }
        let vacant = self.hold().is_none();
        if want.once {
            if self.is_letting_go() {
                return Way::Settle(Until::LetGo);
            }
            // An attempt for a waiter that has left may get the lock once more, to let go of it again: not in this one's way.
            if self.asks_for_nobody() {
                return Way::Settle(Until::NobodyIsAskedFor);
            }
            if want.explicit && !self.is_idle() {
                return Way::Settle(Until::Idle);
            }
            return match self.is_idle() && (want.explicit || vacant) {
                true => self.lead(),
                false => self.attempt_beside(),
            };
        }
        let first = self.queue.is_empty() && self.waiting == Waiting::Off;
        if self.is_idle() && vacant && first { self.lead() } else { Way::Queue }
    }

    /// One lock of several that are asked for in one step. A caller that must wait for something, or holds the lock already, asks for
    /// this one by itself.
    pub(super) fn ask_together(&mut self, want: &Want, out: &mut Effects<P>) {
        let held = matches!(&self.holder, Occupant::Held(held) if held.owner == want.owner);
        let way = if !want.explicit {
            match !self.is_letting_go() && !self.asks_for_nobody() {
                true => self.attempt_beside(),
                false => Way::Queue,
            }
        } else if held || !self.is_idle() {
            // Steps of an owner that another caller may use too come one after the other.
            Way::Queue
        } else {
            self.lead()
        };
        out.push(Effect::Way(way));
    }

    fn lead(&mut self) -> Way<P::Hold> {
        let step = self.next_step();
        self.asking = Asking::Caller(step);
        Way::Attempt { step, leads: true }
    }

    fn attempt_beside(&mut self) -> Way<P::Hold> {
        self.beside += 1;
        Way::Attempt { step: self.next_step(), leads: false }
    }

    fn reenter(&mut self, want: &Want, out: &mut Effects<P>) -> Way<P::Hold> {
        if !self.may_tell() {
            return Way::Settle(Until::Told);
        }
        let Occupant::Held(held) = &mut self.holder else { return Way::Lost };
        // Counted before it is sent: a guard that lets go meanwhile must not free the lock under it.
        held.depth += 1;
        held.watched += u32::from(want.lease.is_none());
        let (hold, depth) = (held.hold.clone(), held.depth);
        let op = Op::Reenter { hold: hold.clone(), depth, want: Box::new(*want) };
        let step = self.under_way(op, want.retry_until, out);
        Way::Reenter { step, hold }
    }

    /// The caller sends it.
    fn under_way(&mut self, op: Op<P>, retry_until: Moment, out: &mut Effects<P>) -> StepId {
        let id = self.next_step();
        self.telling = Telling::under(id, op.clone(), retry_until);
        out.push(Effect::Step(Step { id, op }));
        id
    }
}
