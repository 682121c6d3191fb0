//! THE wait loop: one contender per process and name, for all who wait in a lane.
//!
//! Try, listen (acknowledged), try again, then rest until a call, the time to live or a re-check. While it rests a driver is
//! a small box in its lane, without a task or a timer of its own: a hundred thousand lanes may have one.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::acquire::Ask;
use super::alarm::Bell;
use super::attempt::{Lead, Tried, attempt};
use super::drivers::Turn;
use super::hold::Tenure;
use super::lanes::LaneRef;
use super::retry::Retry;
use super::vitals::State;
use super::wait::Wait;
use super::waiters::{Grant, LaneState, StandBack, Ticket};
use super::watchdog::verify;
use super::{Engine, forget, release};
use crate::env::Moment;
use crate::error::{Error, Result};
use crate::locks::config;
use crate::store::{Claim, Listener};

/// Starts the driver of a lane whose `driving` the caller has set. `tried`: the caller has asked, and it was busy.
pub(super) fn start(engine: &Arc<Engine>, lane: LaneRef, tried: bool) {
    let mut driver = Driver::new(engine.clone(), lane);
    driver.tried = tried;
    driver.launch();
}

/// Does the trying for a lane. One that is dropped before its end, because its runtime shuts down under it, has a
/// successor where no shutdown reaches it.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) engine: Arc<Engine>,
    lane: LaneRef,
    ear: Option<Listener>,
    /// Somebody has just asked for it, and it was busy: the next thing to do is to listen.
    tried: bool,
    /// How often it was busy in a row, for those who poll.
    spins: u32,
    /// Until when a local holder is taken at its word.
    patience: Option<Moment>,
    /// When work of this process that is in the way is adopted.
    adopts: Option<Moment>,
    retry: Retry,
    bell: Option<Bell>,
    /// While it is at work.
    pub(super) turn: Option<Turn>,
    ended: bool,
}

impl Driver {
    fn new(engine: Arc<Engine>, lane: LaneRef) -> Box<Driver> {
        Box::new(Driver {
            engine,
            lane,
            ear: None,
            tried: false,
            spins: 0,
            patience: None,
            adopts: None,
            retry: Retry::default(),
            bell: None,
            turn: None,
            ended: false,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.lane.name
    }

    fn launch(self: Box<Driver>) {
        let engine = self.engine.clone();
        if let Some(driver) = engine.drivers.admit(self) {
            engine.env.spawn(Box::pin(drive(driver)));
        }
    }

    /// Something happened while it rested.
    pub(super) fn wake_up(mut self: Box<Driver>) {
        if let Some(bell) = self.bell.take() {
            self.engine.alarm.cancel(bell);
        }
        self.launch();
    }

    /// What was called out since the last time. If nothing, the next call nudges the lane.
    fn listen_in(&mut self) -> Option<u64> {
        let ear = self.ear.as_mut()?;
        let waker = Waker::from(self.lane.lane());
        match ear.poll_heard(&mut Context::from_waker(&waker)) {
            Poll::Ready(calls) => Some(calls),
            Poll::Pending => None,
        }
    }

    /// Leaves itself in the lane until something happens; comes back at once if something has.
    fn rest(mut self: Box<Driver>, until: Moment) -> Option<Box<Driver>> {
        let lane = self.lane.clone();
        let turn = self.turn.take();
        self.bell = (until != Moment::NEVER).then(|| self.engine.alarm.set(until, &lane));
        let mut state = lane.state();
        if std::mem::take(&mut state.nudged) {
            drop(state);
            if let Some(bell) = self.bell.take() {
                self.engine.alarm.cancel(bell);
            }
            self.turn = turn;
            return Some(self);
        }
        state.rest = Some(self);
        drop(state);
        drop(turn); // lets the next one work, so not under the lock
        None
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.ended {
            let mut state = self.lane.state();
            state.listening = false;
            if let Some(ticket) = state.trying {
                state.tried(ticket, true, true);
            }
            drop(state);
            self.lane.changed.notify_waiters();
            let (engine, lane) = (self.engine.clone(), self.lane.clone());
            let heir = Driver::new(engine, lane);
            if let Some(heir) = self.engine.drivers.admit(heir) {
                self.engine.env.spawn_background(Box::pin(drive(heir)));
            }
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
    /// Ask the store for the first in the queue; under a new id, if the store has nothing under its present one.
    Try(Ask, Ticket, bool),
}

pub(super) async fn drive(mut driver: Box<Driver>) {
    let engine = driver.engine.clone();
    let recheck = config::recheck(engine.tuning.watchdog);
    if std::mem::take(&mut driver.tried) && driver.lane.tenure().is_none() {
        let _ = driver.listen().await; // if it cannot, it finds out again when it must
    }
    loop {
        let now = engine.env.now();
        let next = next_move(&mut driver, now);
        if !matches!(next, Move::Settle) {
            driver.adopts = None;
        }
        let until = match next {
            Move::End => return,
            // Whatever is in the way wakes this driver at its end. It may be work that its caller does not poll any more.
            Move::Settle => match driver.adopts {
                None => *driver.adopts.insert(now.after(config::ADOPT_AFTER)),
                Some(at) if now < at => at,
                Some(_) => {
                    driver.adopts = Some(Moment::NEVER);
                    engine.adopt(driver.name());
                    Moment::NEVER
                }
            },
            Move::StandBack(until) => until,
            Move::Behind(holder) => match driver.patience {
                // Most holders are done before a subscription would be.
                None => *driver.patience.insert(now.after(config::LOCAL_PATIENCE)),
                Some(over) if now < over => over,
                // This one is not: it may have lost the lock without knowing, and its release may be missed.
                Some(_) => {
                    driver.behind(&holder).await;
                    *driver.patience.insert(engine.env.now().after(recheck))
                }
            },
            Move::Try(ask, ticket, anew) => {
                driver.patience = None;
                let ask = if anew { driver.under_new_stay(ask, ticket) } else { ask };
                match driver.attempt(ask, ticket).await {
                    Some(until) => until.min(engine.env.now().after(recheck)),
                    None => continue,
                }
            }
        };
        if let Some(calls) = driver.listen_in() {
            driver.lane.state().turns_taken(calls);
            // Behind a local holder this is an old release of our own, or the lock was taken from the holder.
            let soon = engine.env.now().after(config::LOCAL_PATIENCE);
            driver.patience = driver.patience.map(|patience| patience.min(soon));
            continue;
        }
        match driver.rest(until) {
            Some(awake) => driver = awake,
            None => return,
        }
    }
}

impl Driver {
    /// The same under a new id. Not with the lane locked: a named owner may have an id elsewhere.
    fn under_new_stay(&self, ask: Ask, ticket: Ticket) -> Ask {
        let who = self.engine.new_stay(&self.lane.name, ask.what, ask.owner, ask.explicit);
        if let Some(waiter) = self.lane.state().waiter(ticket) {
            (waiter.owner, waiter.stay) = (who.owner, who.stay);
        }
        Ask { owner: who.owner, stay: who.stay, ..ask }
    }

    /// Asks for the lock. `None`: look again at once; else when to ask next if nothing happens before.
    async fn attempt(&mut self, ask: Ask, ticket: Ticket) -> Option<Moment> {
        let (engine, lane) = (self.engine.clone(), self.lane.clone());
        let (who, what, spin) = (ask.who(), ask.what, ask.spin);
        let (lease, now) = (ask.lease(&engine), engine.env.now());
        let mut tried = attempt(engine.clone(), lane.clone(), ask, Lead::Driver, now, None).await;
        // What was not durable has been taken back, and an earlier doubt with it.
        let failed = matches!(&tried, Tried::Failed(e, _) if !e.is_not_durable());
        let unsure = tried.take_doubt();
        if let Tried::Won(hold) = tried {
            self.retry.reset();
            self.spins = 0;
            grant(&lane, ticket, hold);
            return None;
        }
        let waits = lane.state().tried(ticket, failed, unsure);
        lane.changed.notify_waiters();
        if (failed || unsure) && what.is_held() && !waits {
            forget::disown(&engine, &lane.name, what, who, lease);
        }
        let error = match tried {
            Tried::Won(_) => return None, // granted above
            Tried::Busy(ttl, _) if spin.is_some() || self.ear.is_some() => {
                self.retry.reset();
                self.spins += 1;
                let pause = spin.map(|spin| spin.pause(self.spins, engine.env.random()));
                let ttl = ttl.min(pause.unwrap_or(Duration::MAX));
                return Some(engine.env.now().after(ttl.max(Duration::from_millis(1))));
            }
            // A release between this attempt and the subscription goes unheard: try again at once.
            Tried::Busy(..) => match self.listen().await {
                Ok(()) => return None,
                Err(e) => e,
            },
            Tried::Failed(e, _) => e,
        };
        self.fail(&error);
        Some(self.retry.next(&*engine.env))
    }

    /// Makes sure that a local holder holds, and that nobody else's release goes unheard.
    async fn behind(&mut self, holder: &Arc<Tenure>) {
        if self.ear.is_none()
            && let Err(e) = self.listen().await
            && !e.is_retryable()
        {
            self.fail(&e);
        }
        verify(holder).await;
    }

    /// Listens for the first who waits, unless that one polls.
    async fn listen(&mut self) -> Result<()> {
        let first = self.lane.state().queue.front().map(|w| (w.stay, w.what, w.spin));
        let Some((owner, what, None)) = first else { return Ok(()) };
        let name = self.lane.name.clone();
        let lease = Duration::ZERO;
        let claim = Claim { name, owner, lease, depth: 1, heir_of: None, kind: what, info: None };
        self.ear = Some(self.engine.store.listen(&claim).await?);
        self.lane.state().listening = true;
        Ok(())
    }

    /// The store could not be asked, or says no for good; or replicas do not acknowledge, which would cost everybody here a
    /// time-out, one after the other.
    fn fail(&self, error: &Error) {
        match error.is_passing() {
            true => release::trouble(&self.engine, &self.lane, error),
            false => release::fail_all(&self.engine, &self.lane, error),
        }
    }
}

impl LaneState {
    /// The attempt for this waiter is over; one that failed does not clear up an earlier doubt. False if the waiter has
    /// left meanwhile.
    fn tried(&mut self, ticket: Ticket, failed: bool, unsure: bool) -> bool {
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

fn next_move(driver: &mut Driver, now: Moment) -> Move {
    let mut state = driver.lane.state();
    state.nudged = false; // whatever it was about is looked at now
    if state.queue.is_empty() {
        state.driving = false;
        state.listening = false;
        driver.ended = true;
        return Move::End;
    }
    if !state.is_idle() {
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
    let Some(first) = state.queue.front() else { return Move::Settle };
    let ask = Ask {
        kind: first.kind,
        what: first.what,
        spin: first.spin,
        owner: first.owner,
        stay: first.stay,
        explicit: first.explicit,
        part: true, // of a request that has been told
        lease: first.lease,
        wait: Wait::Forever,
        asker: first.asker.clone(),
    };
    let (ticket, anew) = (first.ticket, first.wants_new_stay());
    state.attempting = true;
    state.trying = Some(ticket);
    state.stand_back = None;
    Move::Try(ask, ticket, anew)
}

/// Gives the hold to the waiter it was acquired for; if that has left, dropping it passes it on to the next.
fn grant(lane: &LaneRef, ticket: Ticket, hold: super::Hold) {
    let mut state = lane.state();
    let waiter = state.leave(ticket);
    let beside = state.same_owner(hold.tenure.owner);
    if hold.tenure.what.opens_for_all() {
        state.open();
    }
    drop(state);
    release::let_in_beside(&hold.tenure.engine, lane, beside);
    match waiter {
        Some(waiter) => drop(waiter.grant.send(Grant::Hold(hold))),
        None => drop(hold),
    }
    // Only now: what becomes of the hold comes before whoever looks next.
    lane.state().trying = None;
    lane.changed.notify_waiters();
}
