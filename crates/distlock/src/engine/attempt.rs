//! Asking the store for the lock: the one step that may win it.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Ask, Wait};
use super::hold::{Hold, Tenure};
use super::lanes::LaneRef;
use super::multi::Part;
use super::retry::Retry;
use super::tell::Stepping;
use super::vitals::{Life, State};
use super::waiters::Step;
use super::{Engine, release};
use crate::config;
use crate::durability::Durability;
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::Event;
use crate::owner::Owner;
use crate::store::{self, Attempt, Claim, What};
use crate::together::join_all;

/// Whether an attempt is the lane's one remote contender, and who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// It goes beside the contender: somebody's single try.
    None,
    Caller,
    Driver,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Tried {
    Won(Hold),
    Busy(Duration, Option<Doubt>),
    Failed(Error, Option<Doubt>),
}

impl Tried {
    /// Takes over the duty to clear up what nobody knows. True if there is something to clear up.
    pub(super) fn take_doubt(&mut self) -> bool {
        match self {
            Tried::Busy(_, doubt) | Tried::Failed(_, doubt) => {
                doubt.take().map(Doubt::settle).is_some()
            }
            Tried::Won(_) => false,
        }
    }
}

/// The store may have given the lock although nobody knows, or keeps a place in its queue. Whoever waits on takes this over
/// and asks again under the same owner, which clears it up; dropped, the store is told to forget it.
#[derive(Debug)]
pub(super) struct Doubt {
    engine: Arc<Engine>,
    lane: LaneRef,
    what: What,
    owner: Owner,
    lease: Duration,
    armed: bool,
}

impl Doubt {
    fn settle(mut self) {
        self.armed = false;
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        if self.armed {
            release::disown(&self.engine, &self.lane.name, self.what, self.owner, self.lease);
        }
    }
}

/// Asks the store for the lock. One attempt in the caller's eyes: after a failure it asks again, but only if the caller
/// has no queue to go to, and only while its patience lasts.
pub(super) async fn attempt(
    engine: Arc<Engine>,
    lane: LaneRef,
    ask: Ask,
    lead: Lead,
    patience: Moment,
) -> Tried {
    let claim = ask.claim(&engine, &lane.name);
    let _attempting = Attempting { lane: &lane, lead };
    let (what, owner, lease) = (claim.what, claim.owner, claim.lease);
    let mut doubt =
        Doubt { engine: engine.clone(), lane: lane.clone(), what, owner, lease, armed: false };
    let mut unsure = false;
    let mut retry = Retry::default();
    loop {
        engine.observe(ask.kind, &lane.name, Event::Attempted);
        let sent = engine.env.now();
        doubt.armed = what.is_held(); // until it is answered
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { token }) => {
                let hold = seat(&engine, &lane, &ask, &claim, sent, lead).with_token(token);
                // A reply that took longer than the lease proves nothing any more.
                if what.is_held() && hold.state() == State::Lost {
                    return match too_late(&engine) {
                        Some(e) => Tried::Failed(e, Some(doubt)),
                        None => Tried::Busy(Duration::ZERO, Some(doubt)),
                    };
                }
                doubt.armed = false;
                return Tried::Won(hold);
            }
            Ok(Attempt::Busy { ttl }) => {
                doubt.armed = what.leaves_traces();
                lane.state().heard(sent);
                return Tried::Busy(ttl, doubt.armed.then_some(doubt));
            }
            // The store answers, so there is no outage to ride out; what it gave is taken back, by now and once.
            Err(e) if e.is_not_durable() => {
                lane.state().heard(sent);
                engine.observe(ask.kind, &lane.name, Event::NotDurable);
                doubt.settle();
                if e.is_in_doubt() {
                    release::take_back(&engine, &lane.name, what, owner, lease).await;
                }
                return Tried::Failed(e, None);
            }
            Err(e) => {
                if e.is_retryable() {
                    release::trouble(&engine, &lane, &e);
                }
                unsure |= e.is_in_doubt();
                doubt.armed = unsure && what.is_held();
                let once = matches!(ask.wait, Wait::Once);
                if !once || !e.is_retryable() || engine.env.now() >= patience {
                    return Tried::Failed(e, doubt.armed.then_some(doubt));
                }
                engine.env.sleep_apart(retry.next(&*engine.env).min(patience)).await;
            }
        }
    }
}

/// Where acquisitions wait for replicas, what is left of a lease may be gone by then: an answer that no further attempt makes
/// better.
fn too_late(engine: &Engine) -> Option<Error> {
    let text = "replicas acknowledged it only when its lease was over";
    let asked = engine.store.durability() != Durability::Primary;
    asked.then(|| Error::new(ErrorKind::NotDurable, text))
}

/// The lane's mark that an attempt is under way, taken off however that ends.
struct Attempting<'a> {
    lane: &'a LaneRef,
    lead: Lead,
}

impl Drop for Attempting<'_> {
    fn drop(&mut self) {
        if self.lead != Lead::None {
            self.lane.state().attempting = false;
            self.lane.changed.notify_waiters();
        }
        if self.lead == Lead::Caller {
            self.lane.nudge();
        }
    }
}

/// Seats an accepted acquisition.
fn seat(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    claim: &Claim,
    sent: Moment,
    lead: Lead,
) -> Hold {
    let (watched, expires) = (ask.lease.is_none(), sent.after(claim.lease));
    let (kind, what, lease) = (ask.kind, ask.what, claim.lease);
    let life = Life::fresh(sent, lease);
    lane.state().heard(sent);
    let home = engine.lanes.to_sit(&lane.name, what, ask.owner);
    let tenure = Tenure::begin(engine, home.clone(), kind, what, ask.owner, lease, life, watched);
    if !what.is_held() {
        return Hold::of_nothing(tenure);
    }
    let mut state = home.state();
    let before = state.seat(&tenure, watched);
    if lead != Lead::Driver {
        state.welcome(ask.owner);
    }
    state.on_the_wire(ask.owner, 1, expires);
    if let What::LeasedPermits { count, .. } = what {
        state.wire_permits = count;
    }
    state.burst = 0;
    state.burst_since = Some(engine.env.now());
    state.next_pass = None;
    drop(state);
    if let Some(before) = before {
        before.lose();
    }
    Hold::new(tenure, watched)
}

/// Goes one level deeper. `None` if the outer hold turned out to be lost.
pub(super) async fn reenter(
    engine: Arc<Engine>,
    tenure: Arc<Tenure>,
    ask: Ask,
    patience: Moment,
) -> Result<Option<Hold>> {
    let watched = ask.lease.is_none();
    // From here on dropping it takes the level back, whatever happens.
    let hold = Hold::new(tenure.clone(), watched);
    let stepping = Stepping::taken(&engine, &tenure.lane);
    let depth = match tenure.lane.state().seat.as_ref() {
        Some(seat) if Arc::ptr_eq(&seat.tenure, &tenure) => seat.depth,
        _ => return Ok(None),
    };
    let mut retry = Retry::default();
    loop {
        // What this level asks for: it may be numbered although the outer one is not.
        let claim = tenure.claim(tenure.at_least(ask.lease(&engine)), depth);
        let claim = Claim { what: ask.what, ..claim };
        engine.observe(ask.kind, &tenure.lane.name, Event::Attempted);
        let sent = engine.env.now();
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { token }) => {
                let (owner, until) = (tenure.owner, sent.after(claim.lease));
                tenure.lane.state().confirm(owner, owner, depth, until);
                if hold.state() == State::Lost {
                    return Ok(None);
                }
                tenure.watch(watched || tenure.is_watched());
                tenure.accept(sent, claim.lease);
                return Ok(Some(hold.with_token(token)));
            }
            Ok(Attempt::Busy { .. }) => {
                tenure.lose();
                return Ok(None);
            }
            Err(e) if e.is_not_durable() => {
                let (owner, until) = (tenure.owner, sent.after(claim.lease));
                tenure.lane.state().confirm(owner, owner, depth, until);
                engine.observe(ask.kind, &tenure.lane.name, Event::NotDurable);
                drop(stepping);
                // If the hold itself was lost meanwhile, whoever has its guard learns of that.
                drop(release::unlock(hold).await);
                return Err(e);
            }
            Err(e) if e.is_retryable() && engine.env.now() < patience => {
                tenure.doubt();
                if e.is_in_doubt() {
                    // It may stand in the store: if the level is taken back now, it is taken back there too.
                    tenure.lane.state().wire = Some((tenure.owner, depth));
                }
                engine.env.sleep_apart(retry.next(&*engine.env).min(patience)).await;
            }
            Err(e) => return Err(e),
        }
    }
}

/// How an attempt for several ended.
pub(super) enum Together {
    Won(Vec<Hold>),
    /// Which one was in the way.
    Busy(usize),
    /// They must be asked for one by one.
    Apart,
}

/// Asks the store for several locks of one engine in one step. As one attempt does, it asks again after a failure, for as
/// long as a command may take.
pub(super) async fn attempt_together(parts: Vec<Part>) -> Result<Together> {
    let Some((engine, ..)) = parts.first() else { return Ok(Together::Apart) };
    let engine = engine.clone();
    let lane =
        |(engine, name, ask): &Part| engine.lanes.to_wait(name, ask.what, ask.owner, ask.explicit);
    let lanes: Vec<LaneRef> = parts.iter().map(lane).collect();
    let mut leads = Vec::with_capacity(parts.len());
    for ((_, _, ask), lane) in parts.iter().zip(&lanes) {
        match lead(lane, ask) {
            Some(lead) => leads.push(Attempting { lane, lead }),
            None => return Ok(Together::Apart), // single tries know what to wait for
        }
    }
    let claims: Vec<Claim> = parts.iter().map(|(_, name, ask)| ask.claim(&engine, name)).collect();
    let mut doubts: Vec<Doubt> = claims
        .iter()
        .zip(&lanes)
        .map(|(claim, lane)| Doubt {
            engine: engine.clone(),
            lane: lane.clone(),
            what: claim.what,
            owner: claim.owner,
            lease: claim.lease,
            armed: false,
        })
        .collect();
    let mut arm = |armed| doubts.iter_mut().for_each(|doubt| doubt.armed = armed);
    let observe = |event| {
        parts.iter().for_each(|(_, name, ask)| engine.observe(ask.kind, name, event));
    };
    let (start, mut unsure, mut retry) = (engine.env.now(), false, Retry::default());
    let patience = start.after(config::COMMAND_TIMEOUT);
    loop {
        if engine.is_closed() {
            return Err(Engine::closed_error());
        }
        observe(Event::Attempted);
        let sent = engine.env.now();
        arm(true); // until it is answered
        match engine.store.acquire_all(&claims).await {
            Ok(store::Together::Acquired(tokens)) => {
                let holds: Vec<Hold> = (0..parts.len())
                    .map(|at| {
                        let (lane, ask) = (&lanes[at], &parts[at].2);
                        seat(&engine, lane, ask, &claims[at], sent, leads[at].lead)
                            .with_token(tokens.get(at).copied().flatten())
                    })
                    .collect();
                arm(false);
                // A reply that took longer than the lease proves nothing any more: dropping them lets go.
                if let Some(late) = holds.iter().position(|hold| hold.state() == State::Lost) {
                    return too_late(&engine).map_or(Ok(Together::Busy(late)), Err);
                }
                if engine.is_closed() {
                    return Err(Engine::closed_error());
                }
                observe(Event::Acquired { waited: engine.env.now().since(start) });
                return Ok(Together::Won(holds));
            }
            Ok(store::Together::Busy { at, .. }) => {
                arm(unsure);
                observe(Event::GaveUp { waited: engine.env.now().since(start) });
                return Ok(Together::Busy(at));
            }
            Ok(store::Together::Apart) => {
                arm(false);
                return Ok(Together::Apart);
            }
            Err(e) if e.is_not_durable() => {
                arm(false);
                observe(Event::NotDurable);
                let back = claims.iter().map(|claim| -> BoxFuture<'_, ()> {
                    let Claim { name, what, owner, lease, .. } = claim;
                    Box::pin(release::take_back(&engine, name, *what, *owner, *lease))
                });
                join_all(back.collect()).await;
                observe(Event::GaveUp { waited: engine.env.now().since(start) });
                return Err(e);
            }
            Err(e) => {
                unsure |= e.is_in_doubt();
                arm(unsure);
                if !e.is_retryable() {
                    return Ok(Together::Apart); // which says whose fault it is
                }
                if engine.env.now() >= patience {
                    observe(Event::GaveUp { waited: engine.env.now().since(start) });
                    return Err(e);
                }
                engine.env.sleep_until(retry.next(&*engine.env).min(patience)).await;
            }
        }
    }
}

/// Whether one lock of several may be asked for now, and as what. As [`way`](super::way::way) has it for single tries, but that
/// whoever must wait for something, or holds it already, is sent there.
fn lead(lane: &LaneRef, ask: &Ask) -> Option<Lead> {
    let mut state = lane.state();
    if !ask.explicit {
        return (state.stepping != Some(Step::Release)).then_some(Lead::None);
    }
    // Steps of an owner that somebody else may use too come one after the other.
    let holds = state.seat.as_ref().is_some_and(|seat| seat.tenure.owner == ask.owner);
    if holds || state.stepping.is_some() || state.attempting {
        return None;
    }
    state.attempting = true;
    Some(Lead::Caller)
}
