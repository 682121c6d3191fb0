//! Who of this process is in a lock, who waits for it, and what the store was told: what a lane knows.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::acquire::Ask;
use super::detach::Adoptable;
use super::drive::Driver;
use super::hold::{Hold, Tenure};
use super::receipts::Receipts;
use crate::env::Moment;
use crate::error::Error;
use crate::holder::Asker;
use crate::owner::Owner;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Kind};

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
    /// See [`Ask::stay`].
    pub(super) stay: Owner,
    pub(super) kind: Kind,
    pub(super) what: ClaimKind,
    pub(super) spin: Option<Backoff>,
    pub(super) lease: Option<Duration>,
    pub(super) explicit: bool,
    /// Since when it waits, for how long a store that is out of reach may keep it waiting.
    pub(super) joined: Moment,
    /// The store may have something of it: the lock, if an attempt got no answer; a place in a queue.
    pub(super) unsure: bool,
    pub(super) grant: oneshot::Sender<Grant>,
    pub(super) asker: Option<Arc<Asker>>,
}

impl Waiter {
    /// Whether the store has nothing under its id. Then it gets a new one before it is asked for again: an attempt that was answered
    /// may have been withdrawn by the store, and that may still be on its way; it must not hit the next attempt.
    pub(super) fn wants_new_stay(&self) -> bool {
        !self.unsure && !self.what.leaves_traces()
    }
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
    /// The stay and depth that the store was last known to have for this process, and until when at least.
    pub(super) wire: Option<(Owner, u32)>,
    pub(super) wire_until: Option<Moment>,
    /// A hold that nobody here has any more and that stays as it is, while a step about it is under way.
    pub(super) left: Option<Arc<Tenure>>,
    /// How many permits it is, if they have ids.
    pub(super) wire_permits: u32,
    /// How many releases of lanes that are counted here are on their way.
    pub(super) releasing: u32,
    /// How many stays the store is told to forget. Meanwhile no waiter of this process asks: one of them may still be in the way.
    pub(super) forgetting: u32,
    /// What follows the present step is a release, and counted in another lane already.
    pub(super) parting: bool,
    pub(super) stepping: Option<Step>,
    /// The work that does so, if a caller polls it.
    pub(super) step_work: Option<Adoptable>,
    /// The lane's one contender asks the store.
    pub(super) attempting: bool,
    /// The work that does so, if a caller polls it.
    pub(super) attempt_work: Option<Adoptable>,
    /// How many ask it, with those who go beside the contender.
    pub(super) attempts: u32,
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
    /// When the last step was sent that the store answered.
    pub(super) answered: Option<Moment>,
    /// Set while the store does not answer.
    /// In a box because most lanes have none.
    pub(super) outage: Option<Box<Outage>>,
}

/// The store could not be asked, and has not answered since.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) since: Moment,
    /// When the last step failed.
    pub(super) last: Moment,
    pub(super) error: Error,
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
        let Ask { kind, what, spin, owner, stay, explicit, lease, .. } = *ask;
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1); // most names have one waiter
        }
        let asker = ask.asker.clone();
        let waiter = Waiter {
            ticket,
            owner,
            stay,
            kind,
            what,
            spin,
            lease,
            explicit,
            joined,
            unsure,
            grant,
            asker,
        };
        self.queue.push_back(waiter);
        let drive = !self.driving;
        self.driving = true;
        (ticket, granted, drive)
    }

    /// Nothing of this process is on its way to the store that whoever comes in must not meet.
    pub(super) fn is_idle(&self) -> bool {
        self.stepping.is_none() && !self.attempting && self.forgetting == 0
    }

    /// Nothing that is under way can change what the store has.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_idle() && self.attempts == 0 && self.trying.is_none()
    }

    /// And nobody of this process is in.
    pub(super) fn is_over(&self) -> bool {
        self.is_quiet() && self.seat.is_none()
    }

    /// Whether what nobody here holds any more is about to be free, whatever the store is told of it first.
    pub(super) fn is_letting_go(&self) -> bool {
        let parted = self.seat.is_none() && self.wire.is_some() && self.left.is_none();
        self.stepping == Some(Step::Release) || self.stepping.is_some() && parted
    }

    /// Takes a waiter out; `None` if it is not there any more, which means that its grant is on its way.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waiter> {
        let at = self.queue.binary_search_by_key(&ticket, |w| w.ticket).ok()?;
        let mut waiter = self.queue.remove(at)?;
        self.excuse(&mut waiter);
        Some(waiter)
    }

    /// What becomes of a waiter that has left while the driver asks for it is the driver's to settle.
    pub(super) fn excuse(&self, waiter: &mut Waiter) {
        waiter.unsure &= self.trying != Some(waiter.ticket);
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

    /// The store has just answered a step of this lane, of whatever sort, which was sent then.
    pub(super) fn heard(&mut self, sent: Moment) {
        self.answered = self.answered.max(Some(sent));
        self.outage = None;
    }

    /// A step failed because the store could not be asked. Says since when that is so.
    pub(super) fn unanswered(&mut self, now: Moment, error: &Error) -> Moment {
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        self.outage = Some(Box::new(Outage { since, last: now, error: error.clone() }));
        since
    }

    /// Puts an accepted hold into the seat. Whoever sat there has lost it: the store would not have given it away.
    pub(super) fn seat(&mut self, tenure: &Arc<Tenure>, watched: bool) -> Option<Arc<Tenure>> {
        let watched = u32::from(watched);
        let seat = Seat { tenure: tenure.clone(), depth: 1, watched, leaked: false };
        self.left = None;
        self.seat.replace(seat).map(|old| old.tenure)
    }

    /// Those who wait under the owner that has just come in can come in beside it: takes them out of the queue, for
    /// [`let_in_beside`](super::release::let_in_beside). Not asked before the waiter that the seat was won for has left the queue.
    pub(super) fn same_owner(&mut self, owner: Owner) -> Vec<Waiter> {
        let mut same = Vec::new();
        let mut at = 0;
        while at < self.queue.len() {
            if self.queue[at].explicit && self.queue[at].owner == owner {
                same.extend(self.queue.remove(at));
            } else {
                at += 1;
            }
        }
        same
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
    pub(super) fn on_the_wire(&mut self, stay: Owner, depth: u32, until: Moment) {
        self.wire = Some((stay, depth));
        self.wire_until = Some(until);
    }

    pub(super) fn is_on_wire(&self, stay: Owner) -> bool {
        self.wire.is_some_and(|(on_wire, _)| on_wire == stay)
    }

    /// The store accepted a step about what `before` had. Noted unless the lane has moved on to somebody else since; if
    /// nobody sits here any more, noting it is what gets it freed.
    pub(super) fn confirm(&mut self, before: Owner, stay: Owner, depth: u32, until: Moment) {
        if self.is_on_wire(before) || self.wire.is_none() && self.seat.is_none() {
            self.on_the_wire(stay, depth, until);
        }
    }

    /// The store may have this depth of a stay that it has anyway: if the level is released, the store must be told. Not noted
    /// if the lane has moved on to another stay since.
    pub(super) fn may_be_deeper(&mut self, stay: Owner, depth: u32) {
        if self.is_on_wire(stay) {
            self.wire = Some((stay, depth));
        }
    }

    /// What the store has of this tenure, or is about to hear of it, stays there.
    pub(super) fn leave_there(&mut self, tenure: &Arc<Tenure>) {
        match self.stepping {
            // Its answer must not be taken for something to free; and one that has just passed on must still become known.
            Some(_) => self.left = Some(tenure.clone()),
            None => self.wire = None,
        }
    }

    pub(super) fn has_seated(&self, owner: Owner) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.tenure.owner == owner)
    }

    /// Whether it is this very stay that sits here.
    pub(super) fn has_seated_stay(&self, stay: Owner) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.tenure.stay == stay)
    }

    pub(super) fn sits(&self, tenure: &Arc<Tenure>) -> bool {
        self.seat.as_ref().is_some_and(|seat| Arc::ptr_eq(&seat.tenure, tenure))
    }
}
