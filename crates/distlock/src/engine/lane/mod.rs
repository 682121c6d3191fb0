//! A lane: one lock as one process uses it. A pure state machine: no I/O, no clock, no tokio.
//!
//! It knows which task of this process holds the lock, which tasks wait for it, what the store was last known to have, and which
//! steps are under way. [`Lane::on`] takes one [`LaneEvent`] and adds to the [`Effects`] what must be done; the [shell](super::shell) locks the
//! lane, calls it, and carries the effects out. The fields are private to this folder: every change of a lane is one event.
//!
//! ```text
//!                 callers                                     the store
//!   Ask ──► Way: Attempt │ Reenter │ Queue │ Settle │ Lost     ▲     │
//!   Join, Leave, LetGo, Leak, Extend, Revoke, Close      Step  │     │ Attempted, Told, Listening, Heard
//!            │                                                 │     ▼
//!   ┌────────▼─────────────────────────────────────────────────┴─────────────┐
//!   │ waiting.rs                               holding.rs                    │
//!   │  queue    the waiters, in order          Occupant  Vacant, Held,       │
//!   │  Waiting  Off, Looking, Subscribing,               LeftBehind          │
//!   │           Resting                        StoreView Nothing, Has        │
//!   │  Asking   Nobody, Caller, Driver         Telling   Idle, Under(step)   │
//!   │                                          doubts    stays to forget     │
//!   └────────┬───────────────────────────────────────────────────────────────┘
//!            ▼
//!   Grant, AskAgain, Refuse, Receipts; Accepted, Suspect, Lost, Released (for the hold's vitals); Rest, Listen, Unlisten
//! ```
//!
//! A guard has a `Hold`, which lets go when it is dropped; a hold has a `Tenure`, one owner's stay in the lock; the lane knows the tenure
//! as `Parties::Hold`, and whether it still holds.
//!
//! # What keeps it right
//! - **Told until they agree.** Whatever differs between `Occupant` and `StoreView` is told to the store, one step at a time, and each step is
//!   sent again until it is answered, or until what it is about has ended at the store by itself: [`Lane::check`] demands that nothing is left
//!   to tell while no step is under way.
//! - **One shape of doubt.** A stay that the store may have, although no task here holds it, either belongs to a waiter that asks for it again
//!   under the same id, or is in `doubts`, and the store is told to forget it.
//! - **A lane in which tasks wait looks.** While the queue is not empty a step for a waiter is under way, or a time is set, or an
//!   event will come that makes the lane look again.
//! - **Loss is final, and decided here:** by the deadline, which is counted from the moment when the last accepted step was sent, or by the
//!   store's word.

mod asking;
mod bugs;
#[cfg(any(test, debug_assertions))]
mod check;
mod effects;
mod holding;
mod waiting;

#[cfg(test)]
mod digest;
#[cfg(test)]
mod model;
#[cfg(test)]
mod traces;

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::vitals::Life;
use crate::env::Moment;
use crate::error::Error;
use crate::owner::Owner;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Released};

pub(super) use asking::{Until, Way};
use bugs::{Bug, is_planted};
pub(super) use effects::{Effect, Effects, Tried};
use holding::{Doubt, Occupant, Renewing, StoreView, Telling};
pub(super) use holding::{Op, Receipts, Step, slack};
pub(super) use waiting::AskFor;
use waiting::{Asking, Driver, StandBack, Waiting};

/// What a lane handles without looking into it: oneshot channels and tenures in production, small numbers in the model.
pub(super) trait Parties: Sized + fmt::Debug + 'static {
    /// How a waiter gets its answer.
    type Waiter: fmt::Debug;
    /// One owner's stay in the lock.
    type Hold: Clone + PartialEq + fmt::Debug;
    /// The duty to say how a release went.
    type Receipt: fmt::Debug;

    /// What an attempt for a waiter needs to know beside what it wants.
    type About: Clone + fmt::Debug;

    fn about(waiter: &Self::Waiter) -> Self::About;

    /// Begins the stay of the waiter to which the hold of `giver` passes; under a new id if `anew`.
    fn heir(
        giver: &Self::Hold,
        waiter: &Self::Waiter,
        want: &Want,
        anew: bool,
        life: Life,
    ) -> Heir<Self::Hold>;
}

/// A stay that begins with a hand-off.
pub(super) struct Heir<H> {
    pub(super) hold: H,
    pub(super) owner: Owner,
    pub(super) stay: Owner,
}

/// What is the same for all lanes of an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// For how long a hold without a lease is renewed.
    pub(super) watchdog: Duration,
    /// A wait looks again after this time even if no event comes.
    pub(super) recheck: Duration,
    /// Whether the store takes hand-overs.
    pub(super) passes_on: bool,
    /// Whether an acquire waits for replicas, which do not acknowledge hand-overs.
    pub(super) acks: bool,
}

/// A step of this lane, from its send to its answer.
pub(super) type StepId = u32;

/// A waiter's place in the queue of its lane.
pub(super) type Ticket = NonZeroU64;

/// What a caller wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) what: ClaimKind,
    /// Who asks, as this process knows it.
    pub(super) owner: Owner,
    /// Who asks, as the store knows it: an id for one stay.
    pub(super) stay: Owner,
    /// The caller named the owner, so that it may hold the lock already.
    pub(super) explicit: bool,
    /// `None`: the watchdog's timeout, renewed.
    pub(super) lease: Option<Duration>,
    /// For a single try only.
    pub(super) once: bool,
    /// Until when a single try is sent again after a failure.
    pub(super) retry_until: Moment,
    /// Polls instead of listening.
    pub(super) spin: Option<Backoff>,
}

/// A task that waits.
#[derive(Clone, Debug)]
struct Waiter<W> {
    ticket: Ticket,
    want: Want,
    joined: Moment,
    /// The store may have something of it: the lock, if an attempt got no answer; a place in a queue.
    doubt: bool,
    handle: W,
}

impl<W> Waiter<W> {
    /// Whether the store has nothing under its id. Then it gets a new one before it is asked for again: an attempt that was answered may
    /// have been withdrawn by the store, and that may still be on its way; it must not hit the next attempt.
    fn wants_new_stay(&self) -> bool {
        is_planted(Bug::NewStayInDoubt) || !self.doubt && !self.want.what.leaves_traces()
    }
}

/// The reply to an attempt to acquire.
#[derive(Clone, Debug)]
pub(super) enum AttemptReply<H> {
    /// Acquired for this long from the send. `here`: the hold is kept in this lane.
    Acquired {
        hold: H,
        lease: Duration,
        here: bool,
    },
    Busy {
        ttl: Duration,
    },
    /// Acquired, but the reply took so long that it proves nothing any more.
    TooLate(Option<Error>),
    /// What was not durable has been taken back by now.
    Failed(Error),
}

/// The reply to any other step.
#[derive(Clone, Debug)]
pub(super) enum StepReply {
    /// For a re-entry or a hand-over.
    Acquired {
        lease: Duration,
    },
    Busy,
    Released(Released),
    /// For a renewal.
    Held {
        lease: Duration,
    },
    Gone,
    Forgotten,
    /// The pause before a hand-over is over.
    Paused,
    Failed(Error),
}

/// What happens to a lane.
#[derive(Debug)]
pub(super) enum LaneEvent<P: Parties> {
    /// A caller asks which way to go.
    Ask { want: Want, releasing: bool },
    /// One of several locks that are asked for in one step.
    AskTogether { want: Want },
    /// A caller queues. `doubt`: the store may have something of it. `tried`: it has just asked, and the lock was busy.
    Join { want: Want, waiter: P::Waiter, joined: Moment, doubt: bool, tried: bool },
    /// A waiter leaves.
    Leave(Ticket),
    /// The driver's waiter gets another id before it is asked for.
    Renamed { ticket: Ticket, owner: Owner, stay: Owner },
    /// A hold that was acquired elsewhere is kept here.
    Sit { hold: P::Hold, want: Want, sent: Moment, lease: Duration },
    /// An attempt has ended. `doubt`: an earlier one of the same step got no answer.
    Attempted {
        step: StepId,
        want: Want,
        sent: Moment,
        reply: AttemptReply<P::Hold>,
        doubt: bool,
        chance: u64,
    },
    /// One guard of the hold lets go.
    LetGo { hold: P::Hold, watched: bool, receipt: Option<P::Receipt> },
    /// One guard of the hold is forgotten: the store keeps what it has.
    Leak { hold: P::Hold, watched: bool },
    /// The present hold is taken away from its guards, and released.
    Revoke,
    /// The caller wants the hold to last this long.
    Extend { hold: P::Hold, lease: Duration, retry_until: Moment },
    /// The watchdog is to renew it.
    RenewDue(P::Hold),
    /// The hold may have reached its deadline.
    Expired(P::Hold),
    /// The store said that it does not have it.
    Gone(P::Hold),
    /// The store may have this stay, and no task of this process uses it.
    Forget { what: ClaimKind, stay: Owner, lease: Duration, receipt: Option<P::Receipt> },
    /// A step other than an attempt was answered.
    Told { step: StepId, sent: Moment, reply: StepReply },
    /// The future of a step was dropped: it may have been applied. With what it wanted, if it was an attempt.
    Abandoned { step: StepId, want: Option<Want> },
    /// An attempt was not sent after all.
    Unsent(StepId),
    /// The subscription is acknowledged, or failed.
    Listening { step: StepId, result: Result<(), Error>, chance: u64 },
    /// So many releases were published since the lane last looked.
    Heard(u64),
    /// A release that is counted in this lane has ended, a time that was set has come, or a topic has a message.
    Tick,
    /// Every wait ends with this error.
    Close(Error),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Lane<P: Parties> {
    rules: Arc<Rules>,
    /// Its releases are counted in another lane, where single tries wait for them.
    counted_elsewhere: bool,
    /// Holds of those who wait in this lane are kept in it.
    sits_here: bool,
    /// How many steps were given out.
    steps: StepId,

    holder: Occupant<P::Hold>,
    view: StoreView,
    telling: Telling<P>,
    renewing: Option<Renewing<P::Hold>>,
    /// Callers who wait for the result of the next release.
    receipts: Receipts<P::Receipt>,
    /// The watchdog wanted to renew while another step was under way.
    renew_wanted: bool,
    /// A release that is under way, or follows the step that is, has been counted in the other lane.
    is_counted: bool,
    doubts: Vec<Doubt<P::Receipt>>,
    /// How often and since when the hold passed on locally.
    burst: u32,
    burst_since: Option<Moment>,
    /// A burst has just ended although a task here still waits: other processes first, if there are any.
    burst_spent: bool,
    /// How many releases were heard since then: the message of the release that ends the burst may come before its reply.
    heard_early: u64,
    /// When the store may be told of a hand-off again.
    next_pass: Option<Moment>,

    asking: Asking,
    /// How many attempts go beside the one that leads.
    beside: u32,
    queue: VecDeque<Waiter<P::Waiter>>,
    tickets: u64,
    waiting: Waiting,
    driver: Driver,
    stand_back: Option<StandBack>,
    /// When the last step was sent that the store answered.
    answered: Option<Moment>,
    /// Set while the store does not answer; in a box because most lanes have none.
    outage: Option<Box<Outage>>,
}

/// The store could not be asked, and has not answered since.
#[derive(Clone, Debug)]
struct Outage {
    since: Moment,
    /// When the last step failed.
    last: Moment,
    error: Error,
}

impl<P: Parties> Lane<P> {
    pub(super) fn new(rules: Arc<Rules>, counted_elsewhere: bool, sits_here: bool) -> Lane<P> {
        Lane {
            rules,
            counted_elsewhere,
            sits_here,
            steps: 0,
            holder: Occupant::Vacant,
            view: StoreView::Nothing,
            telling: Telling::Idle,
            renewing: None,
            receipts: Receipts::default(),
            renew_wanted: false,
            is_counted: false,
            doubts: Vec::new(),
            burst: 0,
            burst_since: None,
            burst_spent: false,
            heard_early: 0,
            next_pass: None,
            asking: Asking::Nobody,
            beside: 0,
            queue: VecDeque::new(),
            tickets: 0,
            waiting: Waiting::Off,
            driver: Driver::default(),
            stand_back: None,
            answered: None,
            outage: None,
        }
    }

    /// Takes one event. What must be done for it is added to `out`, in the order in which it must be done.
    pub(super) fn on(&mut self, event: LaneEvent<P>, now: Moment, out: &mut Effects<P>) {
        self.expire(now, out);
        match event {
            LaneEvent::Ask { want, releasing } => self.ask(&want, releasing, out),
            LaneEvent::AskTogether { want } => self.ask_together(&want, out),
            LaneEvent::Join { want, waiter, joined, doubt, tried } => {
                self.join(want, waiter, joined, doubt);
                out.push(Effect::Queued(Ticket::MIN.saturating_add(self.tickets)));
                self.begin_waiting(tried, now, out);
            }
            LaneEvent::Leave(ticket) => self.leave(ticket, now, out),
            LaneEvent::Renamed { ticket, owner, stay } => self.rename(ticket, owner, stay),
            LaneEvent::Sit { hold, want, sent, lease } => {
                self.sit(hold, &want, sent, lease, now, out)
            }
            LaneEvent::Attempted { step, want, sent, reply, doubt, chance } => {
                self.attempted(Attempted { step, want, sent, doubt, chance }, reply, now, out);
            }
            LaneEvent::LetGo { hold, watched, receipt } => {
                self.let_go(&hold, watched, receipt, now, out);
            }
            LaneEvent::Leak { hold, watched } => self.leak(&hold, watched, now, out),
            LaneEvent::Revoke => self.revoke(now, out),
            LaneEvent::Extend { hold, lease, retry_until } => {
                self.extend(&hold, lease, retry_until, out);
            }
            LaneEvent::RenewDue(hold) => self.renew_due(&hold, out),
            LaneEvent::Expired(hold) => self.expired(&hold, now, out),
            LaneEvent::Gone(hold) => self.lose(&hold, now, out),
            LaneEvent::Forget { what, stay, lease, receipt } => {
                self.forget(what, stay, lease, receipt, now, out);
            }
            LaneEvent::Told { step, sent, reply } => self.told(step, sent, reply, now, out),
            LaneEvent::Abandoned { step, want } => self.abandoned(step, want, now, out),
            LaneEvent::Unsent(step) => self.attempt_over(step, now, out),
            LaneEvent::Listening { step, result, chance } => {
                self.listening(step, result, chance, now, out);
            }
            LaneEvent::Heard(releases) => self.heard_releases(releases, now, out),
            LaneEvent::Tick => self.nudge(now, out),
            LaneEvent::Close(error) => self.fail_all(&error, now, out),
        }
        // A lease may be as short as what the event took.
        self.expire(now, out);
        #[cfg(any(test, debug_assertions))]
        self.check(now);
    }

    fn next_step(&mut self) -> StepId {
        self.steps = self.steps.wrapping_add(1);
        self.steps
    }

    /// The store has just answered a step of this lane, of whatever sort, which was sent then.
    fn answered(&mut self, sent: Moment) {
        self.answered = self.answered.max(Some(sent));
        if !is_planted(Bug::StaleOutage) {
            self.outage = None;
        }
    }

    /// A step failed because the store could not be asked. Returns since when that is so.
    fn unanswered(&mut self, now: Moment, error: &Error) -> Moment {
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        self.outage = Some(Box::new(Outage { since, last: now, error: error.clone() }));
        since
    }
}

/// What is known of an attempt beside its reply.
struct Attempted {
    step: StepId,
    want: Want,
    sent: Moment,
    doubt: bool,
    chance: u64,
}

/// What others may know of a lane.
impl<P: Parties> Lane<P> {
    /// Who of this process holds it now.
    pub(super) fn hold(&self) -> Option<&P::Hold> {
        match &self.holder {
            Occupant::Held(held) => Some(&held.hold),
            Occupant::Vacant | Occupant::LeftBehind { .. } => None,
        }
    }

    pub(super) fn is_held_by(&self, hold: &P::Hold) -> bool {
        self.hold() == Some(hold)
    }

    /// The ids of the waiters, with the owners that they belong to.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (Owner, Owner)> + '_ {
        self.queue.iter().map(|waiter| (waiter.want.stay, waiter.want.owner))
    }

    /// A step of this process is under way that tells the store something of a hold.
    pub(super) fn is_telling(&self) -> bool {
        !self.may_tell() || !self.doubts.is_empty()
    }

    /// Nothing of this process is on its way to the store that a new attempt must not meet.
    fn is_idle(&self) -> bool {
        !self.is_telling() && self.asking == Asking::Nobody
    }

    /// Nothing that is under way can change what the store has.
    fn is_quiet(&self) -> bool {
        self.is_idle() && self.beside == 0
    }

    /// And no task of this process holds it.
    pub(super) fn is_over(&self) -> bool {
        self.is_quiet() && self.hold().is_none()
    }

    /// Whether a hold that ended here is about to be free, whatever the store is told of it first.
    pub(super) fn is_letting_go(&self) -> bool {
        let parted = matches!(self.holder, Occupant::Vacant) && self.view != StoreView::Nothing;
        let releasing = matches!(&self.telling, Telling::Under(under) if under.op.is_release());
        releasing || parted && self.is_telling() || !self.doubts.is_empty()
    }

    /// Whether the driver asks for a waiter that has left.
    fn asks_for_nobody(&self) -> bool {
        match self.asking {
            Asking::Driver { ticket, .. } => self.place(ticket).is_none(),
            Asking::Nobody | Asking::Caller(_) => false,
        }
    }

    pub(super) fn is(&self, until: Until) -> bool {
        match until {
            Until::Told => self.may_tell(),
            Until::ToldAll => !self.is_telling(),
            Until::LetGo => !self.is_letting_go(),
            Until::NobodyIsAskedFor => !self.asks_for_nobody(),
            Until::Idle => self.is_idle(),
            Until::Quiet => self.is_quiet(),
            Until::Any => true,
        }
    }

    /// Until when it rests, if it does.
    pub(super) fn rests_until(&self) -> Option<Moment> {
        match self.waiting {
            Waiting::Resting { until } => Some(until),
            Waiting::Off | Waiting::Looking | Waiting::Subscribing { .. } => None,
        }
    }

    pub(super) fn waits_for_nothing(&self) -> bool {
        self.waiting == Waiting::Off
    }

    /// The error of an outage that a step has failed in since `start`.
    pub(super) fn outage_since(&self, start: Moment) -> Option<Error> {
        let outage = self.outage.as_ref().filter(|outage| outage.last >= start);
        outage.map(|outage| outage.error.clone())
    }
}
