//! THE wait loop: one contender per process and name, for all who wait in a lane.
//!
//! Try, listen (acknowledged), try again, wait for a call, the time to live or a re-check.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::acquire::{Ask, Wait};
use super::attempt::{Lead, Tried, attempt};
use super::backoff::Backoff;
use super::hold::{State, Tenure};
use super::waiters::{Grant, LaneRef, LaneState, StandBack};
use super::watchdog::verify;
use super::{Engine, release};
use crate::config;
use crate::env::Moment;
use crate::error::{Error, Result};
use crate::store::{Claim, Kind, Listener, What};

/// Starts the driver of a lane whose `driving` the caller has set.
pub(super) fn start(engine: &Arc<Engine>, lane: LaneRef, ask: &Ask) {
    let driver = Driver::new(engine.clone(), lane, ask.kind, ask.what);
    engine.env.spawn(Box::pin(drive(driver)));
}

/// A running driver. If its runtime shuts down under it, another one takes over where no shutdown reaches it.
struct Driver {
    engine: Arc<Engine>,
    lane: LaneRef,
    kind: Kind,
    what: What,
    ended: AtomicBool,
}

impl Driver {
    fn new(engine: Arc<Engine>, lane: LaneRef, kind: Kind, what: What) -> Driver {
        Driver { engine, lane, kind, what, ended: AtomicBool::new(false) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            let mut state = self.lane.state();
            state.listening = false;
            if let Some(ticket) = state.trying {
                state.tried(ticket, true, true);
            }
            drop(state);
            let driver = Driver::new(self.engine.clone(), self.lane.clone(), self.kind, self.what);
            self.engine.env.spawn_apart(Box::pin(drive(driver)));
        }
    }
}

/// What the driver does next.
enum Move {
    /// Nobody waits.
    End,
    /// A step or an attempt of this process is on its way to the store.
    Settle,
    /// This process has had its share: others first.
    StandBack(Moment),
    /// Somebody of this process is in; the hold will pass from it.
    Behind(Arc<Tenure>),
    /// Ask the store for the first in the queue.
    Try(Box<Ask>, u64),
}

async fn drive(driver: Driver) {
    let (engine, lane) = (&driver.engine, &driver.lane);
    let recheck = config::recheck(engine.watchdog_timeout);
    let mut ear: Option<Listener> = None;
    let mut backoff = Backoff::default();
    let mut patience: Option<Moment> = None;
    loop {
        let now = engine.env.now();
        let wait_until = match next_move(&driver, now) {
            Move::End => return,
            Move::Settle => {
                lane.nudge.notified().await;
                continue;
            }
            Move::StandBack(until) => until,
            // Most holders are done before a subscription would be.
            Move::Behind(_) if patience.is_none() => {
                *patience.insert(now.after(config::LOCAL_PATIENCE))
            }
            // This one is not: it may have lost the lock without knowing, and its release may be missed.
            Move::Behind(holder) if patience.is_some_and(|over| now >= over) => {
                if ear.is_none() {
                    match Box::pin(listen(&driver)).await {
                        Ok(listener) => ear = Some(listener),
                        Err(e) if !e.is_retryable() => release::fail_all(engine, lane, &e),
                        Err(_) => {} // the holder may well pass the lock on; another time
                    }
                }
                Box::pin(verify(&holder)).await;
                *patience.insert(engine.env.now().after(recheck))
            }
            Move::Behind(_) => patience.unwrap_or(now),
            Move::Try(ask, ticket) => {
                patience = None;
                // In a box of its own: it is large and brief, and the driver waits for long.
                let (owner, lease) = (ask.owner, ask.lease(engine));
                let attempt = attempt(engine.clone(), lane.clone(), *ask, Lead::Driver, now);
                let mut tried = Box::pin(attempt).await;
                let failed = matches!(tried, Tried::Failed(..));
                let waits = lane.state().tried(ticket, failed, tried.take_doubt());
                if failed && !waits {
                    release::disown(engine, lane, owner, lease);
                }
                match tried {
                    Tried::Won(hold) => {
                        backoff.reset();
                        grant(lane, ticket, hold);
                        continue;
                    }
                    Tried::Busy(ttl) if ear.is_some() => {
                        backoff.reset();
                        let ttl = ttl.max(Duration::from_millis(1));
                        engine.env.now().after(ttl.min(recheck))
                    }
                    // A release between this attempt and the subscription goes unheard: try again at once.
                    Tried::Busy(_) => match Box::pin(listen(&driver)).await {
                        Ok(listener) => {
                            ear = Some(listener);
                            continue;
                        }
                        Err(e) => fail(&driver, &e, &mut backoff),
                    },
                    Tried::Failed(e, _) => fail(&driver, &e, &mut backoff),
                }
            }
        };
        tokio::select! {
            () = lane.nudge.notified() => {}
            calls = heard(&mut ear) => {
                lane.state().turns_taken(calls);
                // Behind a local holder this is an old release of our own, or the lock was taken from the holder.
                let soon = engine.env.now().after(config::LOCAL_PATIENCE);
                patience = patience.map(|patience| patience.min(soon));
            }
            () = engine.env.sleep_until(wait_until) => {}
        }
    }
}

impl LaneState {
    /// The attempt for this waiter is over; one that failed does not clear up an earlier doubt. False if the waiter has
    /// left meanwhile.
    fn tried(&mut self, ticket: u64, failed: bool, unsure: bool) -> bool {
        self.trying = None;
        let waiter = self.waiter(ticket);
        waiter.map(|waiter| waiter.unsure = unsure || failed && waiter.unsure).is_some()
    }

    /// Others have released this often: after enough of that, this process may ask again.
    fn turns_taken(&mut self, calls: u64) {
        if let Some(stand_back) = &mut self.stand_back {
            stand_back.turns = stand_back.turns.saturating_sub(calls);
        }
    }
}

fn next_move(driver: &Driver, now: Moment) -> Move {
    let mut state = driver.lane.state();
    let Some(first) = state.queue.front() else {
        state.driving = false;
        state.listening = false;
        driver.ended.store(true, Ordering::Relaxed);
        return Move::End;
    };
    if state.stepping.is_some() || state.attempting {
        return Move::Settle;
    }
    if let Some(seat) = &state.seat
        && seat.tenure.vitals.state(now) != State::Lost
    {
        return Move::Behind(seat.tenure.clone());
    }
    if let Some(StandBack { turns, until }) = state.stand_back
        && turns > 0
        && until > now
    {
        return Move::StandBack(until);
    }
    let ask = Box::new(Ask {
        name: driver.lane.name.clone(),
        kind: driver.kind,
        what: driver.what,
        owner: first.owner,
        explicit: first.explicit,
        lease: first.lease,
        wait: Wait::Forever,
    });
    let ticket = first.ticket;
    state.attempting = true;
    state.trying = Some(ticket);
    state.stand_back = None;
    Move::Try(ask, ticket)
}

/// Gives the hold to the waiter it was acquired for; if that has left, dropping it passes it on to the next.
fn grant(lane: &LaneRef, ticket: u64, hold: super::Hold) {
    let mut state = lane.state();
    let waiter = state.leave(ticket);
    state.welcome(hold.tenure.owner);
    drop(state);
    if let Some(waiter) = waiter {
        drop(waiter.grant.send(Grant::Hold(hold)));
    }
}

async fn heard(ear: &mut Option<Listener>) -> u64 {
    match ear {
        Some(listener) => listener.heard().await,
        None => std::future::pending().await,
    }
}

async fn listen(driver: &Driver) -> Result<Listener> {
    let claim = Claim {
        name: driver.lane.name.clone(),
        owner: driver.engine.mint_owner(),
        lease: Duration::ZERO,
        depth: 1,
        heir_of: None,
        what: driver.what,
    };
    let listener = driver.engine.store.listen(&claim).await?;
    driver.lane.state().listening = true;
    Ok(listener)
}

/// The store could not be asked, or says no for good. Returns when to try again.
fn fail(driver: &Driver, error: &Error, backoff: &mut Backoff) -> Moment {
    let (engine, lane) = (&driver.engine, &driver.lane);
    match error.is_retryable() {
        true => release::trouble(engine, lane, error),
        false => release::fail_all(engine, lane, error),
    }
    backoff.next(&*engine.env)
}
