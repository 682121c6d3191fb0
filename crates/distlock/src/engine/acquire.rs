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

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::attempt::{Tried, attempt, reenter};
use super::detach::Detached;
use super::hold::Hold;
use super::lanes::LaneRef;
use super::waiters::{Grant, LaneState};
use super::way::{Place, Way, way};
use super::{Engine, drive, release};
use crate::backoff::Backoff;
use crate::config;
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Asker;
use crate::observe::Event;
use crate::owner::Owner;
use crate::store::{Claim, Kind, What};

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) kind: Kind,
    pub(crate) what: What,
    /// Polls instead of listening.
    pub(crate) spin: Option<Backoff>,
    pub(crate) owner: Owner,
    /// The caller named the owner, so it may hold the lock already.
    pub(crate) explicit: bool,
    /// `None`: the watchdog's timeout, renewed.
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Wait,
    /// Who asks, if the store is to keep that.
    pub(crate) asker: Option<Arc<Asker>>,
}

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

impl Ask {
    /// Whether it can be taken in one step with others of its store.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.what, What::Exclusive | What::Fenced)
    }
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

impl Ask {
    pub(super) fn lease(&self, engine: &Engine) -> Duration {
        self.lease.unwrap_or(engine.tuning.watchdog)
    }

    pub(super) fn claim(&self, engine: &Engine, name: &Arc<str>) -> Claim {
        Claim {
            name: name.clone(),
            owner: self.owner,
            lease: self.lease(engine),
            depth: 1,
            heir_of: None,
            what: self.what,
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
}

enum Stage {
    /// Never polled: nothing has happened yet.
    New,
    /// Ask the lane which way to go.
    Look,
    /// Too many ask the store at once.
    Crowded(BoxFuture<'static, Result<OwnedSemaphorePermit>>),
    /// A step of this process is on its way to the store.
    Settle(BoxFuture<'static, Result<()>>),
    /// With the turn that it takes.
    Attempt(Detached<Tried>, #[allow(dead_code)] OwnedSemaphorePermit),
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
        Acquiring { engine, ask, lane, start, stage: Stage::New }
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
    fn look(&mut self, turn: OwnedSemaphorePermit) -> Result<()> {
        let patience = self.patience();
        let (engine, lane, ask) = (&self.engine, &self.lane, &self.ask);
        self.stage = match way(engine, lane, ask)? {
            Way::Settle(until) => {
                Stage::Settle(Box::pin(settle(engine.clone(), lane.clone(), until, patience)))
            }
            Way::Reenter(tenure) => {
                let work = reenter(engine.clone(), tenure, ask.clone(), patience);
                Stage::Reenter(Detached::new(&engine.env, work))
            }
            Way::Attempt(lead) => {
                let work = attempt(engine.clone(), lane.clone(), ask.clone(), lead, patience);
                Stage::Attempt(Detached::new(&engine.env, work), turn)
            }
            Way::Queue(place) => self.queue(place, false),
        };
        Ok(())
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
                let outage = self.lane.state().outage.as_ref().map(|(_, e)| e.clone());
                Some(outage.map_or(Ok(None), Err))
            }
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
        outcome.map_err(|e| e.about(ask.kind, &self.lane.name))
    }

    /// One step further: the outcome, if there is one now.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Option<Hold>>>> {
        let step = match &mut self.stage {
            Stage::New => {
                self.start = self.engine.env.now();
                // Shared if it is one of several, which were called for together.
                if let Some(asker) = self.ask.asker.as_mut().and_then(Arc::get_mut) {
                    asker.called = self.start;
                }
                self.stage = Stage::Look;
                Ok(())
            }
            Stage::Look => match self.engine.askers(&self.lane.name).try_acquire_owned() {
                Ok(turn) => self.look(turn),
                Err(_) => {
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
                self.stage = Stage::Look; // the outer hold was lost: begin anew
                return Poll::Ready(done.transpose().map(|hold| hold.map(Some)));
            }
            Stage::Attempt(work, _) => {
                let tried = ready!(Pin::new(work).poll(cx));
                return Poll::Ready(self.tried(tried));
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
        loop {
            if let Some(outcome) = ready!(self.advance(cx)) {
                return Poll::Ready(self.end(outcome));
            }
        }
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::New | Stage::Over => return,
            Stage::Queued(place, _) => {
                place.leave(&self.engine, &self.lane);
            }
            _ => {} // what is under way finishes by itself
        }
        let waited = self.engine.env.now().since(self.start);
        self.engine.observe(self.ask.kind, &self.lane.name, Event::GaveUp { waited });
    }
}

/// Waits for a turn to ask.
async fn crowded(
    engine: Arc<Engine>,
    askers: Arc<Semaphore>,
    patience: Moment,
) -> Result<OwnedSemaphorePermit> {
    let full = || Error::new(ErrorKind::Unavailable, "too many ask for locks at once");
    let turn = askers.acquire_owned();
    if patience == Moment::NEVER {
        return turn.await.map_err(|_| full());
    }
    tokio::select! {
        turn = turn => turn.map_err(|_| full()),
        () = engine.env.sleep_until(patience) => Err(full()),
    }
}

/// Waits until a step that is on its way has arrived.
async fn settle(
    engine: Arc<Engine>,
    lane: LaneRef,
    until: fn(&LaneState) -> bool,
    patience: Moment,
) -> Result<()> {
    let text = "an earlier release of this lock is still on its way to the store";
    // Both, if there are two: one may have moved on while the other was awaited, which is found out by looking again.
    let settled = async {
        lane.until(until).await;
        lane.count().until(|state| state.releasing == 0).await;
    };
    tokio::select! {
        () = settled => Ok(()),
        () = engine.env.sleep_until(patience) => Err(Error::new(ErrorKind::Unavailable, text)),
    }
}
