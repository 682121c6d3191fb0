//! The road in.
//!
//! Uncontended, an acquisition is one attempt, made by the caller: one round trip. If the lock is busy the caller
//! queues in its lane and the lane's [driver](super::drive) tries for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::attempt::{Tried, attempt, reenter};
use super::detach::Detached;
use super::hold::{Hold, Who};
use super::lanes::LaneRef;
use super::wait::{AskersTurn, Wait, crowded, settle};
use super::waiters::Grant;
use super::way::{Place, Way, way};
use super::{Engine, drive, release};
use crate::env::{BoxFuture, Moment};
use crate::error::Result;
use crate::holder::Asker;
use crate::locks::config;
use crate::observe::{Event, Outcome};
use crate::owner::Owner;
use crate::runtime::Backoff;
use crate::store::{Claim, ClaimKind, Kind};

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
    /// One of several that are asked for together: who asked hears of all as one.
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
    /// What log lines of it belong to; in a box, and only if somebody listens.
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
    Attempt(Detached<Tried>, #[allow(dead_code)] AskersTurn),
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
        let lane = engine.lanes.to_wait(name, ask.what, ask.owner, ask.explicit);
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
        let patience = self.patience();
        let way = way(&self.engine, &self.lane, &self.ask)?;
        if matches!(way, Way::Attempt(_)) {
            self.under_new_stay();
        }
        let (engine, lane, ask) = (&self.engine, &self.lane, &self.ask);
        self.stage = match way {
            Way::Settle(until) => {
                Stage::Settle(Box::pin(settle(engine.clone(), lane.clone(), until, patience)))
            }
            Way::Reenter(tenure) => {
                let (engine, ask) = (engine.clone(), ask.clone());
                let env = engine.env.clone();
                let work = |adoptable| reenter(engine, tenure, ask, patience, adoptable);
                Stage::Reenter(Detached::new(&env, work))
            }
            Way::Attempt(lead) => {
                let (engine, lane, ask) = (engine.clone(), lane.clone(), ask.clone());
                let env = engine.env.clone();
                let work = |adoptable| attempt(engine, lane, ask, lead, patience, Some(adoptable));
                Stage::Attempt(Detached::new(&env, work), turn)
            }
            Way::Queue(place) => {
                self.asked = true;
                self.queue(place, false)
            }
        };
        Ok(())
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

    /// Waits in the queue, after an attempt or without one.
    fn queue(&self, place: Place, tried: bool) -> Stage {
        if place.drives {
            drive::start(&self.engine, self.lane.clone(), tried);
        }
        // Closing fails those whom it finds in a queue; whoever joins one just after that has to look.
        if self.engine.is_closed() {
            release::fail_all(&self.engine, &self.lane, &Engine::closed_error());
        }
        let deadline = self.deadline();
        let timeout = (deadline != Moment::NEVER).then(|| self.engine.env.sleep_until(deadline));
        Stage::Queued(place, timeout)
    }

    /// What comes after an attempt: the end, or the queue.
    fn tried(&mut self, mut tried: Tried) -> Option<Result<Option<Hold>>> {
        let once = matches!(self.ask.wait, Wait::Once);
        match tried {
            Tried::Won(hold) => return Some(Ok(Some(hold))),
            Tried::Failed(e, _) if once || !e.is_passing() => return Some(Err(e)),
            Tried::Busy(..) if once => return Some(Ok(None)),
            _ => {}
        }
        let busy = matches!(tried, Tried::Busy(..));
        let unsure = tried.take_doubt();
        let place = Place::take(&mut self.lane.state(), &self.ask, self.start, unsure);
        self.stage = self.queue(place, busy);
        None
    }

    /// What comes after a grant, or after the time was up.
    fn granted(&mut self, grant: Option<Grant>) -> Option<Result<Option<Hold>>> {
        self.stage = Stage::Look;
        match grant {
            Some(Grant::Hold(hold)) => Some(Ok(Some(hold))),
            Some(Grant::Again) => None,
            Some(Grant::Failed(e)) => Some(Err(e)),
            None => {
                // Only an outage that this caller has waited through is its answer.
                let state = self.lane.state();
                let outage = state.outage.as_ref().filter(|outage| outage.last >= self.start);
                Some(outage.map_or(Ok(None), |outage| Err(outage.error.clone())))
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
                return Poll::Ready(tried.and_then(|tried| self.tried(tried)));
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
