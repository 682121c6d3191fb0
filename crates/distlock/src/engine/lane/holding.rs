//! Who of this process holds the lock, what the store has of it, and telling the store of the difference.

use std::fmt;
use std::time::Duration;

use super::bugs::{Bug, is_planted};
use super::{AskFor, Effect, Effects, Lane, Parties, StepId, StepReply, Tried, Until, Want, Way};
use crate::engine::lost;
use crate::engine::vitals::Life;
use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::owner::Owner;
use crate::store::{ClaimKind, Released};

/// Timers are late by up to this; a loss must not be.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// Who of this process is in.
#[derive(Clone, Debug)]
pub(super) enum Occupant<H> {
    Vacant,
    Held(Held<H>),
    /// All guards were leaked while a step about the hold was under way: what the store has stays there.
    LeftBehind {
        hold: H,
        what: ClaimKind,
        stay: Owner,
        lease: Duration,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Held<H> {
    pub(super) hold: H,
    pub(super) owner: Owner,
    pub(super) stay: Owner,
    /// How many guards share it.
    pub(super) depth: u32,
    /// How many of these asked for the watchdog.
    pub(super) watched: u32,
    /// A guard was leaked: the store keeps the lock until its lease ends.
    pub(super) leaked: bool,
    pub(super) what: ClaimKind,
    /// The lease that it asked for, and the one that the store granted last.
    pub(super) lease: Duration,
    pub(super) granted: Duration,
    /// Until when it is believed in.
    pub(super) life: Life,
    /// The last step about it got no answer.
    pub(super) suspect: bool,
}

/// What the store has of this process, as far as its answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreView {
    Nothing,
    /// This stay at this depth, until then at least.
    Has {
        stay: Owner,
        depth: u32,
        until: Moment,
        /// How many permits it is, if they have ids.
        permits: u32,
    },
}

impl StoreView {
    pub(super) fn has(self, stay: Owner) -> bool {
        matches!(self, StoreView::Has { stay: there, .. } if there == stay)
    }
}

/// Telling the store of a hold, one step at a time.
#[derive(Debug)]
pub(super) enum Telling<P: Parties> {
    Idle,
    Under(Under<P>),
    /// The answer to a step is being looked at: never seen from outside.
    Answering,
}

impl<P: Parties> Telling<P> {
    pub(super) fn under(step: StepId, op: Op<P>, retry_until: Moment) -> Telling<P> {
        Telling::Under(Under { step, op, retry_until, doubt: false, receipts: Receipts::default() })
    }
}

/// A step that is sent until it is answered.
#[derive(Debug)]
pub(super) struct Under<P: Parties> {
    pub(super) step: StepId,
    pub(super) op: Op<P>,
    /// Until when those who wait for it do; it goes on without them, unless it is the caller's own.
    pub(super) retry_until: Moment,
    /// An earlier send of it got no answer.
    pub(super) doubt: bool,
    pub(super) receipts: Receipts<P::Receipt>,
}

/// A renewal under way.
#[derive(Clone, Debug)]
pub(super) struct Renewing<H> {
    pub(super) step: StepId,
    pub(super) hold: H,
    pub(super) stay: Owner,
    pub(super) depth: u32,
    /// Until when it is sent again after a failure; the watchdog comes back to its own.
    retry_until: Option<Moment>,
}

/// What a step says to the store.
#[derive(Debug)]
pub(in crate::engine) enum Op<P: Parties> {
    /// For a waiter: one in doubt if there is one, else the first; under a new id if `anew`.
    Acquire(Box<AskFor<P>>),
    /// One level deeper, for a caller that wants this.
    Reenter { hold: P::Hold, depth: u32, want: Box<Want> },
    /// The hold passed from this stay to another one of this process.
    Pass {
        from: Owner,
        heir: P::Hold,
        what: ClaimKind,
        stay: Owner,
        lease: Duration,
        until: Moment,
    },
    /// Nothing: a pause before the store is told of the next hand-off.
    Pause { until: Moment },
    /// A re-entry was undone.
    Shrink { hold: P::Hold, depth: u32 },
    /// No task of this process holds it any more.
    Release { stay: Owner, permits: u32, until: Moment },
    /// For this long at least, and never for less than it has.
    Renew { hold: P::Hold, depth: u32, least: Duration },
    /// This stay wants nothing any more, whatever the store has of it.
    Forget { what: ClaimKind, stay: Owner, until: Moment },
}

impl<P: Parties> Op<P> {
    /// Whether it lets go of something.
    pub(super) fn is_release(&self) -> bool {
        matches!(self, Op::Release { .. } | Op::Shrink { .. } | Op::Forget { .. })
    }
}

impl<P: Parties> Clone for Op<P> {
    fn clone(&self) -> Op<P> {
        match self {
            Op::Acquire(ask) => Op::Acquire(ask.clone()),
            Op::Reenter { hold, depth, want } => {
                Op::Reenter { hold: hold.clone(), depth: *depth, want: want.clone() }
            }
            Op::Pass { from, heir, what, stay, lease, until } => {
                let (from, what, stay, lease, until) = (*from, *what, *stay, *lease, *until);
                Op::Pass { from, heir: heir.clone(), what, stay, lease, until }
            }
            Op::Pause { until } => Op::Pause { until: *until },
            Op::Shrink { hold, depth } => Op::Shrink { hold: hold.clone(), depth: *depth },
            Op::Release { stay, permits, until } => {
                Op::Release { stay: *stay, permits: *permits, until: *until }
            }
            Op::Renew { hold, depth, least } => {
                Op::Renew { hold: hold.clone(), depth: *depth, least: *least }
            }
            Op::Forget { what, stay, until } => {
                Op::Forget { what: *what, stay: *stay, until: *until }
            }
        }
    }
}

/// A step to send.
pub(in crate::engine) struct Step<P: Parties> {
    pub(in crate::engine) id: StepId,
    pub(in crate::engine) op: Op<P>,
}

impl<P: Parties> fmt::Debug for Step<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.id, self.op)
    }
}

/// A stay that the store is told to forget.
#[derive(Clone, Debug)]
pub(super) struct Doubt<R> {
    pub(super) step: StepId,
    pub(super) what: ClaimKind,
    pub(super) stay: Owner,
    /// When the store has dropped it by itself.
    until: Moment,
    /// Until when callers wait for it.
    patience: Moment,
    receipts: Receipts<R>,
}

/// Callers who wait for the same answer: none or one, as a rule.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Receipts<R> {
    first: Option<R>,
    more: Vec<R>,
}

impl<R> Default for Receipts<R> {
    fn default() -> Receipts<R> {
        Receipts { first: None, more: Vec::new() }
    }
}

impl<R> Receipts<R> {
    fn add(&mut self, receipt: Option<R>) {
        match self.first {
            None => self.first = receipt,
            Some(_) => self.more.extend(receipt),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The answer to all of them, who are not asked again; `None` if none will come.
    fn answer<P: Parties<Receipt = R>>(&mut self, how: Option<Result<()>>, out: &mut Effects<P>) {
        if is_planted(Bug::ForgetsReceipts) {
            drop(std::mem::take(self));
        } else if !self.is_empty() {
            out.push(Effect::Receipts(Answer { to: std::mem::take(self), how }));
        }
    }
}

impl<R> IntoIterator for Receipts<R> {
    type Item = R;
    type IntoIter = std::iter::Chain<std::option::IntoIter<R>, std::vec::IntoIter<R>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

/// How a release went, for those who wait for it.
#[derive(Debug)]
pub(in crate::engine) struct Answer<R> {
    pub(in crate::engine) to: Receipts<R>,
    /// `None`: no answer will come.
    pub(in crate::engine) how: Option<Result<()>>,
}

impl<P: Parties> Lane<P> {
    /// Puts an accepted hold into this lane. Who was in it before has lost it: the store would not have given it away.
    pub(super) fn sit(
        &mut self,
        hold: P::Hold,
        want: &Want,
        sent: Moment,
        lease: Duration,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        self.answered(sent);
        let held = Held {
            hold: hold.clone(),
            owner: want.owner,
            stay: want.stay,
            depth: 1,
            watched: u32::from(want.lease.is_none()),
            leaked: false,
            what: want.what,
            lease: want.lease.unwrap_or(self.rules.watchdog),
            granted: lease,
            life: Life::fresh(sent, lease),
            suspect: false,
        };
        if let Occupant::Held(before) = std::mem::replace(&mut self.holder, Occupant::Held(held)) {
            out.push(Effect::Lost(before.hold));
        }
        let permits = match want.what {
            ClaimKind::LeasedPermits { count, .. } => count,
            _ => 0,
        };
        let until = sent.after(lease);
        self.view = StoreView::Has { stay: want.stay, depth: 1, until, permits };
        self.burst = 0;
        self.burst_since = Some(now);
        self.next_pass = None;
        out.push(Effect::Entered(hold));
        self.wake_same_owner(want.owner, now, out);
    }

    pub(super) fn let_go(
        &mut self,
        hold: &P::Hold,
        watched: bool,
        receipt: Option<P::Receipt>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let Some(held) = self.held(hold) else {
            // It was lost before.
            let mut receipts = Receipts::default();
            receipts.add(receipt);
            return receipts.answer(None, out);
        };
        held.depth -= 1;
        held.watched -= u32::from(watched);
        if held.depth > 0 {
            let watched = held.watched > 0;
            out.push(Effect::Watch { hold: hold.clone(), watched });
            self.receipts.add(receipt);
            return self.tell_or_wait(now, out);
        }
        out.push(Effect::Released(hold.clone()));
        let leaked = held.leaked;
        let given = if leaked { None } else { self.pass_on(watched, now, out) };
        match given {
            Some(granted) => {
                // As far as its last holder is concerned, it is released.
                let mut receipts = Receipts::default();
                receipts.add(receipt);
                receipts.answer(Some(Ok(())), out);
                self.tell_or_wait(now, out);
                // A waiter that has just left returns the hold by dropping it.
                out.push(granted);
                if self.queue.is_empty() {
                    self.nudge(now, out); // no waiter is left to ask for
                }
            }
            None => {
                if leaked {
                    self.leave_behind();
                } else {
                    self.holder = Occupant::Vacant;
                }
                self.receipts.add(receipt);
                self.tell_or_wait(now, out);
            }
        }
    }

    /// Local hand-off: the next waiter of this process gets the hold without a round trip, for a bounded burst, while the lease has life
    /// left. The store learns the new owner later.
    fn pass_on(&mut self, watched: bool, now: Moment, out: &mut Effects<P>) -> Option<Effect<P>> {
        let Occupant::Held(held) = &self.holder else { return None };
        let next = self.queue.front()?;
        // Replicas do not acknowledge what passes on. If it is lost in a failover they still have the predecessor's hold, so no other
        // process gets in before that ends, and the heir learns it at its next renewal. If both are watched that comes first: a third of the
        // timeout against the half of it that is left. Of leases that are not renewed this cannot be said.
        let told_in_time = !self.rules.acks || watched && next.want.lease.is_none();
        let may_pass = next.want.what == held.what
            && told_in_time
            && held.what.passes_on()
            && !held.suspect
            && held.life.expires.since(now) >= held.lease.min(held.granted) / 2
            // An attempt for the very waiter that the hold would pass to may be under way.
            && !self.is_asking()
            && self.doubts.is_empty();
        if !may_pass {
            return None;
        }
        let within_burst = self.burst < config::BURST_COUNT
            && self.burst_since.is_some_and(|since| now.since(since) < config::BURST_TIME);
        if !within_burst || !self.rules.passes_on {
            self.burst_spent = true;
            self.heard_early = 0;
            return None;
        }
        let next = self.queue.pop_front()?;
        let lease = next.want.lease.unwrap_or(self.rules.watchdog);
        let life = held.life.inherited(now, lease);
        let anew = next.wants_new_stay();
        let heir = P::heir(&held.hold, &next.handle, &next.want, anew, life);
        let watched = next.want.lease.is_none();
        self.burst += 1;
        let hold = heir.hold.clone();
        self.holder = Occupant::Held(Held {
            hold: heir.hold,
            owner: heir.owner,
            stay: heir.stay,
            depth: 1,
            watched: u32::from(watched),
            leaked: false,
            what: next.want.what,
            lease,
            granted: lease,
            life,
            suspect: false,
        });
        out.push(Effect::Entered(hold.clone()));
        self.wake_same_owner(heir.owner, now, out);
        Some(Effect::Grant { waiter: next.handle, hold, watched })
    }

    pub(super) fn leak(
        &mut self,
        hold: &P::Hold,
        watched: bool,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let Some(held) = self.held(hold) else { return };
        held.leaked = true;
        held.depth -= 1;
        held.watched -= u32::from(watched);
        let (watched, over) = (held.watched > 0, held.depth == 0);
        out.push(Effect::Watch { hold: hold.clone(), watched });
        if over {
            self.leave_behind();
            out.push(Effect::Leaked(hold.clone()));
            self.announce(now, out);
        }
    }

    /// What the store has of the present hold, or is about to hear of it, stays there.
    fn leave_behind(&mut self) {
        let Occupant::Held(held) = std::mem::replace(&mut self.holder, Occupant::Vacant) else {
            return;
        };
        if self.may_tell() {
            self.view = StoreView::Nothing;
        } else {
            // The answer must not be taken for something to free; and a hand-off must still become known.
            let Held { hold, what, stay, lease, .. } = held;
            self.holder = Occupant::LeftBehind { hold, what, stay, lease };
        }
    }

    pub(super) fn revoke(&mut self, now: Moment, out: &mut Effects<P>) {
        if let Occupant::Held(_) = &self.holder
            && let Occupant::Held(held) = std::mem::replace(&mut self.holder, Occupant::Vacant)
        {
            out.push(Effect::Revoked(held.hold));
            self.tell_or_wait(now, out);
        }
    }

    /// The deadline has passed.
    pub(super) fn expire(&mut self, now: Moment, out: &mut Effects<P>) {
        if matches!(&self.holder, Occupant::Held(held) if now >= held.life.deadline) {
            self.vacate(now, out);
        }
    }

    /// The watchdog finds that the deadline is near: a lease of few milliseconds has not that many to spare for late timers.
    pub(super) fn expired(&mut self, hold: &P::Hold, now: Moment, out: &mut Effects<P>) {
        if let Some(held) = self.held(hold)
            && now >= held.life.deadline.before(slack(held.lease.min(held.granted)))
        {
            self.vacate(now, out);
        }
    }

    pub(super) fn lose(&mut self, hold: &P::Hold, now: Moment, out: &mut Effects<P>) {
        if self.held(hold).is_some() {
            self.vacate(now, out);
        }
    }

    /// The present hold is lost, and the next waiter may ask.
    fn vacate(&mut self, now: Moment, out: &mut Effects<P>) {
        let Occupant::Held(held) = std::mem::replace(&mut self.holder, Occupant::Vacant) else {
            return;
        };
        // If the store still has its predecessor, the step that is about to tell it otherwise is followed by one that frees it.
        if self.view.has(held.stay) {
            self.view = StoreView::Nothing;
        }
        out.push(Effect::Lost(held.hold));
        self.receipts.answer(None, out);
        self.announce(now, out);
    }

    fn held(&mut self, hold: &P::Hold) -> Option<&mut Held<P::Hold>> {
        match &mut self.holder {
            Occupant::Held(held) if held.hold == *hold => Some(held),
            _ => None,
        }
    }

    /// A step about the hold got no answer.
    fn suspect(&mut self, hold: &P::Hold, out: &mut Effects<P>) {
        if let Some(held) = self.held(hold) {
            held.suspect = true;
            out.push(Effect::Suspect(hold.clone()));
        }
    }

    /// The wait of a caller, or of a task that waits in this lane, may be over.
    pub(super) fn announce(&mut self, now: Moment, out: &mut Effects<P>) {
        out.push(Effect::Changed);
        self.nudge(now, out);
    }
}

pub(in crate::engine) fn slack(lease: Duration) -> Duration {
    TIMER_SLACK.min(lease / 4)
}

/// Telling the store.
impl<P: Parties> Lane<P> {
    /// No step about the hold is under way.
    pub(super) fn may_tell(&self) -> bool {
        matches!(self.telling, Telling::Idle) && self.renewing.is_none()
    }

    /// What the store does not know yet: the difference between who holds it and what the store has.
    pub(super) fn untold(&self) -> Option<Op<P>> {
        let StoreView::Has { stay: from, depth, until, permits } = self.view else { return None };
        match &self.holder {
            Occupant::Vacant => Some(Op::Release { stay: from, permits, until }),
            Occupant::LeftBehind { hold, what, stay, lease } => (*stay != from).then(|| Op::Pass {
                from,
                heir: hold.clone(),
                what: *what,
                stay: *stay,
                lease: *lease,
                until,
            }),
            Occupant::Held(held) if held.stay != from => Some(Op::Pass {
                from,
                heir: held.hold.clone(),
                what: held.what,
                stay: held.stay,
                lease: held.lease,
                until,
            }),
            Occupant::Held(held) if held.depth < depth => {
                Some(Op::Shrink { hold: held.hold.clone(), depth: held.depth })
            }
            Occupant::Held(_) => None,
        }
    }

    /// Tells the store what it does not know; or, while it is told something else, sees that nothing keeps that from its end.
    fn tell_or_wait(&mut self, now: Moment, out: &mut Effects<P>) {
        if self.may_tell() {
            return self.reconcile(now, out);
        }
        if matches!(self.holder, Occupant::Vacant) {
            if self.is_letting_go() {
                self.count_release(out);
            }
            out.push(Effect::Changed); // a pause before a hand-off is over
        }
        out.push(Effect::Adopt);
    }

    /// Later single tries wait for this release.
    fn count_release(&mut self, out: &mut Effects<P>) {
        if self.counted_elsewhere && !std::mem::replace(&mut self.is_counted, true) {
            out.push(Effect::Releasing(true));
        }
    }

    /// Begins the next step, until there is nothing left to tell.
    fn reconcile(&mut self, now: Moment, out: &mut Effects<P>) {
        if !self.may_tell() {
            return;
        }
        let op = match self.untold() {
            None => return self.told_all(now, out),
            Some(Op::Pass { .. }) if self.next_pass.is_some_and(|next| next > now) => {
                Op::Pause { until: self.next_pass.unwrap_or(now) }
            }
            Some(op) => op,
        };
        if matches!(op, Op::Pass { .. }) {
            self.next_pass = Some(now.after(config::PASS_PACE));
        }
        let id = self.next_step();
        let retry_until = now.after(config::COMMAND_TIMEOUT);
        let receipts = match op.is_release() {
            true => std::mem::take(&mut self.receipts),
            false => Receipts::default(),
        };
        if op.is_release() {
            self.count_release(out);
        }
        self.telling =
            Telling::Under(Under { step: id, op: op.clone(), retry_until, doubt: false, receipts });
        out.push(Effect::Step(Step { id, op }));
    }

    /// The store is as the lane wants it.
    fn told_all(&mut self, now: Moment, out: &mut Effects<P>) {
        if matches!(self.holder, Occupant::LeftBehind { .. }) {
            self.holder = Occupant::Vacant;
            self.view = StoreView::Nothing;
        }
        self.receipts.answer(Some(Ok(())), out);
        if std::mem::take(&mut self.renew_wanted) {
            self.renew(out);
        }
        // Last: a release that follows is counted by now.
        if std::mem::take(&mut self.is_counted) {
            out.push(Effect::Releasing(false));
        }
        self.announce(now, out);
    }

    /// An answer to a step other than an attempt.
    pub(super) fn told(
        &mut self,
        step: StepId,
        sent: Moment,
        reply: StepReply,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        if let Some(at) = self.doubts.iter().position(|doubt| doubt.step == step) {
            return self.forgotten(at, reply, now, out);
        }
        if self.renewing.as_ref().is_some_and(|renewing| renewing.step == step) {
            return self.renewed(sent, reply, now, out);
        }
        let under = match std::mem::replace(&mut self.telling, Telling::Answering) {
            Telling::Under(under) if under.step == step => under,
            other => {
                self.telling = other;
                return;
            }
        };
        let again = match under.op.clone() {
            Op::Release { stay, until, .. } => {
                self.freed(stay, until, under, sent, reply, now, out)
            }
            Op::Shrink { hold, depth } => self.shrunk(&hold, depth, under, sent, reply, now, out),
            Op::Pass { from, heir, stay, until, .. } => {
                let pass = Passed { from, heir, stay, until };
                self.passed(pass, under, sent, reply, now, out)
            }
            Op::Reenter { hold, depth, .. } => {
                self.reentered(&hold, depth, under, sent, reply, now, out)
            }
            Op::Pause { .. } | Op::Acquire(_) | Op::Renew { .. } | Op::Forget { .. } => None,
        };
        match again {
            Some(under) => {
                out.push(Effect::Retry(under.step));
                self.telling = Telling::Under(under);
            }
            None => {
                self.telling = Telling::Idle;
                self.reconcile(now, out);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn freed(
        &mut self,
        stay: Owner,
        until: Moment,
        mut under: Under<P>,
        sent: Moment,
        reply: StepReply,
        now: Moment,
        out: &mut Effects<P>,
    ) -> Option<Under<P>> {
        if let StepReply::Failed(e) = &reply
            && e.is_retryable()
        {
            under.doubt |= e.is_in_doubt();
            self.trouble(e, now, out);
            if now < until {
                if now >= under.retry_until {
                    // The caller has waited long enough; this goes on without it.
                    under.receipts.answer(Some(Err(e.clone())), out);
                }
                return Some(under);
            }
        } else if !matches!(reply, StepReply::Failed(_)) {
            self.answered(sent);
        }
        if self.view.has(stay) {
            self.view = StoreView::Nothing;
        }
        if std::mem::take(&mut self.burst_spent)
            && let StepReply::Released(Released::Freed { heard_by }) = reply
        {
            self.stand_back_for(heard_by, now);
        }
        let how = match reply {
            // Sent twice: the first time may have been the one that freed it.
            StepReply::Released(Released::NotHeld) if !under.doubt => Err(lost()),
            StepReply::Failed(e) => Err(e),
            _ => Ok(()),
        };
        under.receipts.answer(Some(how), out);
        None
    }

    #[allow(clippy::too_many_arguments)]
    fn shrunk(
        &mut self,
        hold: &P::Hold,
        depth: u32,
        mut under: Under<P>,
        sent: Moment,
        reply: StepReply,
        now: Moment,
        out: &mut Effects<P>,
    ) -> Option<Under<P>> {
        let how = match reply {
            StepReply::Released(Released::NotHeld) => {
                self.answered(sent);
                self.lose(hold, now, out);
                Err(lost())
            }
            StepReply::Failed(e) if e.is_retryable() && self.is_held_by(hold) => {
                self.suspect(hold, out);
                self.unanswered(now, &e);
                if now >= under.retry_until {
                    under.receipts.answer(Some(Err(e)), out); // this goes on without the caller
                }
                return Some(under);
            }
            reply => {
                // The count at the store is for others to read; the truth about levels is here.
                if let Some(held) = self.held(hold) {
                    held.suspect = false;
                    out.push(Effect::Reassured(hold.clone()));
                    self.may_be_deeper(hold, depth);
                }
                match reply {
                    StepReply::Failed(e) => Err(e),
                    _ => {
                        self.answered(sent);
                        Ok(())
                    }
                }
            }
        };
        under.receipts.answer(Some(how), out);
        None
    }

    fn passed(
        &mut self,
        pass: Passed<P::Hold>,
        mut under: Under<P>,
        sent: Moment,
        reply: StepReply,
        now: Moment,
        out: &mut Effects<P>,
    ) -> Option<Under<P>> {
        match reply {
            StepReply::Acquired { lease } => {
                self.answered(sent);
                self.confirm(pass.from, pass.stay, 1, sent.after(lease));
                self.accept(&pass.heir, sent, lease, out);
                return None;
            }
            StepReply::Failed(e) if e.is_retryable() && now < pass.until => {
                under.doubt |= e.is_in_doubt();
                self.suspect(&pass.heir, out);
                // Those who wait for more than the hand-over do not wait for ever.
                match self.hold().is_none() {
                    true => self.trouble(&e, now, out),
                    false => drop(self.unanswered(now, &e)),
                }
                if now >= under.retry_until {
                    self.receipts.answer(Some(Err(e)), out);
                }
                return Some(under);
            }
            StepReply::Failed(e) => under.doubt |= e.is_in_doubt(),
            _ => self.answered(sent),
        }
        // The store does not give what `from` had to any task of this process: the task that holds it here has lost it. What the store may
        // still have of `from` is freed next, and its answer is what an heir learns that has let go meanwhile.
        if let Occupant::LeftBehind { .. } = self.holder {
            self.holder = Occupant::Vacant;
        }
        if self.view.has(pass.from)
            && let Some(hold) = self.hold().cloned()
        {
            self.lose(&hold, now, out);
        }
        if under.doubt
            && let Op::Pass { what, lease, .. } = under.op
        {
            let until = sent.after(lease);
            self.doubt(what, pass.stay, until, Receipts::default(), now, out);
        }
        None
    }

    #[allow(clippy::too_many_arguments)]
    fn reentered(
        &mut self,
        hold: &P::Hold,
        depth: u32,
        mut under: Under<P>,
        sent: Moment,
        reply: StepReply,
        now: Moment,
        out: &mut Effects<P>,
    ) -> Option<Under<P>> {
        let Op::Reenter { want, .. } = &under.op else { return None };
        let want = **want;
        let tried = match reply {
            StepReply::Acquired { lease } => {
                self.answered(sent);
                let held = self.accept(hold, sent, lease, out);
                if let Some(stay) = self.stay_of(hold, &under) {
                    self.confirm(stay, stay, depth, sent.after(lease));
                }
                match held {
                    Some(watched) => {
                        out.push(Effect::Watch { hold: hold.clone(), watched });
                        Tried::Won { hold: hold.clone(), watched: want.lease.is_none() }
                    }
                    None => Tried::Busy { doubt: false },
                }
            }
            StepReply::Failed(error) if error.is_not_durable() => {
                if let Some(stay) = self.stay_of(hold, &under) {
                    let until = sent.after(want.lease.unwrap_or(self.rules.watchdog));
                    self.confirm(stay, stay, depth, until);
                }
                Tried::Failed { error, doubt: false }
            }
            StepReply::Failed(error) => {
                if error.is_in_doubt() {
                    under.doubt = true;
                    self.may_be_deeper(hold, depth);
                }
                if !error.is_retryable() || now >= under.retry_until {
                    Tried::Failed { error, doubt: false }
                } else if self.is_held_by(hold) {
                    self.suspect(hold, out);
                    self.unanswered(now, &error);
                    return Some(under);
                } else {
                    // An outage longer than the lease: another task may have the lock by now, and this is no re-entry.
                    Tried::Busy { doubt: false }
                }
            }
            _ => {
                self.answered(sent);
                self.lose(hold, now, out);
                Tried::Busy { doubt: false }
            }
        };
        out.push(Effect::Tried(tried));
        None
    }

    /// The id of the stay that a re-entry is about.
    fn stay_of(&self, hold: &P::Hold, under: &Under<P>) -> Option<Owner> {
        match (&self.holder, &under.op) {
            (Occupant::Held(held), _) if held.hold == *hold => Some(held.stay),
            (_, Op::Reenter { want, .. }) => Some(want.stay),
            _ => None,
        }
    }

    /// The store accepted a step about what `before` had. Noted unless the lane has moved on to another stay since; if no task holds it
    /// here any more, noting it is what gets it freed.
    fn confirm(&mut self, before: Owner, stay: Owner, depth: u32, until: Moment) {
        let (seen, permits) = match self.view {
            _ if is_planted(Bug::UnguardedView) => (until, 0),
            StoreView::Has { stay, until, permits, .. } if stay == before => (until, permits),
            StoreView::Nothing if self.hold().is_none() => (until, 0),
            _ => return,
        };
        let until = if before == stay { until.max(seen) } else { until };
        self.view = StoreView::Has { stay, depth, until, permits };
    }

    /// The store may have this depth of a stay that it has anyway: if the level is released, the store must be told.
    fn may_be_deeper(&mut self, hold: &P::Hold, deeper: u32) {
        let Occupant::Held(held) = &self.holder else { return };
        if let StoreView::Has { stay, depth, .. } = &mut self.view
            && held.hold == *hold
            && *stay == held.stay
        {
            *depth = deeper;
        }
    }

    /// A step about the hold was accepted: whether it is renewed, or `None` if it is not held any more.
    fn accept(
        &mut self,
        hold: &P::Hold,
        sent: Moment,
        lease: Duration,
        out: &mut Effects<P>,
    ) -> Option<bool> {
        let held = self.held(hold)?;
        let fresh = Life::fresh(sent, lease);
        held.life.expires = held.life.expires.max(fresh.expires);
        held.life.deadline = held.life.deadline.max(fresh.deadline);
        held.suspect = false;
        held.granted = lease;
        let watched = held.watched > 0;
        out.push(Effect::Accepted { hold: hold.clone(), sent, lease });
        Some(watched)
    }
}

/// Steps whose futures were dropped.
impl<P: Parties> Lane<P> {
    /// It may have been applied, and no answer will come.
    pub(super) fn unanswered_for_good(&mut self, step: StepId, now: Moment, out: &mut Effects<P>) {
        if let Some(doubt) = self.doubts.iter_mut().find(|doubt| doubt.step == step) {
            self.steps = self.steps.wrapping_add(1);
            doubt.step = self.steps;
            let (id, what, stay, until) = (doubt.step, doubt.what, doubt.stay, doubt.until);
            return out.push(Effect::Step(Step { id, op: Op::Forget { what, stay, until } }));
        }
        if self.renewing.as_ref().is_some_and(|renewing| renewing.step == step) {
            let text = "the renewal was interrupted: it may or may not have been applied";
            let reply = StepReply::Failed(Error::new(ErrorKind::Indeterminate, text));
            return self.renewed(now, reply, now, out);
        }
        match std::mem::replace(&mut self.telling, Telling::Idle) {
            Telling::Under(under) if under.step == step => {
                // Its callers learn that no answer will come; the lane tells the store again what it does not know.
                let Under { op, mut receipts, .. } = under;
                receipts.answer(None, out);
                if let Op::Reenter { hold, depth, .. } = &op {
                    self.may_be_deeper(hold, *depth);
                }
                self.reconcile(now, out);
            }
            other => self.telling = other,
        }
    }
}

/// What a hand-over was about.
struct Passed<H> {
    from: Owner,
    heir: H,
    stay: Owner,
    until: Moment,
}

/// Renewing.
impl<P: Parties> Lane<P> {
    pub(super) fn renew_due(&mut self, hold: &P::Hold, out: &mut Effects<P>) {
        if self.is_held_by(hold) && !self.renew(out) {
            self.renew_wanted = true;
            out.push(Effect::Adopt); // what is under way may have no end otherwise, and the hold would not outlive that
        }
    }

    /// Asks the store whether it still has the present hold, by renewing it: in full if that is the watchdog's to do, else for what is
    /// left of it.
    pub(super) fn renew(&mut self, out: &mut Effects<P>) -> bool {
        let Occupant::Held(held) = &self.holder else { return true };
        let least = if held.watched > 0 { self.rules.watchdog } else { Duration::ZERO };
        self.renew_for(least, None, out).is_some()
    }

    /// `None` if another step is under way that it must not meet. A re-entry it may meet: that may have no end for as long as the store
    /// has no room for it.
    fn renew_for(
        &mut self,
        least: Duration,
        retry_until: Option<Moment>,
        out: &mut Effects<P>,
    ) -> Option<StepId> {
        let meets = match &self.telling {
            Telling::Idle => false,
            Telling::Under(under) => !matches!(under.op, Op::Reenter { .. }),
            Telling::Answering => true,
        };
        if meets || self.renewing.is_some() {
            return None;
        }
        let Occupant::Held(held) = &self.holder else { return None };
        let (hold, stay) = (held.hold.clone(), held.stay);
        let depth = match self.view {
            StoreView::Has { depth, .. } => depth,
            StoreView::Nothing => 1,
        };
        let step = self.next_step();
        self.renew_wanted = false;
        self.renewing = Some(Renewing { step, hold: hold.clone(), stay, depth, retry_until });
        out.push(Effect::Step(Step { id: step, op: Op::Renew { hold, depth, least } }));
        Some(step)
    }

    pub(super) fn extend(
        &mut self,
        hold: &P::Hold,
        lease: Duration,
        retry_until: Moment,
        out: &mut Effects<P>,
    ) {
        if !self.is_held_by(hold) {
            return out.push(Effect::Way(Way::Lost));
        }
        if !self.may_tell() {
            out.push(Effect::Way(Way::Settle(Until::Told)));
            return out.push(Effect::Adopt);
        }
        if let Some(step) = self.renew_for(lease, Some(retry_until), out) {
            out.push(Effect::Way(Way::Attempt { step, leads: false }));
        }
    }

    fn renewed(&mut self, sent: Moment, reply: StepReply, now: Moment, out: &mut Effects<P>) {
        let Some(Renewing { step, hold, stay, depth, retry_until }) = &self.renewing else {
            return;
        };
        let (step, hold, stay, depth) = (*step, hold.clone(), *stay, *depth);
        let again = retry_until.is_some_and(|until| now < until);
        let held = match reply {
            StepReply::Held { lease } => {
                self.answered(sent);
                let held = self.accept(&hold, sent, lease, out).is_some();
                let depth = match self.view {
                    StoreView::Has { stay: there, depth, .. } if there == stay => depth,
                    _ => depth,
                };
                self.confirm(stay, stay, depth, sent.after(lease));
                Ok(held)
            }
            StepReply::Failed(e) => {
                self.suspect(&hold, out);
                if again && e.is_retryable() && self.is_held_by(&hold) {
                    return out.push(Effect::Retry(step));
                }
                Err(e)
            }
            _ => {
                self.answered(sent);
                self.lose(&hold, now, out);
                Ok(false)
            }
        };
        out.push(Effect::Renewed { hold, held });
        self.renewing = None;
        self.reconcile(now, out);
    }
}

/// Stays in doubt.
impl<P: Parties> Lane<P> {
    /// The store may have this stay, and no task of this process uses it.
    pub(super) fn forget(
        &mut self,
        what: ClaimKind,
        stay: Owner,
        lease: Duration,
        receipt: Option<P::Receipt>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let mut receipts = Receipts::default();
        receipts.add(receipt);
        if matches!(&self.holder, Occupant::Held(held) if held.stay == stay) {
            return receipts.answer(None, out);
        }
        // A place in a queue outlives a short lease.
        let until = now.after(lease.max(config::WATCHDOG));
        self.doubt(what, stay, until, receipts, now, out);
    }

    fn doubt(
        &mut self,
        what: ClaimKind,
        stay: Owner,
        until: Moment,
        receipts: Receipts<P::Receipt>,
        now: Moment,
        out: &mut Effects<P>,
    ) {
        let step = self.next_step();
        let patience = now.after(config::COMMAND_TIMEOUT);
        self.doubts.push(Doubt { step, what, stay, until, patience, receipts });
        if self.counted_elsewhere {
            out.push(Effect::Releasing(true));
        }
        out.push(Effect::Step(Step { id: step, op: Op::Forget { what, stay, until } }));
    }

    fn forgotten(&mut self, at: usize, reply: StepReply, now: Moment, out: &mut Effects<P>) {
        let until = self.doubts[at].until;
        let how = match reply {
            StepReply::Failed(e) if e.is_retryable() => {
                self.trouble(&e, now, out);
                let Some(doubt) = self.doubts.get_mut(at) else { return };
                if now < until {
                    if now >= doubt.patience {
                        doubt.receipts.answer(Some(Err(e)), out);
                    }
                    return out.push(Effect::Retry(doubt.step));
                }
                Err(e)
            }
            StepReply::Failed(e) => Err(e),
            // Not an answer of the store to be counted: a majority takes note of it whether its stores can be asked or not.
            _ => Ok(()),
        };
        let mut doubt = self.doubts.swap_remove(at);
        if self.view.has(doubt.stay) {
            self.view = StoreView::Nothing;
        }
        doubt.receipts.answer(Some(how), out);
        if self.counted_elsewhere {
            out.push(Effect::Releasing(false));
        }
        self.announce(now, out);
    }
}
