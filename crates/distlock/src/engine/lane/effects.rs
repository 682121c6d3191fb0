//! What a lane wants done, in order. The first few cost no allocation: an uncontended acquisition has no more.

use std::fmt;
use std::time::Duration;

use super::holding::{Answer, Op, Step};
use super::{Parties, StepId, Ticket, Want, Way};
use crate::env::Moment;
use crate::error::Error;
use crate::owner::Owner;
use crate::store::ClaimKind;

/// One thing to do. Those about a hold's vitals are done before the lane is unlocked, so that they happen in the lane's order.
pub(in crate::engine) enum Effect<P: Parties> {
    /// The answer to a caller that asks which way to go.
    Way(Way<P::Hold>),
    /// The answer to a caller that joined the queue.
    Queued(Ticket),
    /// The answer to a waiter that leaves: it was there, and got nothing.
    Left,
    /// Send this step to the store.
    Step(Step<P>),
    /// Send the same step again after a pause.
    Retry(StepId),
    /// Subscribe for this stay.
    Listen {
        step: StepId,
        stay: Owner,
        what: ClaimKind,
    },
    /// End the subscription and whatever else waiting needs.
    Unlisten,
    /// Wake the lane at this time, when its topic has a message, or now if the topic has one already.
    Rest(Moment),
    /// The attempt of a caller has ended.
    Tried(Tried<P::Hold>),
    /// A waiter gets the lock.
    Grant {
        waiter: P::Waiter,
        hold: P::Hold,
        watched: bool,
    },
    /// A hold that was acquired for a waiter that has left, and is kept in another lane.
    Unclaimed {
        hold: P::Hold,
        watched: bool,
    },
    /// The store may have the stay of this caller, whose holds are kept in another lane.
    ForgetThere(Box<Want>),
    /// A waiter may ask for itself.
    AskAgain(P::Waiter),
    /// A waiter gets an error.
    Refuse(P::Waiter, Error),
    /// A caller learns how its release went.
    Receipts(Answer<P::Receipt>),
    /// A step about this hold was accepted.
    Accepted {
        hold: P::Hold,
        sent: Moment,
        lease: Duration,
    },
    /// It is kept alive from now on, or not any more.
    Watch {
        hold: P::Hold,
        watched: bool,
    },
    /// A step about it got no answer.
    Suspect(P::Hold),
    /// A step that did not lengthen it proved that it is there.
    Reassured(P::Hold),
    Entered(P::Hold),
    Lost(P::Hold),
    Released(P::Hold),
    Leaked(P::Hold),
    Revoked(P::Hold),
    /// A renewal was answered.
    Renewed {
        hold: P::Hold,
        held: Result<bool, Error>,
    },
    /// A release of this lane begins, or has ended: counted in the lane where single tries wait for it.
    Releasing(bool),
    /// Steps of callers stand in the way: poll them elsewhere if their callers do not.
    Adopt,
    /// Something changed that callers may wait for.
    Changed,
}

impl<P: Parties> Effect<P> {
    pub(in crate::engine) fn into_step(self) -> Option<Step<P>> {
        match self {
            Effect::Step(step) => Some(step),
            _ => None,
        }
    }
}

/// How the attempt of a caller ended.
#[derive(Debug)]
pub(in crate::engine) enum Tried<H> {
    Won {
        hold: H,
        watched: bool,
    },
    /// `doubt`: the store may have something of it.
    Busy {
        doubt: bool,
    },
    Failed {
        error: Error,
        doubt: bool,
    },
}

const INLINE: usize = 4;

/// See the [module](self).
pub(in crate::engine) struct Effects<P: Parties> {
    first: [Option<Effect<P>>; INLINE],
    used: usize,
    more: Vec<Option<Effect<P>>>,
}

impl<P: Parties> Default for Effects<P> {
    fn default() -> Effects<P> {
        Effects { first: [const { None }; INLINE], used: 0, more: Vec::new() }
    }
}

impl<P: Parties> Effects<P> {
    pub(in crate::engine) fn push(&mut self, effect: Effect<P>) {
        match self.first.get_mut(self.used) {
            Some(place) => *place = Some(effect),
            None => self.more.push(Some(effect)),
        }
        self.used += 1;
    }

    /// Each in turn; one that is set to `None` is done.
    pub(in crate::engine) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Option<Effect<P>>> {
        self.first.iter_mut().chain(&mut self.more)
    }

    /// Takes out the first that `pick` accepts.
    pub(in crate::engine) fn take(
        &mut self,
        pick: impl Fn(&Effect<P>) -> bool,
    ) -> Option<Effect<P>> {
        self.iter_mut().find(|effect| effect.as_ref().is_some_and(&pick)).and_then(Option::take)
    }

    /// Takes out the answer to a caller that asks which way to go.
    pub(in crate::engine) fn take_way(&mut self) -> Option<Way<P::Hold>> {
        match self.take(|effect| matches!(effect, Effect::Way(_))) {
            Some(Effect::Way(way)) => Some(way),
            _ => None,
        }
    }

    /// Takes out the step with this number, which the caller sends itself.
    pub(in crate::engine) fn take_step(&mut self, id: StepId) -> Option<Op<P>> {
        match self.take(|effect| matches!(effect, Effect::Step(step) if step.id == id)) {
            Some(Effect::Step(step)) => Some(step.op),
            _ => None,
        }
    }
}

impl<P: Parties> IntoIterator for Effects<P> {
    type Item = Effect<P>;
    type IntoIter = std::iter::Flatten<
        std::iter::Chain<
            std::array::IntoIter<Option<Effect<P>>, INLINE>,
            std::vec::IntoIter<Option<Effect<P>>>,
        >,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more).flatten()
    }
}

impl<P: Parties> fmt::Debug for Effect<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Way(way) => write!(f, "way {way:?}"),
            Effect::Queued(ticket) => write!(f, "queued {ticket}"),
            Effect::Left => f.write_str("left"),
            Effect::Step(step) => write!(f, "send {step:?}"),
            Effect::Retry(step) => write!(f, "retry {step}"),
            Effect::Listen { step, stay, .. } => write!(f, "listen {step} for {stay}"),
            Effect::Unlisten => f.write_str("unlisten"),
            Effect::Rest(until) => write!(f, "rest until {until:?}"),
            Effect::Tried(tried) => write!(f, "{tried:?}"),
            Effect::Grant { waiter, hold, .. } => write!(f, "grant {hold:?} to {waiter:?}"),
            Effect::Unclaimed { hold, .. } => write!(f, "unclaimed {hold:?}"),
            Effect::ForgetThere(want) => write!(f, "forget {} there", want.stay),
            Effect::AskAgain(waiter) => write!(f, "{waiter:?} asks again"),
            Effect::Refuse(waiter, error) => write!(f, "refuse {waiter:?}: {error}"),
            Effect::Receipts(answer) => write!(f, "{answer:?}"),
            Effect::Accepted { hold, lease, .. } => write!(f, "accepted {hold:?} for {lease:?}"),
            Effect::Watch { hold, watched } => write!(f, "watch {hold:?}: {watched}"),
            Effect::Suspect(hold) => write!(f, "suspect {hold:?}"),
            Effect::Reassured(hold) => write!(f, "reassured {hold:?}"),
            Effect::Entered(hold) => write!(f, "entered {hold:?}"),
            Effect::Lost(hold) => write!(f, "lost {hold:?}"),
            Effect::Released(hold) => write!(f, "released {hold:?}"),
            Effect::Leaked(hold) => write!(f, "leaked {hold:?}"),
            Effect::Revoked(hold) => write!(f, "revoked {hold:?}"),
            Effect::Renewed { hold, held } => write!(f, "renewed {hold:?}: {held:?}"),
            Effect::Releasing(begins) => write!(f, "releasing: {begins}"),
            Effect::Adopt => f.write_str("adopt"),
            Effect::Changed => f.write_str("changed"),
        }
    }
}
