//! Asking the store for several locks in one step.

use std::time::Duration;

use super::acquire::Ask;
use super::attempt::{Attempting, Doubt, Lead, seat, too_late};
use super::detach::Adoptable;
use super::hold::Hold;
use super::lanes::LaneRef;
use super::multi::Part;
use super::retry::Retry;
use super::vitals::State;
use super::{Engine, forget};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::locks::config;
use crate::observe::Event;
use crate::runtime::join::join_all;
use crate::store::{self, Claim, Grant};

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
pub(super) async fn attempt_together(
    mut parts: Vec<Part>,
    adoptable: Adoptable,
) -> Result<Together> {
    let Some((engine, ..)) = parts.first() else { return Ok(Together::Apart) };
    let engine = engine.clone();
    let lane =
        |(engine, name, ask): &Part| engine.lanes.to_wait(name, ask.what, ask.owner, ask.explicit);
    let lanes: Vec<LaneRef> = parts.iter().map(lane).collect();
    let mut leads = Vec::with_capacity(parts.len());
    for ((_, _, ask), lane) in parts.iter().zip(&lanes) {
        match lead(lane, ask) {
            Some(lead) => leads.push(Attempting::begin(lane, lead, Some(adoptable.clone()))),
            None => return Ok(Together::Apart), // single tries know what to wait for
        }
    }
    for (engine, name, ask) in parts.iter_mut().filter(|(_, _, ask)| ask.explicit) {
        ask.stay = engine.stay_of(name, ask.what, ask.owner);
    }
    let claims: Vec<Claim> = parts.iter().map(|(_, name, ask)| ask.claim(&engine, name)).collect();
    let doubt = |((_, _, ask), lane): (&Part, &LaneRef)| Doubt {
        engine: engine.clone(),
        lane: lane.clone(),
        what: ask.what,
        who: ask.who(),
        lease: ask.lease(&engine),
        armed: false,
    };
    let mut doubts: Vec<Doubt> = parts.iter().zip(&lanes).map(doubt).collect();
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
            Ok(store::AttemptAll::Acquired(grants)) => {
                let holds: Vec<Hold> = (0..parts.len())
                    .map(|at| {
                        let (lane, ask) = (&lanes[at], &parts[at].2);
                        let grant = grants.get(at).copied().unwrap_or(Grant::new(Duration::ZERO));
                        seat(&engine, lane, ask, &claims[at], sent, grant.lease, leads[at].lead)
                            .with_token(grant.token)
                    })
                    .collect();
                // A reply that took longer than the lease proves nothing any more: the store is told to forget them.
                if let Some(late) = holds.iter().position(|hold| hold.state() == State::Lost) {
                    return too_late(&engine).map_or(Ok(Together::Busy(late)), Err);
                }
                arm(false);
                if engine.is_closed() {
                    return Err(Engine::closed_error());
                }
                observe(Event::Acquired { waited: engine.env.now().since(start) });
                return Ok(Together::Won(holds));
            }
            Ok(store::AttemptAll::Busy { at, .. }) => {
                arm(unsure);
                observe(Event::GaveUp { waited: engine.env.now().since(start) });
                return Ok(Together::Busy(at));
            }
            Ok(store::AttemptAll::NotAtomic) => {
                arm(false);
                return Ok(Together::Apart);
            }
            Err(e) if e.is_not_durable() => {
                arm(false);
                observe(Event::NotDurable);
                let back = parts.iter().map(|(engine, name, ask)| -> BoxFuture<'_, ()> {
                    let (what, who, lease) = (ask.what, ask.who(), ask.lease(engine));
                    Box::pin(forget::take_back(engine, name, what, who, lease))
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
                engine.env.sleep_in_background(retry.next(&*engine.env).min(patience)).await;
            }
        }
    }
}

/// Whether one lock of several may be asked for now, and as what. As [`way`](super::way::way) has it for single tries, but that
/// whoever must wait for something, or holds it already, is sent there.
fn lead(lane: &LaneRef, ask: &Ask) -> Option<Lead> {
    let mut state = lane.state();
    if !ask.explicit {
        let free = !state.is_letting_go() && !state.tries_for_nobody();
        return free.then_some(Lead::None);
    }
    // Steps of an owner that somebody else may use too come one after the other.
    if state.has_seated(ask.owner) || !state.is_idle() {
        return None;
    }
    state.attempting = true;
    Some(Lead::Caller)
}
