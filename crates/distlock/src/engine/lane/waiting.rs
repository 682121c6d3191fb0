//! The tasks of this process that wait, and asking the store for the first of them: one contender per process and name.
//!
//! Try, listen (acknowledged), try again, then rest until a release is published, the time to live ends, or a re-check. While a lane
//! rests it needs no task and no timer of its own.

use std::time::Duration;

use super::bugs::{Bug, is_planted};
use super::holding::{Op, Step};
use super::{
    AttemptReply, Attempted, Effect, Effects, Lane, Parties, StepId, Ticket, Tried, Waiter, Want,
};
use crate::engine::steps::retry_pause;
use crate::env::Moment;
use crate::error::Error;
use crate::locks::config;
use crate::owner::Owner;

/// Whether the lane's one contender asks the store, and who sends that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    Nobody,
    Caller(StepId),
    /// The driver, for this waiter. If that leaves meanwhile, what it may have got is settled by the answer.
    Driver {
        step: StepId,
        ticket: Ticket,
    },
}

/// What the lane does for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// No task waits.
    Off,
    /// It asks for the first waiter, or is about to look what to do next.
    Looking,
    Subscribing {
        step: StepId,
        then: Then,
    },
    Resting {
        until: Moment,
    },
}

/// What a subscription was needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// A caller has just found the lock busy: if it fails, the next attempt finds out why.
    Start,
    /// A release between the attempt and the subscription goes unheard: try again at once.
    Try,
    /// The holder is of this process, and may have lost the lock without knowing it.
    Verify,
}

/// The driver is the part of the lane that asks the store for its waiters: what it remembers from one look to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Driver {
    /// It has a subscription of its own.
    pub(super) listening: bool,
    /// Something happened that it has not looked at.
    pub(super) nudged: bool,
    /// How often the lock was busy in a row, for those who poll.
    spins: u32,
    /// How often the store could not be asked in a row.
    failures: u32,
    /// Until when a local holder is taken at its word.
    patience: Option<Moment>,
    /// When work of this process that is in the way is adopted.
    adopts: Option<Moment>,
}

#[cfg(test)]
impl StandBack {
    pub(super) fn is_on(self, now: Moment) -> bool {
        self.turns > 0 && self.until > now
    }
}

#[cfg(test)]
impl Driver {
    pub(super) fn digest(&self, to: &mut super::digest::Digest) {
        to.add((self.listening, self.nudged, self.spins.min(3), self.failures.min(3)));
        for at in [self.patience, self.adopts] {
            to.add(at.is_some());
            to.time(at.unwrap_or(Moment::NEVER));
        }
    }
}

/// This process has had its burst: it does not ask again before the others had theirs.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandBack {
    /// How many releases to hear first.
    turns: u64,
    /// When to ask all the same.
    until: Moment,
}

/// An attempt for a waiter.
#[derive(Debug)]
pub(in crate::engine) struct AskFor<P: Parties> {
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) want: Want,
    /// Under a new id: the store has nothing under the present one.
    pub(in crate::engine) anew: bool,
    pub(in crate::engine) about: P::About,
}

impl<P: Parties> Clone for AskFor<P> {
    fn clone(&self) -> AskFor<P> {
        let AskFor { ticket, want, anew, ref about } = *self;
        AskFor { ticket, want, anew, about: about.clone() }
    }
}

/// The queue.
impl<P: Parties> Lane<P> {
    pub(super) fn join(&mut self, want: Want, handle: P::Waiter, joined: Moment, doubt: bool) {
        self.tickets += 1;
        let ticket = Ticket::MIN.saturating_add(self.tickets);
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1); // most names have one waiter
        }
        self.queue.push_back(Waiter { ticket, want, joined, doubt, handle });
    }

    pub(super) fn begin_waiting(&mut self, tried: bool, now: Moment, out: &mut Effects<P>) {
        if self.waiting != Waiting::Off {
            return;
        }
        self.waiting = Waiting::Looking;
        self.driver = Driver::default();
        if !(tried && self.hold().is_none() && self.listen(Then::Start, out)) {
            self.look(now, out);
        }
    }

    pub(super) fn place(&self, ticket: Ticket) -> Option<usize> {
        self.queue.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiter<P::Waiter>> {
        self.place(ticket).and_then(|at| self.queue.remove(at))
    }

    /// A waiter leaves. If it is not there any more its grant is on its way.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Moment, out: &mut Effects<P>) {
        let first = self.queue.front().is_some_and(|first| first.ticket == ticket);
        let Some(left) = self.remove(ticket) else { return };
        out.push(Effect::Left);
        // No waiter is left to ask for; or the next one may want less, and it is there.
        let look = self.queue.is_empty() || first && left.want.what.is_shared();
        self.give_up(&left, now, out);
        if look {
            self.nudge(now, out);
        }
    }

    pub(super) fn rename(&mut self, ticket: Ticket, owner: Owner, stay: Owner) {
        if let Some(at) = self.place(ticket) {
            let want = &mut self.queue[at].want;
            (want.owner, want.stay) = (owner, stay);
        }
    }

    /// A waiter has left the queue without the lock. If the store may have something of it all the same, that is taken back; but not
    /// while the driver asks for it: then the answer settles that.
    fn give_up(&mut self, left: &Waiter<P::Waiter>, now: Moment, out: &mut Effects<P>) {
        let asked = matches!(self.asking, Asking::Driver { ticket, .. } if ticket == left.ticket);
        if left.doubt && !asked {
            self.disown(&left.want, now, out);
        }
    }

    /// The store may have the stay of this caller, which has left.
    fn disown(&mut self, want: &Want, now: Moment, out: &mut Effects<P>) {
        if !want.what.is_held() || is_planted(Bug::NeverForgets) {
            return;
        }
        match self.sits_here {
            true => {
                let lease = want.lease.unwrap_or(self.rules.watchdog);
                self.forget(want.what, want.stay, lease, None, now, out);
            }
            false => out.push(Effect::ForgetThere(Box::new(*want))),
        }
    }

    /// Those who wait under the owner that has just come in can come in beside it.
    pub(super) fn wake_same_owner(&mut self, owner: Owner, now: Moment, out: &mut Effects<P>) {
        let mut at = 0;
        while let Some(waiter) = self.queue.get(at) {
            if !(waiter.want.explicit && waiter.want.owner == owner) {
                at += 1;
            } else if let Some(waiter) = self.queue.remove(at) {
                self.give_up(&waiter, now, out);
                out.push(Effect::AskAgain(waiter.handle));
            }
        }
    }

    /// Those who wait for what the first of them has just got can most likely have it too: each asks for itself. But not those of
    /// whom the store may have something: what clears that up is the driver's next attempt for them.
    fn wake_all(&mut self, out: &mut Effects<P>) {
        for waiter in std::mem::take(&mut self.queue) {
            match waiter.doubt {
                true => self.queue.push_back(waiter),
                false => out.push(Effect::AskAgain(waiter.handle)),
            }
        }
    }

    /// Ends every wait with this error.
    pub(super) fn fail_all(&mut self, error: &Error, now: Moment, out: &mut Effects<P>) {
        let all = std::mem::take(&mut self.queue);
        self.fail(all, error, now, out);
    }

    fn fail(
        &mut self,
        waiters: impl IntoIterator<Item = Waiter<P::Waiter>>,
        error: &Error,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let mut any = false;
        for waiter in waiters {
            any = true;
            self.give_up(&waiter, now, out);
            out.push(Effect::Refuse(waiter.handle, error.clone()));
        }
        // A lane that is nudged does not rest: not if nothing has changed for it, or it would ask a dead store without a pause.
        if any {
            self.nudge(now, out);
        }
    }

    /// The store could not be asked. Waiters ride out an outage, but not for ever: one that has had an answer keeps waiting for as long
    /// as a holder could live, one that never had any for as long as a command may take.
    pub(super) fn trouble(&mut self, error: &Error, now: Moment, out: &mut Effects<P>) {
        let since = self.unanswered(now, error);
        let mut over = Vec::new();
        let mut at = 0;
        while let Some(waiter) = self.queue.get(at) {
            let joined = waiter.joined;
            let until = match self.answered.is_some_and(|answered| answered >= joined) {
                true => since.after(self.rules.watchdog),
                // In a crowd the first question may be late: its failure is not the end before it was asked again.
                false => {
                    joined.after(config::COMMAND_TIMEOUT).max(since.after(config::REPLY_TIMEOUT))
                }
            };
            if now >= until { over.extend(self.queue.remove(at)) } else { at += 1 }
        }
        self.fail(over, error, now, out);
    }
}

/// Asking for the first of them.
impl<P: Parties> Lane<P> {
    /// An attempt of a caller or of the driver is under way that leads.
    pub(super) fn is_asking(&self) -> bool {
        self.asking != Asking::Nobody
    }

    /// Something happened that a waiter may profit from.
    pub(super) fn nudge(&mut self, now: Moment, out: &mut Effects<P>) {
        match self.waiting {
            Waiting::Off => {}
            Waiting::Resting { .. } => self.look(now, out),
            Waiting::Looking | Waiting::Subscribing { .. } => {
                self.driver.nudged = true;
            }
        }
    }

    /// So many releases were published.
    pub(super) fn heard_releases(&mut self, releases: u64, now: Moment, out: &mut Effects<P>) {
        if let Some(stand_back) = &mut self.stand_back {
            stand_back.turns = stand_back.turns.saturating_sub(releases);
        } else if self.burst_spent {
            self.heard_early += releases;
        }
        // Behind a local holder this is an old release of our own, or the lock was taken from the holder.
        let soon = now.after(config::LOCAL_PATIENCE);
        self.driver.patience = self.driver.patience.map(|patience| patience.min(soon));
        self.nudge(now, out);
    }

    /// This process has passed the lock on for a whole burst, and freed it now.
    pub(super) fn stand_back_for(&mut self, heard_by: u32, now: Moment) {
        let own = u32::from(self.driver.listening);
        let others = heard_by.saturating_sub(own);
        let patience = (config::BURST_TIME + config::TURN_SLACK) * others;
        let turns = u64::from(others + own).saturating_sub(std::mem::take(&mut self.heard_early));
        self.stand_back = (others > 0).then(|| StandBack { turns, until: now.after(patience) });
    }

    /// Decides what to do next for those who wait, and does it.
    fn look(&mut self, now: Moment, out: &mut Effects<P>) {
        self.waiting = Waiting::Looking;
        self.driver.nudged = false;
        let Some(first) = self.queue.front() else {
            self.waiting = Waiting::Off;
            self.driver = Driver::default();
            return out.push(Effect::Unlisten);
        };
        if !self.is_idle() {
            return self.settle(now, out);
        }
        self.driver.adopts = None;
        if self.hold().is_some() {
            return self.stay_behind(now, out);
        }
        if let Some(StandBack { turns, until }) = self.stand_back
            && turns > 0
            && until > now
        {
            return self.rest(until, out);
        }
        // A waiter of whom the store may have something comes first: that may be the lock, and the others would wait for its end.
        let first = self.queue.iter().find(|waiter| waiter.doubt).unwrap_or(first);
        let (ticket, want, anew) = (first.ticket, first.want, first.wants_new_stay());
        let about = P::about(&first.handle);
        let id = self.next_step();
        self.asking = Asking::Driver { step: id, ticket };
        self.stand_back = None;
        self.driver.patience = None;
        let ask = AskFor { ticket, want, anew, about };
        out.push(Effect::Step(Step { id, op: Op::Acquire(Box::new(ask)) }));
    }

    /// A step or an attempt of this process is on its way to the store. Its end makes the lane look. It may be work that its caller does
    /// not poll any more.
    fn settle(&mut self, now: Moment, out: &mut Effects<P>) {
        let until = match self.driver.adopts {
            None => *self.driver.adopts.insert(now.after(config::ADOPT_AFTER)),
            Some(at) if now < at => at,
            Some(_) => {
                self.driver.adopts = Some(Moment::NEVER);
                out.push(Effect::Adopt);
                Moment::NEVER
            }
        };
        self.rest(until, out);
    }

    /// A task of this process holds it; the hold will pass from it.
    fn stay_behind(&mut self, now: Moment, out: &mut Effects<P>) {
        match self.driver.patience {
            // Most holders are done before a subscription would be.
            None => {
                let until = now.after(config::LOCAL_PATIENCE);
                self.driver.patience = Some(until);
                self.rest(until, out);
            }
            Some(until) if now < until => self.rest(until, out),
            // This one is not: it may have lost the lock without knowing it, and its release may be missed.
            Some(_) => {
                if self.driver.listening || !self.listen(Then::Verify, out) {
                    self.verify(now, out);
                }
            }
        }
    }

    fn verify(&mut self, now: Moment, out: &mut Effects<P>) {
        self.renew(out);
        let until = now.after(self.rules.recheck);
        self.driver.patience = Some(until);
        self.rest(until, out);
    }

    fn rest(&mut self, until: Moment, out: &mut Effects<P>) {
        self.waiting = Waiting::Resting { until };
        out.push(Effect::Rest(until));
    }

    /// Rests unless something has happened meanwhile.
    fn rest_or_look(&mut self, until: Moment, now: Moment, out: &mut Effects<P>) {
        match self.driver.nudged {
            true => self.look(now, out),
            false => self.rest(until, out),
        }
    }

    /// Subscribes for the first waiter. False if that one polls.
    fn listen(&mut self, then: Then, out: &mut Effects<P>) -> bool {
        let Some(first) = self.queue.front() else { return false };
        if first.want.spin.is_some() {
            return false;
        }
        let (stay, what) = (first.want.stay, first.want.what);
        let step = self.next_step();
        self.waiting = Waiting::Subscribing { step, then };
        out.push(Effect::Listen { step, stay, what });
        true
    }

    pub(super) fn listening(
        &mut self,
        step: StepId,
        result: Result<(), Error>,
        chance: u64,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let Waiting::Subscribing { step: under_way, then } = self.waiting else { return };
        if under_way != step {
            return;
        }
        self.waiting = Waiting::Looking;
        self.driver.listening = result.is_ok();
        match (result, then) {
            (Ok(()), _) if is_planted(Bug::NoSecondTry) => {
                self.rest(now.after(self.rules.recheck), out);
            }
            (Ok(()), Then::Start | Then::Try) | (Err(_), Then::Start) => self.look(now, out),
            (Ok(()), Then::Verify) => self.verify_if_held(now, out),
            (Err(e), Then::Try) => {
                self.fail_for(&e, now, out);
                self.rest_after_failure(chance, now, out);
            }
            (Err(e), Then::Verify) => {
                if !e.is_retryable() {
                    self.fail_for(&e, now, out);
                }
                self.verify_if_held(now, out);
            }
        }
    }

    fn verify_if_held(&mut self, now: Moment, out: &mut Effects<P>) {
        match self.hold().is_some() && self.is_idle() && !self.queue.is_empty() {
            true => self.verify(now, out),
            false => self.look(now, out),
        }
    }

    /// The store could not be asked, or says no for good; or replicas do not acknowledge, which would cost every waiter here a time-out,
    /// one after the other.
    fn fail_for(&mut self, error: &Error, now: Moment, out: &mut Effects<P>) {
        match error.is_passing() {
            true => self.trouble(error, now, out),
            false => self.fail_all(error, now, out),
        }
    }

    fn rest_after_failure(&mut self, chance: u64, now: Moment, out: &mut Effects<P>) {
        let pause = retry_pause(self.driver.failures, chance);
        self.driver.failures += 1;
        let until = now.after(pause.min(self.rules.recheck));
        self.rest_or_look(until, now, out);
    }

    /// An attempt of a caller, or of the driver for a waiter, was answered.
    pub(super) fn attempted(
        &mut self,
        attempt: Attempted,
        reply: AttemptReply<P::Hold>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        match self.asking {
            Asking::Driver { step, ticket } if step == attempt.step => {
                self.asked_for(ticket, attempt, reply, now, out);
            }
            Asking::Caller(step) if step == attempt.step => {
                self.tried(attempt, reply, now, out);
            }
            _ => self.tried(attempt, reply, now, out),
        }
    }

    /// A caller's attempt ends, or is sent again.
    fn tried(
        &mut self,
        attempt: Attempted,
        reply: AttemptReply<P::Hold>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let Attempted { step, want, sent, doubt, .. } = attempt;
        let held = want.what.is_held();
        let tried = match reply {
            AttemptReply::Acquired { hold, lease, here } => {
                let watched = want.lease.is_none();
                match here {
                    true => self.sit(hold.clone(), &want, sent, lease, now, out),
                    false => self.answered(sent),
                }
                Tried::Won { hold, watched }
            }
            AttemptReply::TooLate(None) => {
                self.answered(sent);
                Tried::Busy { doubt: held }
            }
            AttemptReply::TooLate(Some(error)) => {
                self.answered(sent);
                Tried::Failed { error, doubt: held }
            }
            AttemptReply::Busy { .. } => {
                self.answered(sent);
                Tried::Busy { doubt: want.what.leaves_traces() }
            }
            AttemptReply::Failed(error) if error.is_not_durable() => {
                // The store answers, so there is no outage to ride out; what it gave was taken back.
                self.answered(sent);
                Tried::Failed { error, doubt: false }
            }
            AttemptReply::Failed(error) => {
                if error.is_retryable() {
                    self.trouble(&error, now, out);
                    if now < want.retry_until {
                        return out.push(Effect::Retry(step));
                    }
                }
                let doubt = held && (doubt || error.is_in_doubt());
                Tried::Failed { error, doubt }
            }
        };
        out.push(Effect::Tried(tried));
        self.attempt_over(step, now, out);
    }

    /// A caller's attempt is over.
    pub(super) fn attempt_over(&mut self, step: StepId, now: Moment, out: &mut Effects<P>) {
        out.push(Effect::Changed);
        if self.asking == Asking::Caller(step) {
            self.asking = Asking::Nobody;
            self.nudge(now, out);
        } else {
            self.beside = self.beside.saturating_sub(1);
        }
    }

    /// The driver's attempt for a waiter has ended.
    fn asked_for(
        &mut self,
        ticket: Ticket,
        attempt: Attempted,
        reply: AttemptReply<P::Hold>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let Attempted { want, sent, chance, .. } = attempt;
        out.push(Effect::Changed);
        match reply {
            AttemptReply::Acquired { hold, lease, here } => {
                self.driver.failures = 0;
                self.driver.spins = 0;
                self.granted(ticket, &want, hold, sent, lease, here, now, out);
                self.look(now, out);
            }
            AttemptReply::Busy { ttl } => {
                self.answered(sent);
                self.asked_in_vain(ticket, &want, false, want.what.leaves_traces(), now, out);
                self.busy(&want, ttl, chance, now, out);
            }
            AttemptReply::TooLate(None) => {
                self.answered(sent);
                self.asked_in_vain(ticket, &want, false, true, now, out);
                self.busy(&want, Duration::ZERO, chance, now, out);
            }
            AttemptReply::TooLate(Some(error)) => {
                self.answered(sent);
                self.asked_in_vain(ticket, &want, true, true, now, out);
                self.fail_for(&error, now, out);
                self.rest_after_failure(chance, now, out);
            }
            AttemptReply::Failed(error) => {
                let durable = !error.is_not_durable();
                if !durable {
                    self.answered(sent);
                }
                let doubt = durable && error.is_in_doubt();
                self.asked_in_vain(ticket, &want, durable, doubt, now, out);
                self.fail_for(&error, now, out);
                self.rest_after_failure(chance, now, out);
            }
        }
    }

    /// Gives the hold to the waiter that it was acquired for; if that has left, it lets go, which passes it on to the next.
    #[allow(clippy::too_many_arguments)]
    fn granted(
        &mut self,
        ticket: Ticket,
        want: &Want,
        hold: P::Hold,
        sent: Moment,
        lease: Duration,
        here: bool,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let waiter = self.remove(ticket);
        let watched = want.lease.is_none();
        match here {
            true => self.sit(hold.clone(), want, sent, lease, now, out),
            false => self.answered(sent),
        }
        if want.what.opens_for_all() {
            self.wake_all(out);
        }
        let granted = waiter.map(|waiter| Effect::Grant {
            waiter: waiter.handle,
            hold: hold.clone(),
            watched,
        });
        self.asking = Asking::Nobody;
        match granted {
            Some(granted) => out.push(granted),
            None if is_planted(Bug::KeepsUnclaimed) => {}
            None if here => self.let_go(&hold, watched, None, now, out),
            None => out.push(Effect::Unclaimed { hold, watched }),
        }
    }

    /// An attempt that failed does not clear up an earlier doubt.
    fn asked_in_vain(
        &mut self,
        ticket: Ticket,
        want: &Want,
        failed: bool,
        doubt: bool,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        self.asking = Asking::Nobody;
        match self.place(ticket) {
            Some(at) => {
                let waiter = &mut self.queue[at];
                waiter.doubt = doubt || failed && waiter.doubt;
            }
            None if failed || doubt => self.disown(want, now, out),
            None => {}
        }
    }

    fn busy(&mut self, want: &Want, ttl: Duration, chance: u64, now: Moment, out: &mut Effects<P>) {
        let driver = &mut self.driver;
        if driver.listening || want.spin.is_some() {
            driver.failures = 0;
            driver.spins += 1;
            let pause = want.spin.map(|spin| spin.pause(driver.spins, chance));
            let ttl = ttl.min(pause.unwrap_or(Duration::MAX));
            let ttl = ttl.max(Duration::from_millis(1)).min(self.rules.recheck);
            return self.rest_or_look(now.after(ttl), now, out);
        }
        if !self.listen(Then::Try, out) {
            self.look(now, out);
        }
    }

    /// The future of a step was dropped before its answer: it may have been applied.
    pub(super) fn abandoned(
        &mut self,
        step: StepId,
        want: Option<Want>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        match (self.asking, self.waiting) {
            (Asking::Driver { step: asking, ticket }, _) if asking == step => {
                let at = self.place(ticket);
                self.asking = Asking::Nobody;
                match (at, want) {
                    (Some(at), _) => self.queue[at].doubt = true,
                    (None, Some(want)) => self.disown(&want, now, out),
                    (None, None) => {}
                }
                out.push(Effect::Changed);
                self.look(now, out);
            }
            (_, Waiting::Subscribing { step: under_way, .. }) if under_way == step => {
                self.driver.listening = false;
                self.look(now, out);
            }
            _ => match want {
                Some(want) => {
                    self.disown(&want, now, out);
                    self.attempt_over(step, now, out);
                }
                None => self.unanswered_for_good(step, now, out),
            },
        }
    }
}
