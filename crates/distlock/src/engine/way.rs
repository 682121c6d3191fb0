//! Which way a caller goes: the store, one level deeper, the queue, or a moment's patience.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::acquire::Ask;
use super::attempt::Lead;
use super::hold::Tenure;
use super::lanes::LaneRef;
use super::vitals::State;
use super::wait::Wait;
use super::waiters::{Grant, LaneState, Step, Ticket};
use super::{Engine, forget};
use crate::env::{BoxFuture, Moment};
use crate::error::Result;

/// What the lane tells a caller to do.
pub(super) enum Way {
    /// Ask the store.
    Attempt(Lead),
    /// The owner holds it: go one deeper.
    Reenter(Arc<Tenure>),
    /// Wait in the queue.
    Queue(Place),
    /// Something of this process is on its way to the store; look again when the lane is so.
    Settle(fn(&LaneState) -> bool),
}

/// Asks the lane, which takes note of the answer.
pub(super) fn way(engine: &Arc<Engine>, lane: &LaneRef, ask: &Ask) -> Result<Way> {
    if engine.is_closed() {
        return Err(Engine::closed_error());
    }
    let now = engine.env.now();
    if let Some(tenure) = lane.tenure()
        && tenure.vitals.state(now) == State::Lost
    {
        tenure.lose(); // noticed here before the watchdog did
    }
    let once = matches!(ask.wait, Wait::Once);
    // Own releases first, so that `drop(guard); try_lock()` succeeds.
    if once && lane.count().state().releasing > 0 {
        return Ok(Way::Settle(|_| true));
    }
    let mut state = lane.state();
    let stepping = state.stepping.is_some();
    if ask.what.is_shared() && !ask.explicit {
        // Each under an owner of its own: they need not come one after the other unless somebody waits already.
        return Ok(match once || state.queue.is_empty() {
            true => Way::Attempt(Lead::None),
            false => Way::Queue(Place::take(&mut state, ask, now, false)),
        });
    }
    if ask.explicit
        && let Some(seat) = state.seat.as_mut()
        && seat.tenure.owner == ask.owner
    {
        if stepping {
            return Ok(Way::Settle(|state| state.stepping.is_none()));
        }
        // Counted before it is sent: a guard that lets go meanwhile must not free the lock under it.
        seat.depth += 1;
        seat.watched += u32::from(ask.lease.is_none());
        let tenure = seat.tenure.clone();
        state.stepping = Some(Step::Reenter);
        return Ok(Way::Reenter(tenure));
    }
    let idle = state.is_idle();
    if once {
        if state.is_letting_go() {
            return Ok(Way::Settle(|state| !state.is_letting_go()));
        }
        // An attempt for somebody who has left may get the lock once more, to let go of it again: not in this one's way.
        if state.tries_for_nobody() {
            return Ok(Way::Settle(|state| !state.tries_for_nobody()));
        }
        if ask.explicit && !idle {
            return Ok(Way::Settle(LaneState::is_idle));
        }
        let leading = idle && (ask.explicit || state.seat.is_none());
        state.attempting |= leading;
        return Ok(Way::Attempt(if leading { Lead::Caller } else { Lead::None }));
    }
    if idle && state.seat.is_none() && state.queue.is_empty() && !state.driving {
        state.attempting = true;
        return Ok(Way::Attempt(Lead::Caller));
    }
    Ok(Way::Queue(Place::take(&mut state, ask, now, false)))
}

/// A place in a lane's queue.
pub(super) struct Place {
    ticket: Ticket,
    granted: oneshot::Receiver<Grant>,
    /// Whoever has it starts the driver.
    pub(super) drives: bool,
}

impl Place {
    pub(super) fn take(state: &mut LaneState, ask: &Ask, joined: Moment, unsure: bool) -> Place {
        let (ticket, granted, drives) = state.join(ask, joined, unsure);
        Place { ticket, granted, drives }
    }

    /// Waits for the grant, or until the time is up.
    pub(super) fn poll(
        &mut self,
        timeout: &mut Option<BoxFuture<'static, ()>>,
        engine: &Arc<Engine>,
        lane: &LaneRef,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Grant>> {
        if let Poll::Ready(grant) = Pin::new(&mut self.granted).poll(cx) {
            return Poll::Ready(grant.ok());
        }
        match timeout.as_mut().map(|timeout| timeout.as_mut().poll(cx)) {
            None | Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) if self.leave(engine, lane) => Poll::Ready(None),
            Some(Poll::Ready(())) => Poll::Ready(self.granted.try_recv().ok()),
        }
    }

    /// False if the place was gone: the grant was on its way.
    pub(super) fn leave(&self, engine: &Arc<Engine>, lane: &LaneRef) -> bool {
        let waiter = lane.leave(self.ticket);
        if let Some(waiter) = &waiter {
            forget::give_up(engine, lane, waiter);
        }
        waiter.is_some()
    }
}
