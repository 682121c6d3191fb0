//! A lane: one lock as this process uses it.
//!
//! Many local waiters share one remote contender and one subscription. A lane exists while somebody uses it.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use tokio::sync::Notify;

use super::hold::Tenure;
use super::lanes::{LaneRef, Shards};
use super::nature::{Class, Spot};
use super::waiters::{LaneState, Ticket, Waiter};
use crate::observe::Event;
use crate::owner::Owner;
use crate::store::ClaimKind;

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: Arc<str>,
    class: Class,
    /// In a box because most lanes have none.
    apart: Option<Box<Apart>>,
    pub(super) home: Arc<Shards>,
    /// How many `LaneRef`s there are.
    pub(super) users: AtomicUsize,
    state: Mutex<LaneState>,
    /// For callers: a step or an attempt of this process ended, or the seat fell vacant.
    pub(super) changed: Notify,
}

/// What a lane has that is one of several of its name.
#[derive(Debug)]
struct Apart {
    /// Set for a lane that serves one owner.
    own: Option<Owner>,
    /// The lane in which this one's releases are counted.
    counted: LaneRef,
}

/// A lane as a waker: whoever calls out on a topic nudges it.
impl Wake for Lane {
    fn wake(self: Arc<Lane>) {
        self.nudge();
    }

    fn wake_by_ref(self: &Arc<Lane>) {
        self.nudge();
    }
}

impl Lane {
    pub(super) fn new(
        name: Arc<str>,
        spot: Spot,
        counted: Option<LaneRef>,
        home: Arc<Shards>,
    ) -> Lane {
        let apart = counted.map(|counted| Box::new(Apart { own: spot.own, counted }));
        let (class, users) = (spot.class, AtomicUsize::new(0));
        let (state, changed) = (Mutex::default(), Notify::new());
        Lane { name, class, apart, home, users, state, changed }
    }

    /// What a hold in this lane is, as far as letting go of it needs to know.
    pub(super) fn what(&self, permits: u32) -> ClaimKind {
        self.class.what(permits)
    }

    pub(super) fn is_at(&self, spot: Spot) -> bool {
        self.class == spot.class && self.apart.as_ref().and_then(|apart| apart.own) == spot.own
    }

    /// Whether its releases are counted in another lane.
    pub(super) fn is_counted_elsewhere(&self) -> bool {
        self.apart.is_some()
    }

    /// Where releases of this lane are counted, with those of its like.
    pub(super) fn count(&self) -> &Lane {
        self.apart.as_ref().map_or(self, |apart| &apart.counted)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who of this process holds it now.
    pub(super) fn tenure(&self) -> Option<Arc<Tenure>> {
        self.state().seat.as_ref().map(|seat| seat.tenure.clone())
    }

    /// Ends when no step of this process is on its way to the store.
    pub(super) async fn settled(&self) {
        self.until(|state| state.stepping.is_none()).await;
    }

    /// Ends when the lane is as it should be.
    pub(super) async fn until(&self, so: impl Fn(&LaneState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if so(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn leave(&self, ticket: Ticket) -> Option<Waiter> {
        let mut state = self.state();
        let first = state.queue.front().is_some_and(|first| first.ticket == ticket);
        let left = state.leave(ticket);
        // The driver has nobody left to drive for; or whoever comes next may want less, and it is there.
        let look = left
            .as_ref()
            .is_some_and(|left| state.queue.is_empty() || first && left.what.is_shared());
        drop(state);
        if look {
            self.nudge();
        }
        left
    }

    /// The seat of a lost tenure falls vacant, and the next one may try.
    pub(super) fn vacate(&self, tenure: &Arc<Tenure>) {
        let mut state = self.state();
        if !state.sits(tenure) {
            return;
        }
        // If the store still has its predecessor, whoever is about to tell it otherwise frees that instead.
        if state.is_on_wire(tenure.stay) {
            state.wire = None;
        }
        let receipts = (state.seat.take(), std::mem::take(&mut state.receipts));
        drop(state);
        drop(receipts); // unanswered: whoever waits for one learns of the loss from the tenure
        self.announce();
    }

    /// One guard of the tenure is forgotten. The last one leaves the store as it is.
    pub(super) fn leak(&self, tenure: &Arc<Tenure>, watched: bool) {
        let mut state = self.state();
        if !state.sits(tenure) {
            return;
        }
        let Some(seat) = state.seat.as_mut() else { return };
        seat.leaked = true;
        seat.depth -= 1;
        seat.watched -= u32::from(watched);
        tenure.watch(seat.watched > 0);
        if seat.depth == 0 {
            let alive = tenure.finish();
            let seat = state.seat.take();
            state.leave_there(tenure);
            drop(state);
            drop(seat);
            tenure.engine.remember_leaked(tenure);
            if alive {
                tenure.observe(Event::Leaked);
            }
            self.announce();
        }
    }

    /// Has the library's own thread poll what callers of this process have under way here.
    pub(super) fn adopt(&self) {
        let state = self.state();
        let works = [state.attempt_work.clone(), state.step_work.clone()];
        drop(state);
        for work in works.into_iter().flatten() {
            if let Some(work) = work.upgrade() {
                work.adopt();
            }
        }
    }

    /// Something changed that callers or the driver may have waited for.
    pub(super) fn announce(&self) {
        self.changed.notify_waiters();
        self.nudge();
    }

    /// Makes the driver look again: now if it rests, else before it does.
    pub(super) fn nudge(&self) {
        let mut state = self.state();
        match state.rest.take() {
            Some(driver) => {
                drop(state);
                driver.wake_up();
            }
            None => state.nudged = true,
        }
    }
}
