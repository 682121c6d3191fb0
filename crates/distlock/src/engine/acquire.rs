//! The road in.
//!
//! Uncontended, an acquisition is one attempt, made by the caller: one round trip. If the lock is busy the caller
//! queues in its lane and the lane's [driver](super::drive) tries for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{SemaphorePermit, oneshot};

use super::attempt::{Lead, Tried, attempt, reenter};
use super::detach::Detached;
use super::hold::{Hold, State, Tenure};
use super::waiters::{Grant, LaneRef, LaneState, Step};
use super::{Engine, drive, release};
use crate::config;
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::owner::Owner;
use crate::store::{Claim, Kind, What};

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) what: What,
    pub(crate) owner: Owner,
    /// The caller named the owner, so it may hold the lock already.
    pub(crate) explicit: bool,
    /// `None`: the watchdog's timeout, renewed.
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Wait,
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
    pub(super) fn lease(&self, engine: &Engine) -> Duration {
        self.lease.unwrap_or(engine.watchdog_timeout)
    }

    pub(super) fn claim(&self, engine: &Engine) -> Claim {
        Claim {
            name: self.name.clone(),
            owner: self.owner,
            lease: self.lease(engine),
            depth: 1,
            heir_of: None,
            what: self.what,
        }
    }
}

/// Acquires, or says `None` when the lock stayed busy for as long as the caller waits.
///
/// One absolute deadline covers everything in here.
pub(crate) async fn acquire(engine: &Arc<Engine>, ask: &Ask) -> Result<Option<Hold>> {
    let start = engine.env.now();
    let mut farewell = Farewell { engine, ask, start, armed: true };
    let outcome = enter(engine, ask, start).await;
    if let Ok(Some(_)) = outcome {
        if engine.is_closed() {
            return Err(Engine::closed_error()); // too late: dropping the hold lets go of it
        }
        farewell.armed = false;
        let waited = engine.env.now().since(start);
        engine.observe(ask.kind, &ask.name, Event::Acquired { waited });
    }
    outcome.map_err(|e| e.about(ask.kind, &ask.name))
}

/// Tells observers when a caller leaves without the lock, also when it is dropped.
struct Farewell<'a> {
    engine: &'a Engine,
    ask: &'a Ask,
    start: Moment,
    armed: bool,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if self.armed {
            let waited = self.engine.env.now().since(self.start);
            self.engine.observe(self.ask.kind, &self.ask.name, Event::GaveUp { waited });
        }
    }
}

/// What the lane tells a caller to do.
enum Way {
    /// Ask the store.
    Attempt(Lead),
    /// The owner holds it: go one deeper.
    Reenter(Arc<Tenure>),
    /// Wait in the queue.
    Queue(Place),
    /// A step of this process is on its way to the store; look again when it has arrived.
    Settle,
}

/// The body of [`acquire`]. A hundred thousand callers may wait in here at once, so what it keeps while it waits is small,
/// and whatever is large and brief is in a box of its own.
async fn enter(engine: &Arc<Engine>, ask: &Ask, start: Moment) -> Result<Option<Hold>> {
    let deadline = match ask.wait {
        Wait::Once => start,
        Wait::For(wait) => start.after(wait),
        Wait::Forever => Moment::NEVER,
    };
    // Even one attempt may have to reconnect, or to ask again after a lost reply.
    let patience = deadline.max(start.after(config::COMMAND_TIMEOUT));
    let lane = engine.lanes.get(&ask.name);
    loop {
        let turn = match engine.askers.try_acquire() {
            Ok(turn) => turn,
            Err(_) => Box::pin(crowded(engine, patience)).await?,
        };
        let place = match way(engine, &lane, ask)? {
            Way::Settle => {
                drop(turn);
                Box::pin(settle(engine, &lane, patience)).await?;
                continue;
            }
            Way::Reenter(tenure) => {
                let work = reenter(engine.clone(), tenure, ask.clone(), patience);
                match Detached::new(&engine.env, work).await? {
                    Some(hold) => return Ok(Some(hold)),
                    None => continue, // the outer hold was lost: begin anew
                }
            }
            Way::Attempt(lead) => {
                let once = matches!(ask.wait, Wait::Once);
                let work = attempt(engine.clone(), lane.clone(), ask.clone(), lead, patience);
                match Detached::new(&engine.env, work).await {
                    Tried::Won(hold) => return Ok(Some(hold)),
                    Tried::Failed(e, _) if once || !e.is_retryable() => return Err(e),
                    Tried::Busy(_) if once => return Ok(None),
                    mut tried => Place::take(&mut lane.state(), ask, start, tried.take_doubt()),
                }
            }
            Way::Queue(place) => place,
        };
        drop(turn);
        if place.drives {
            drive::start(engine, lane.clone(), ask);
        }
        let timeout = (deadline != Moment::NEVER).then(|| engine.env.sleep_until(deadline));
        let queued = Queued { place, timeout, engine, lane: &lane };
        match queued.await {
            Some(Grant::Hold(hold)) => return Ok(Some(hold)),
            Some(Grant::Again) => {}
            Some(Grant::Failed(e)) => return Err(e),
            None => {
                let outage = lane.state().outage.as_ref().map(|(_, e)| e.clone());
                return outage.map_or(Ok(None), Err);
            }
        }
    }
}

/// Waits for a turn to ask.
async fn crowded(engine: &Engine, patience: Moment) -> Result<SemaphorePermit<'_>> {
    let full = || Error::new(ErrorKind::Unavailable, "too many ask for locks at once");
    tokio::select! {
        turn = engine.askers.acquire() => turn.map_err(|_| full()),
        () = engine.env.sleep_until(patience) => Err(full()),
    }
}

/// Waits until a step that is on its way has arrived.
async fn settle(engine: &Engine, lane: &LaneRef, patience: Moment) -> Result<()> {
    tokio::select! {
        () = lane.settled() => Ok(()),
        () = engine.env.sleep_until(patience) => Err(lane_is_stuck()),
    }
}

fn lane_is_stuck() -> Error {
    let text = "an earlier release of this lock is still on its way to the store";
    Error::new(ErrorKind::Unavailable, text)
}

fn way(engine: &Arc<Engine>, lane: &LaneRef, ask: &Ask) -> Result<Way> {
    if engine.is_closed() {
        return Err(Engine::closed_error());
    }
    let now = engine.env.now();
    if let Some(tenure) = lane.tenure()
        && tenure.vitals.state(now) == State::Lost
    {
        tenure.lose(); // noticed here before the watchdog did
    }
    let mut state = lane.state();
    let stepping = state.stepping.is_some();
    if ask.explicit
        && let Some(seat) = state.seat.as_mut()
        && seat.tenure.owner == ask.owner
    {
        if stepping {
            return Ok(Way::Settle);
        }
        // Counted before it is sent: a guard that lets go meanwhile must not free the lock under it.
        seat.depth += 1;
        seat.watched += u32::from(ask.lease.is_none());
        let tenure = seat.tenure.clone();
        state.stepping = Some(Step::Reenter);
        return Ok(Way::Reenter(tenure));
    }
    let idle = !state.attempting && !stepping;
    if let Wait::Once = ask.wait {
        // Own releases first, so that `drop(guard); try_lock()` succeeds.
        if state.stepping == Some(Step::Release) || ask.explicit && !idle {
            return Ok(Way::Settle);
        }
        let leading = idle && (ask.explicit || state.seat.is_none());
        state.attempting |= leading;
        return Ok(Way::Attempt(if leading { Lead::Caller } else { Lead::None }));
    }
    if idle && state.seat.is_none() && state.queue.is_empty() && !state.driving {
        state.attempting = true;
        return Ok(Way::Attempt(Lead::Caller));
    }
    Ok(Way::Queue(Place::take(&mut state, ask, now, false)))
}

/// A place in a lane's queue.
struct Place {
    ticket: u64,
    granted: oneshot::Receiver<Grant>,
    /// Whoever has it starts the driver.
    drives: bool,
}

impl Place {
    fn take(state: &mut LaneState, ask: &Ask, joined: Moment, unsure: bool) -> Place {
        let (ticket, granted, drives) = state.join(ask, joined, unsure);
        Place { ticket, granted, drives }
    }
}

/// Waits for a grant, or until the time is up. Dropped, it gives its place up.
struct Queued<'a> {
    place: Place,
    timeout: Option<BoxFuture<'static, ()>>,
    engine: &'a Arc<Engine>,
    lane: &'a LaneRef,
}

impl Queued<'_> {
    /// False if the place was gone: the grant was on its way.
    fn leave(&self) -> bool {
        let waiter = self.lane.leave(self.place.ticket);
        if let Some(waiter) = &waiter {
            release::give_up(self.engine, self.lane, waiter);
        }
        waiter.is_some()
    }
}

impl Future for Queued<'_> {
    type Output = Option<Grant>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Grant>> {
        if let Poll::Ready(grant) = Pin::new(&mut self.place.granted).poll(cx) {
            return Poll::Ready(grant.ok());
        }
        match self.timeout.as_mut().map(|timeout| timeout.as_mut().poll(cx)) {
            None | Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) if self.leave() => Poll::Ready(None),
            Some(Poll::Ready(())) => Poll::Ready(self.place.granted.try_recv().ok()),
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
