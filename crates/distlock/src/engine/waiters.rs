//! A lane: who of this process is in the lock, who waits for it, and what the store was told.
//!
//! Many local waiters share one remote contender and one subscription. A lane exists while somebody uses it.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::acquire::Ask;
use super::drive::Driver;
use super::hold::{Hold, Tenure};
use super::lanes::{LaneRef, Shards};
use super::nature::{Class, Spot};
use super::tell::Receipts;
use crate::backoff::Backoff;
use crate::env::Moment;
use crate::error::Error;
use crate::owner::Owner;
use crate::store::{Kind, What};

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

/// Something this process tells the store about a hold it has. One at a time per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Release,
    Pass,
    Reenter,
    Renew,
}

/// The hold that this process has.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) tenure: Arc<Tenure>,
    /// How many guards share it.
    pub(super) depth: u32,
    /// How many of these asked for the watchdog.
    pub(super) watched: u32,
    /// A guard was leaked: the store keeps the lock until its lease ends.
    pub(super) leaked: bool,
}

/// What a waiter gets.
#[derive(Debug)]
pub(super) enum Grant {
    /// The lock.
    Hold(Hold),
    /// Its own owner holds the lock now: it can re-enter.
    Again,
    /// An error that ends its wait.
    Failed(Error),
}

/// A waiter's place in the queue of its lane.
pub(super) type Ticket = NonZeroU64;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    pub(super) what: What,
    pub(super) spin: Option<Backoff>,
    pub(super) lease: Option<Duration>,
    pub(super) explicit: bool,
    /// Since when it waits, for how long a store that is out of reach may keep it waiting.
    pub(super) joined: Moment,
    /// The store may have something of it: the lock, if an attempt got no answer; a place in a queue.
    pub(super) unsure: bool,
    pub(super) grant: oneshot::Sender<Grant>,
}

/// This process has had its burst: it does not ask again before the others had theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandBack {
    /// How many releases to hear first.
    pub(super) turns: u64,
    /// When to ask all the same.
    pub(super) until: Moment,
}

#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) seat: Option<Seat>,
    /// The owner and depth that the store was last known to have for this process, and until when at least.
    pub(super) wire: Option<(Owner, u32)>,
    pub(super) wire_until: Option<Moment>,
    /// How many permits it is, if they have ids.
    pub(super) wire_permits: u32,
    /// How many releases of lanes that are counted here are on their way.
    pub(super) releasing: u32,
    pub(super) stepping: Option<Step>,
    pub(super) attempting: bool,
    /// The waiter that the driver asks for now. If it leaves meanwhile, what became of it is the driver's to settle.
    pub(super) trying: Option<Ticket>,
    pub(super) queue: VecDeque<Waiter>,
    /// How many were given out.
    tickets: u64,
    pub(super) driving: bool,
    /// The driver has a subscription of its own.
    pub(super) listening: bool,
    /// The driver, while there is nothing for it to do.
    pub(super) rest: Option<Box<Driver>>,
    /// Something happened that it has not looked at.
    pub(super) nudged: bool,
    /// How often and since when the hold passed on locally.
    pub(super) burst: u32,
    pub(super) burst_since: Option<Moment>,
    /// A burst has just ended although somebody here still waits: others first, if there are any.
    pub(super) spent: bool,
    pub(super) stand_back: Option<StandBack>,
    /// When the store may be told of a hand-off again.
    pub(super) next_pass: Option<Moment>,
    /// Who wants to know how the next release went.
    pub(super) receipts: Receipts,
    /// When the store last answered, and the error since then.
    pub(super) answered: Option<Moment>,
    pub(super) outage: Option<(Moment, Error)>,
}

impl LaneState {
    /// Queues a waiter; true if it must also start the driver.
    pub(super) fn join(
        &mut self,
        ask: &Ask,
        joined: Moment,
        unsure: bool,
    ) -> (Ticket, oneshot::Receiver<Grant>, bool) {
        let (grant, granted) = oneshot::channel();
        self.tickets += 1;
        let ticket = Ticket::MIN.saturating_add(self.tickets);
        let Ask { kind, what, spin, owner, explicit, lease, .. } = *ask;
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1); // most names have one waiter
        }
        let waiter =
            Waiter { ticket, owner, kind, what, spin, lease, explicit, joined, unsure, grant };
        self.queue.push_back(waiter);
        let drive = !self.driving;
        self.driving = true;
        (ticket, granted, drive)
    }

    /// Takes a waiter out; `None` if it is not there any more, which means that its grant is on its way.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waiter> {
        let at = self.queue.binary_search_by_key(&ticket, |w| w.ticket).ok()?;
        self.queue.remove(at)
    }

    /// The waiter with this ticket, if it still waits.
    pub(super) fn waiter(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        let at = self.queue.binary_search_by_key(&ticket, |w| w.ticket).ok()?;
        self.queue.get_mut(at)
    }

    /// Whether the driver asks for somebody who has left.
    pub(super) fn tries_for_nobody(&self) -> bool {
        let waits = |ticket| self.queue.binary_search_by_key(&ticket, |w| w.ticket).is_ok();
        self.trying.is_some_and(|ticket| !waits(ticket))
    }

    /// Puts an accepted hold into the seat. Whoever sat there has lost it: the store would not have given it away.
    pub(super) fn seat(&mut self, tenure: &Arc<Tenure>, watched: bool) -> Option<Arc<Tenure>> {
        let watched = u32::from(watched);
        let seat = Seat { tenure: tenure.clone(), depth: 1, watched, leaked: false };
        self.seat.replace(seat).map(|old| old.tenure)
    }

    /// Those who wait under the owner that has just come in can come in beside it. Not asked before whoever the seat
    /// was won for has left the queue.
    pub(super) fn welcome(&mut self, owner: Owner) {
        let mut at = 0;
        while at < self.queue.len() {
            if self.queue[at].explicit && self.queue[at].owner == owner {
                if let Some(waiter) = self.queue.remove(at) {
                    drop(waiter.grant.send(Grant::Again));
                }
            } else {
                at += 1;
            }
        }
    }

    /// Those who wait for what the first of them has just got can most likely have it too: let each ask for itself. But
    /// not those of whom the store may have something: what clears that up is the driver's next attempt for them.
    pub(super) fn open(&mut self) {
        for waiter in std::mem::take(&mut self.queue) {
            if waiter.unsure {
                self.queue.push_back(waiter);
            } else {
                drop(waiter.grant.send(Grant::Again));
            }
        }
    }

    /// The store has this for sure, until then at least.
    pub(super) fn on_the_wire(&mut self, owner: Owner, depth: u32, until: Moment) {
        self.wire = Some((owner, depth));
        self.wire_until = Some(until);
    }

    pub(super) fn is_on_wire(&self, owner: Owner) -> bool {
        self.wire.is_some_and(|(on_wire, _)| on_wire == owner)
    }

    /// The store accepted a step about what `before` had. Noted unless the lane has moved on to somebody else since; if
    /// nobody sits here any more, noting it is what gets it freed.
    pub(super) fn confirm(&mut self, before: Owner, owner: Owner, depth: u32, until: Moment) {
        if self.is_on_wire(before) || self.wire.is_none() && self.seat.is_none() {
            self.on_the_wire(owner, depth, until);
        }
    }

    pub(super) fn sits(&self, tenure: &Arc<Tenure>) -> bool {
        self.seat.as_ref().is_some_and(|seat| Arc::ptr_eq(&seat.tenure, tenure))
    }
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
    pub(super) fn what(&self, permits: u32) -> What {
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
        if state.is_on_wire(tenure.owner) {
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
            tenure.finish();
            let seat = state.seat.take();
            state.wire = None;
            drop(state);
            drop(seat);
            self.announce();
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
