//! The caller's future.
//!
//! Uncontended, an acquisition is one attempt, made by the caller: one round trip. If the lock is busy the caller
//! queues in its lane, and the [lane](super::lane) asks for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use super::admission::{AskersTurn, crowded};
use super::detach::{Adoptable, Detached};
use super::hold::{Hold, Tenure, Who};
use super::lane::{Effect, LaneEvent, Op, StepId, Ticket, Tried, Until, Want, Way};
use super::lanes::LaneRef;
use super::releasing;
use super::shell::{About, Grant, Lent, Runs, WaiterHandle, carry_out};
use super::steps::{CallersAttempt, CallersReentry, Sending, until_answered};
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Asker;
use crate::locks::config;
use crate::observe::{Event, Outcome};
use crate::owner::Owner;
use crate::runtime::Backoff;
use crate::store::{Claim, ClaimKind, Kind};

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// One attempt.
    Once,
    /// As long as this.
    For(Duration),
    /// As long as it takes.
    Forever,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Once => f.write_str("one attempt"),
            Wait::For(wait) => write!(f, "{wait:?}"),
            Wait::Forever => f.write_str("any time"),
        }
    }
}

impl Outcome {
    /// Of a request that waits so long.
    pub(super) fn of<T>(answer: &Result<Option<T>>, wait: Wait) -> Outcome {
        match (answer, wait) {
            (Ok(Some(_)), _) => Outcome::Acquired,
            (Ok(None), Wait::Once) => Outcome::Busy,
            (Ok(None), _) => Outcome::TimedOut,
            (Err(_), _) => Outcome::Failed,
        }
    }
}

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) kind: Kind,
    pub(crate) what: ClaimKind,
    /// Polls instead of listening.
    pub(crate) spin: Option<Backoff>,
    /// Who asks, as this process knows it.
    pub(crate) owner: Owner,
    /// Who asks, as the store knows it: an id for one stay, from entering to the last guard gone, and for nothing after it. So a step
    /// that reaches the store late names a stay that is over. The same as `owner` unless the caller named that.
    pub(crate) stay: Owner,
    /// The caller named the owner, so it may hold the lock already.
    pub(crate) explicit: bool,
    /// One of several that are asked for together: observers are notified of all of them as one request.
    pub(crate) part: bool,
    /// `None`: the watchdog's timeout, renewed.
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Wait,
    /// Who asks, if the store is to keep that.
    pub(crate) asker: Option<Arc<Asker>>,
}

impl Ask {
    /// Whether it can be taken in one step with others of its store.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.what, ClaimKind::Exclusive | ClaimKind::Fenced)
    }

    pub(super) fn who(&self) -> Who {
        Who { owner: self.owner, stay: self.stay }
    }

    /// What the lane needs to know of it.
    pub(super) fn want(&self, retry_until: Moment) -> Want {
        Want {
            what: self.what,
            owner: self.owner,
            stay: self.stay,
            explicit: self.explicit,
            lease: self.lease,
            once: matches!(self.wait, Wait::Once),
            retry_until,
            spin: self.spin,
        }
    }

    pub(super) fn lease(&self, engine: &Engine) -> Duration {
        self.lease.unwrap_or(engine.tuning.watchdog)
    }

    pub(super) fn claim(&self, engine: &Engine, name: &Arc<str>) -> Claim {
        Claim {
            name: name.clone(),
            owner: self.stay,
            lease: self.lease(engine),
            depth: 1,
            heir_of: None,
            kind: self.what,
            info: self.asker.as_ref().map(|asker| asker.info(&*engine.env)),
        }
    }
}

/// An acquisition under way. Ends with the hold, or with `None` when the lock stayed busy for as long as the caller waits.
///
/// One absolute deadline covers all of it. Written out by hand because a hundred thousand callers may wait at once: what it
/// keeps while it waits is small, and whatever is large and brief is in a box of its own.
#[derive(Debug)]
pub(crate) struct Acquiring {
    engine: Arc<Engine>,
    ask: Ask,
    lane: LaneRef,
    start: Moment,
    stage: Stage,
    /// Whether the store may have seen the present id of this request.
    asked: bool,
    /// What log lines of it belong to; in a box, and only if a subscriber of `tracing` records it.
    span: Option<Box<tracing::Span>>,
}

enum Stage {
    /// Never polled: nothing has happened yet.
    New,
    /// Ask the lane which way to go.
    Look,
    /// Too many ask the store at once.
    Crowded(BoxFuture<'static, Result<AskersTurn>>),
    /// A step of this process is on its way to the store.
    Settle(BoxFuture<'static, Result<()>>),
    /// With the turn that it takes.
    Attempt(Detached<Ended>, #[allow(dead_code)] AskersTurn),
    Reenter(Detached<Result<Option<Hold>>>),
    Queued(Place, Option<BoxFuture<'static, ()>>),
    Over,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stage")
    }
}

impl Acquiring {
    pub(crate) fn new(engine: Arc<Engine>, name: &Arc<str>, ask: Ask) -> Acquiring {
        let lane = engine.lanes.to_wait(&engine, name, ask.what, ask.owner, ask.explicit);
        let start = engine.env.now();
        Acquiring { engine, ask, lane, start, stage: Stage::New, asked: false, span: None }
    }

    /// What was asked, and whom.
    pub(crate) fn request(&self) -> (&Arc<Engine>, &Arc<str>, &Ask) {
        (&self.engine, &self.lane.name, &self.ask)
    }

    fn deadline(&self) -> Moment {
        match self.ask.wait {
            Wait::Once => self.start,
            Wait::For(wait) => self.start.after(wait),
            Wait::Forever => Moment::NEVER,
        }
    }

    /// Even one attempt may have to reconnect, or to ask again after a lost reply.
    fn patience(&self) -> Moment {
        self.deadline().max(self.start.after(config::COMMAND_TIMEOUT))
    }

    /// Goes the way that the lane says.
    fn look(&mut self, turn: AskersTurn) -> Result<()> {
        if self.engine.is_closed() {
            return Err(Engine::closed_error());
        }
        let once = matches!(self.ask.wait, Wait::Once);
        let patience = self.patience();
        // A caller that can queue is not kept at its own attempt by an outage.
        let retry_until = if once { patience } else { self.start };
        let releasing = once && self.lane.is_releasing();
        let want = self.ask.want(patience);
        let (engine, lane) = (self.engine.clone(), self.lane.clone());
        let mut way = None;
        let mut attempt = None;
        let mut left = lane.on_lending(&engine, LaneEvent::Ask { want, releasing }, |effects| {
            way = effects.take_way();
            // An owner that the program names may have a stay in other lanes: that is found out when this one is unlocked.
            let (Some(&Way::Attempt { step, leads }), false) = (way.as_ref(), self.ask.explicit)
            else {
                return None;
            };
            self.under_new_stay();
            let (begun, adoptable) = self.attempt(step, retry_until);
            attempt = Some(begun);
            leads.then_some((Lent::Attempt, adoptable))
        });
        match way {
            Some(Way::Settle(until)) => {
                carry_out(&self.engine, &self.lane, left, Runs::Here);
                let (engine, lane) = (self.engine.clone(), self.lane.clone());
                self.stage = Stage::Settle(Box::pin(settle(engine, lane, until, patience)));
            }
            Some(Way::Reenter { step, hold }) => {
                let op = left.effects.take_step(step);
                carry_out(&self.engine, &self.lane, left, Runs::Here);
                self.stage = match op {
                    Some(op) => Stage::Reenter(self.reenter(step, op, hold, patience)),
                    None => Stage::Look,
                };
            }
            Some(Way::Attempt { step, leads }) => {
                carry_out(&engine, &lane, left, Runs::Here);
                let attempt = attempt.unwrap_or_else(|| {
                    self.under_new_stay();
                    let (begun, adoptable) = self.attempt(step, retry_until);
                    if leads {
                        lane.lend(Lent::Attempt, adoptable);
                    }
                    begun
                });
                self.stage = Stage::Attempt(attempt, turn);
            }
            Some(Way::Queue | Way::Lost) | None => {
                carry_out(&self.engine, &self.lane, left, Runs::Here);
                self.asked = true;
                self.queue(false, false);
            }
        }
        Ok(())
    }

    /// Asks the store. The caller's future sends it, and no caller can end it.
    fn attempt(&self, step: StepId, retry_until: Moment) -> (Detached<Ended>, Adoptable) {
        let (engine, lane, ask) = (self.engine.clone(), self.lane.clone(), self.ask.clone());
        let sending = Sending::begin(&engine, &lane, step, Some(ask.want(retry_until)));
        let env = engine.env.clone();
        let work = Detached::new(&env, |_| async move {
            let env = engine.env.clone();
            let attempt = CallersAttempt { sending, ask: ask.clone(), retry_until, doubt: false };
            let tried = until_answered(&*env, attempt).await;
            let doubt = |doubt: bool| doubt.then(|| UnsettledStay(Some((engine, lane, ask))));
            match tried {
                Tried::Won { hold, watched } => Ended::Won(Hold::granted(hold, watched)),
                Tried::Busy { doubt: is } => Ended::Busy(doubt(is)),
                Tried::Failed { error, doubt: is } => Ended::Failed(error, doubt(is)),
            }
        });
        let adoptable = work.adoptable();
        (work, adoptable)
    }

    /// Goes one level deeper. `None` if the outer hold turned out to be lost.
    fn reenter(
        &self,
        step: StepId,
        op: Op<super::shell::Tasks>,
        tenure: Arc<Tenure>,
        retry_until: Moment,
    ) -> Detached<Result<Option<Hold>>> {
        let (engine, lane, ask) = (self.engine.clone(), self.lane.clone(), self.ask.clone());
        let sending = Sending::begin(&engine, &lane, step, None);
        // From here on dropping it takes the level back, whatever happens.
        let hold = Hold::granted(tenure, ask.lease.is_none());
        let env = engine.env.clone();
        Detached::new(&env, |adoptable| {
            lane.lend(Lent::Telling, adoptable);
            async move {
                let (kind, env) = (ask.kind, engine.env.clone());
                let reentry = CallersReentry { sending, op, ask, retry_until };
                match until_answered(&*env, reentry).await {
                    Tried::Won { .. } => Ok(Some(hold)),
                    Tried::Busy { .. } => Ok(None),
                    Tried::Failed { error, .. } => {
                        if error.is_not_durable() {
                            engine.observe(kind, &lane.name, Event::NotDurable);
                            // If the hold itself was lost meanwhile, the holder of its guard learns of that.
                            drop(releasing::unlock(hold).await);
                        }
                        Err(error)
                    }
                }
            }
        })
    }

    /// Before an attempt: what was asked for before, if anything was, is over and may still be on its way.
    fn under_new_stay(&mut self) {
        let (engine, ask) = (&self.engine, &mut self.ask);
        if ask.explicit {
            ask.stay = engine.stay_of(&self.lane.name, ask.what, ask.owner);
        } else if std::mem::replace(&mut self.asked, true) {
            ask.stay = engine.mint_owner();
            // A waiter of a fair lock has a lane to itself, which is found by its owner.
            if !matches!(ask.what, ClaimKind::Fair { .. }) {
                ask.owner = ask.stay;
            }
        }
    }

    /// Waits in the queue, after an attempt or without one. `doubt`: the store may have something of it.
    fn queue(&mut self, tried: bool, doubt: bool) {
        let (grant, granted) = oneshot::channel();
        let (kind, asker) = (self.ask.kind, self.ask.asker.clone());
        let waiter = WaiterHandle { grant, about: About { kind, asker } };
        let (want, joined) = (self.ask.want(self.start), self.start);
        let event = LaneEvent::Join { want, waiter, joined, doubt, tried };
        let mut left = self.lane.on(&self.engine, event);
        let ticket = left.effects.take(|effect| matches!(effect, Effect::Queued(_)));
        carry_out(&self.engine, &self.lane, left, Runs::Here);
        let Some(Effect::Queued(ticket)) = ticket else { return };
        // Closing fails those whom it finds in a queue; a caller that joins one just after that has to look.
        if self.engine.is_closed() {
            self.lane.tell(&self.engine, LaneEvent::Close(Engine::closed_error()));
        }
        let deadline = self.deadline();
        let timeout = (deadline != Moment::NEVER).then(|| self.engine.env.sleep_until(deadline));
        self.stage = Stage::Queued(Place { ticket, granted }, timeout);
    }

    /// What comes after an attempt: the end, or the queue.
    fn tried(&mut self, ended: Ended) -> Option<Result<Option<Hold>>> {
        let once = matches!(self.ask.wait, Wait::Once);
        let (busy, doubt) = match ended {
            Ended::Won(hold) => return Some(Ok(Some(hold))),
            Ended::Failed(e, _) if once || !e.is_passing() => return Some(Err(e)),
            Ended::Busy(_) if once => return Some(Ok(None)),
            Ended::Busy(doubt) => (true, doubt),
            Ended::Failed(_, doubt) => (false, doubt),
        };
        self.queue(busy, doubt.map(UnsettledStay::take_over).is_some());
        None
    }

    /// What comes after a grant, or after the time was up.
    fn granted(&mut self, grant: Option<Grant>) -> Option<Result<Option<Hold>>> {
        self.stage = Stage::Look;
        match grant {
            Some(Grant::Hold(hold)) => Some(Ok(Some(hold))),
            Some(Grant::Again) => None,
            Some(Grant::Failed(e)) => Some(Err(e)),
            // Only an outage that this caller has waited through is its answer.
            None => {
                Some(self.lane.read(|lane| lane.outage_since(self.start)).map_or(Ok(None), Err))
            }
        }
    }

    /// Whether the hold is still there for this caller. One that waited too long for its caller to be polled was released.
    fn collects(&self, outcome: &Result<Option<Hold>>) -> bool {
        match outcome {
            // Of several, none is collected before all are there.
            Ok(Some(hold)) => self.ask.part || hold.tenure.collect(),
            _ => true,
        }
    }

    fn end(&mut self, outcome: Result<Option<Hold>>) -> Result<Option<Hold>> {
        self.stage = Stage::Over;
        let (engine, ask) = (&self.engine, &self.ask);
        let outcome = match outcome {
            // Too late: dropping the hold lets go of it.
            Ok(Some(_)) if engine.is_closed() => Err(Engine::closed_error()),
            outcome => outcome,
        };
        let waited = engine.env.now().since(self.start);
        let event = match outcome {
            Ok(Some(_)) => Event::Acquired { waited },
            _ => Event::GaveUp { waited },
        };
        engine.observe(ask.kind, &self.lane.name, event);
        self.answered(Outcome::of(&outcome, ask.wait), waited);
        outcome.map_err(|e| e.about(ask.kind, &self.lane.name))
    }

    fn answered(&self, outcome: Outcome, waited: Duration) {
        if !self.ask.part {
            let event = Event::Answered { outcome, waited };
            self.engine.observe(self.ask.kind, &self.lane.name, event);
        }
    }

    /// One step further: the outcome, if there is one now.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Option<Hold>>>> {
        let step = match &mut self.stage {
            Stage::New => {
                self.start = self.engine.env.now();
                if !self.ask.part {
                    self.engine.observe(self.ask.kind, &self.lane.name, Event::Asked);
                }
                // Shared if it is one of several, which were called for together.
                if let Some(asker) = self.ask.asker.as_mut().and_then(Arc::get_mut) {
                    asker.called = self.start;
                }
                self.stage = Stage::Look;
                Ok(())
            }
            Stage::Look => match self.engine.askers(&self.lane.name).try_turn() {
                Some(turn) => self.look(turn),
                None => {
                    let askers = self.engine.askers(&self.lane.name);
                    let crowded = crowded(self.engine.clone(), askers, self.patience());
                    self.stage = Stage::Crowded(Box::pin(crowded));
                    Ok(())
                }
            },
            Stage::Crowded(turn) => {
                let turn = ready!(turn.as_mut().poll(cx));
                turn.and_then(|turn| self.look(turn))
            }
            Stage::Settle(settled) => {
                let settled = ready!(settled.as_mut().poll(cx));
                self.stage = Stage::Look;
                settled
            }
            Stage::Reenter(work) => {
                let done = ready!(Pin::new(work).poll(cx));
                self.stage = Stage::Look; // the outer hold was lost, or this caller came too late: begin anew
                let done = done.unwrap_or(Ok(None));
                return Poll::Ready(done.transpose().map(|hold| hold.map(Some)));
            }
            Stage::Attempt(work, _) => {
                let tried = ready!(Pin::new(work).poll(cx));
                self.stage = Stage::Look; // unless something came of it
                return Poll::Ready(tried.and_then(|ended| self.tried(ended)));
            }
            Stage::Queued(place, timeout) => {
                let grant = ready!(place.poll(timeout, &self.engine, &self.lane, cx));
                return Poll::Ready(self.granted(grant));
            }
            Stage::Over => return Poll::Pending, // there is nothing more to give
        };
        Poll::Ready(step.err().map(Err))
    }
}

impl Future for Acquiring {
    type Output = Result<Option<Hold>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Option<Hold>>> {
        if matches!(self.stage, Stage::New) {
            let span = acquire_span(self.ask.kind, &self.lane.name);
            self.span = (!span.is_disabled()).then(|| Box::new(span));
        }
        let span = self.span.take();
        let inside = span.as_ref().map(|span| span.enter());
        let outcome = loop {
            match self.advance(cx) {
                Poll::Ready(Some(outcome)) if self.collects(&outcome) => {
                    break Poll::Ready(self.end(outcome));
                }
                Poll::Ready(Some(_)) => self.stage = Stage::Look,
                Poll::Ready(None) => {}
                Poll::Pending => break Poll::Pending,
            }
        };
        drop(inside);
        self.span = span;
        outcome
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        let span = self.span.take();
        let _inside = span.as_ref().map(|span| span.enter());
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New | Stage::Over => return,
            Stage::Queued(place, _) => {
                place.leave(&self.engine, &self.lane);
            }
            _ => {} // what is under way finishes by itself
        }
        let waited = self.engine.env.now().since(self.start);
        self.engine.observe(self.ask.kind, &self.lane.name, Event::GaveUp { waited });
        self.answered(Outcome::Cancelled, waited);
    }
}

/// What log lines of an acquisition belong to.
pub(super) fn acquire_span(kind: Kind, name: &str) -> tracing::Span {
    tracing::debug_span!(target: "distlock", "acquire", kind = kind.as_str(), name)
}

/// How a caller's attempt ended.
enum Ended {
    Won(Hold),
    Busy(Option<UnsettledStay>),
    Failed(Error, Option<UnsettledStay>),
}

/// The store may have given the lock although no task knows, or keeps a place in its queue. A caller that waits on takes this over and
/// asks again under the same id, which clears it up; dropped, the store is told to forget it.
struct UnsettledStay(Option<(Arc<Engine>, LaneRef, Ask)>);

impl UnsettledStay {
    fn take_over(mut self) {
        self.0 = None;
    }
}

impl Drop for UnsettledStay {
    fn drop(&mut self) {
        if let Some((engine, lane, ask)) = self.0.take() {
            releasing::disown(&engine, &lane.name, &ask);
        }
    }
}

/// A place in a lane's queue.
struct Place {
    ticket: Ticket,
    granted: oneshot::Receiver<Grant>,
}

impl Place {
    /// Waits for the grant, or until the time is up.
    fn poll(
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
    fn leave(&self, engine: &Arc<Engine>, lane: &LaneRef) -> bool {
        let mut left = lane.on(engine, LaneEvent::Leave(self.ticket));
        let was_there = left.effects.take(|effect| matches!(effect, Effect::Left)).is_some();
        carry_out(engine, lane, left, Runs::Here);
        was_there
    }
}

/// Waits until the lane is so, and what ended in lanes of its like has arrived at the store.
async fn settle(engine: Arc<Engine>, lane: LaneRef, until: Until, patience: Moment) -> Result<()> {
    let text = "the store has not confirmed an earlier release of this lock yet: retry later";
    // Both, if there are two: one may have moved on while the other was awaited, which is found out by looking again.
    let settled = async {
        lane.until(until).await;
        lane.until_released().await;
    };
    let adopted = async {
        engine.env.sleep_until(engine.env.now().after(config::ADOPT_AFTER)).await;
        engine.adopt(&lane.name);
        std::future::pending::<()>().await
    };
    tokio::select! {
        biased;
        () = settled => Ok(()),
        () = adopted => Ok(()),
        () = engine.env.sleep_until(patience) => Err(Error::new(ErrorKind::Unavailable, text)),
    }
}
