//! The road in.
//!
//! Uncontended, an acquisition is one attempt, made by the caller: one round trip. If the lock is busy the caller
//! queues in its lane and the lane's [driver](super::drive) tries for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::attempt::{Lead, Tried, attempt, reenter};
use super::detach::Detached;
use super::hold::{Hold, State, Tenure};
use super::waiters::{Grant, LaneRef, Step};
use super::{Engine, drive, release};
use crate::config;
use crate::env::Moment;
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
pub(crate) async fn acquire(engine: &Arc<Engine>, ask: Ask) -> Result<Option<Hold>> {
    let start = engine.env.now();
    let deadline = match ask.wait {
        Wait::Once => start,
        Wait::For(wait) => start.after(wait),
        Wait::Forever => Moment::NEVER,
    };
    let mut farewell = Farewell { engine, ask: &ask, start, armed: true };
    let lane = engine.lanes.get(&ask.name);
    let outcome = enter(engine, &lane, &ask, start, deadline).await;
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
    Queue(u64, oneshot::Receiver<Grant>, bool),
    /// A step of this process is on its way to the store; look again when it has arrived.
    Settle,
}

async fn enter(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    start: Moment,
    deadline: Moment,
) -> Result<Option<Hold>> {
    // Even one attempt may have to reconnect, or to ask again after a lost reply.
    let patience = deadline.max(start.after(config::COMMAND_TIMEOUT));
    loop {
        let changed = lane.changed.notified();
        match way(engine, lane, ask)? {
            Way::Settle => {
                let timeout = engine.env.sleep_until(patience);
                tokio::select! {
                    () = changed => {}
                    () = timeout => return Err(lane_is_stuck()),
                }
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
                    Tried::Failed(e) if once || !e.is_retryable() => return Err(e),
                    Tried::Busy(_) if once => return Ok(None),
                    tried => {
                        let unsure = tried.is_unsure();
                        let (ticket, granted, drive) = lane.state().join(ask, start, unsure);
                        let out = queue(engine, lane, ask, deadline, ticket, granted, drive).await;
                        if let Some(answer) = out {
                            return answer;
                        }
                    }
                }
            }
            Way::Queue(ticket, granted, drive) => {
                let out = queue(engine, lane, ask, deadline, ticket, granted, drive).await;
                if let Some(answer) = out {
                    return answer;
                }
            }
        }
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
    let (ticket, granted, drive) = state.join(ask, now, false);
    Ok(Way::Queue(ticket, granted, drive))
}

/// Waits for a grant until the deadline. `None`: look at the lane again.
async fn queue(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    deadline: Moment,
    ticket: u64,
    mut granted: oneshot::Receiver<Grant>,
    drive: bool,
) -> Option<Result<Option<Hold>>> {
    let mut place = Place { engine, lane, ask, ticket, left: false };
    if drive {
        drive::start(engine, lane.clone(), ask);
    }
    let grant = if deadline == Moment::NEVER {
        (&mut granted).await.ok()
    } else {
        let timeout = engine.env.sleep_until(deadline);
        tokio::select! {
            biased;
            grant = &mut granted => grant.ok(),
            () = timeout => None,
        }
    };
    let grant = match grant {
        Some(grant) => Some(grant),
        None if place.leave() => None,
        // Out of the queue already: the grant was on its way when the time was up.
        None => granted.try_recv().ok(),
    };
    place.left = true;
    match grant {
        Some(Grant::Hold(hold)) => Some(Ok(Some(hold))),
        Some(Grant::Again) => None,
        Some(Grant::Failed(e)) => Some(Err(e)),
        None => {
            let outage = lane.state().outage.as_ref().map(|(_, e)| e.clone());
            Some(outage.map_or(Ok(None), Err))
        }
    }
}

/// A waiter's place in the queue, given up when its caller leaves.
struct Place<'a> {
    engine: &'a Arc<Engine>,
    lane: &'a LaneRef,
    ask: &'a Ask,
    ticket: u64,
    left: bool,
}

impl Place<'_> {
    fn leave(&mut self) -> bool {
        self.left = true;
        let waiter = self.lane.leave(self.ticket);
        if waiter.as_ref().is_some_and(|waiter| waiter.unsure) {
            let lease = self.ask.lease(self.engine);
            release::disown(self.engine, self.lane, self.ask.owner, lease);
        }
        waiter.is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.leave();
        }
    }
}
