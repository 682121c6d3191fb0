//! The one road out. Dropping a guard and unlocking it are the same; unlocking adds a receipt.
//!
//! A lane tells the store one thing at a time: a [`Stepping`] is the right to do so, and whoever has it goes on until the
//! store agrees with the lane. The steps never run in a future that a caller could drop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use super::backoff::Backoff;
use super::detach::{self, Detached};
use super::hold::{Hold, State, Tenure};
use super::waiters::{Grant, LaneRef, LaneState, Step};
use crate::config;
use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::store::{Attempt, Claim, Released, What};

type Receipt = oneshot::Sender<Result<()>>;

/// Lets go of one level and tells nobody.
pub(super) fn let_go(tenure: Arc<Tenure>, watched: bool) {
    let env = tenure.engine.env.clone();
    if let Parting::Tell(stepping) = part(tenure, watched, None) {
        detach::start(&env, tell(stepping));
    }
}

/// Lets go of one level and says how it went.
pub(crate) async fn unlock(hold: Hold) -> Result<()> {
    let (tenure, watched) = hold.disarm();
    let (receipt, received) = oneshot::channel();
    let (kind, name, env) = (tenure.kind, tenure.lane.name.clone(), tenure.engine.env.clone());
    let vitals = tenure.vitals.clone();
    let answer = match part(tenure, watched, Some(receipt)) {
        Parting::Lost => Ok(Err(lost())),
        Parting::Done => received.await,
        Parting::Tell(stepping) => {
            let mut received = received;
            tokio::select! {
                biased;
                answer = &mut received => answer,
                () = Detached::new(&env, tell(stepping)) => received.await,
            }
        }
    };
    let answer = answer.unwrap_or_else(|_| match vitals.state(env.now()) {
        State::Lost => Err(lost()),
        _ => Err(Error::new(ErrorKind::Indeterminate, "the release was interrupted")),
    });
    answer.map_err(|e| e.about(kind, &name))
}

pub(crate) fn lost() -> Error {
    let text = "the lock was lost before it was released: its lease ended, or it was taken away";
    Error::new(ErrorKind::Lost, text)
}

/// What is left to do after a level was let go.
enum Parting {
    /// There was nothing to let go.
    Lost,
    /// Somebody else does the rest, or there is none.
    Done,
    /// The store must be told.
    Tell(Stepping),
}

fn part(tenure: Arc<Tenure>, watched: bool, receipt: Option<Receipt>) -> Parting {
    let engine = &tenure.engine;
    let lane = &tenure.lane;
    let mut state = lane.state();
    let state_before = tenure.vitals.state(engine.env.now());
    let Some(seat) = state.seat.as_mut().filter(|seat| Arc::ptr_eq(&seat.tenure, &tenure)) else {
        return Parting::Lost;
    };
    if seat.depth > 1 && state_before != State::Lost {
        seat.depth -= 1;
        seat.watched -= u32::from(watched);
        tenure.watch(seat.watched > 0);
        state.receipts.extend(receipt);
        return tell_if_idle(engine, lane, state);
    }
    if !tenure.finish() {
        drop(state);
        tenure.lose();
        return Parting::Lost;
    }
    let leaked = seat.leaked;
    let next = if leaked { None } else { pass_on(&mut state, &tenure, state_before) };
    match next {
        Some((grant, hold)) => {
            // The hold has passed: as far as its last holder is concerned, it is released.
            receipt.map(|receipt| receipt.send(Ok(())));
            let emptied = state.queue.is_empty();
            let parting = tell_if_idle(engine, lane, state);
            if emptied {
                lane.nudge.notify_one(); // the driver has nobody left to drive for
            }
            tenure.observe_release();
            // A waiter that has just left returns the hold by dropping it.
            drop(grant.send(Grant::Hold(hold)));
            parting
        }
        None => {
            let gone = state.seat.take();
            if leaked {
                state.wire = None;
            }
            state.receipts.extend(receipt);
            let parting = tell_if_idle(engine, lane, state);
            drop(gone);
            tenure.observe_release();
            parting
        }
    }
}

/// Starts telling the store, unless somebody is at it and will notice.
fn tell_if_idle(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    mut state: std::sync::MutexGuard<'_, LaneState>,
) -> Parting {
    if state.stepping.is_some() {
        return Parting::Done;
    }
    match state.work() {
        Some(work) => {
            state.stepping = Some(work.step());
            drop(state);
            Parting::Tell(Stepping::taken(engine, lane))
        }
        None => {
            let receipts = std::mem::take(&mut state.receipts);
            drop(state);
            answer(receipts, Ok(()));
            lane.announce();
            Parting::Done
        }
    }
}

/// Local hand-off: the next waiter of this process gets the hold without a round trip, for a bounded burst, while the
/// lease has life left. The store learns the new owner in the background.
fn pass_on(
    state: &mut LaneState,
    tenure: &Arc<Tenure>,
    before: State,
) -> Option<(oneshot::Sender<Grant>, Hold)> {
    let engine = &tenure.engine;
    let now = engine.env.now();
    let within_burst = state.burst < config::BURST_COUNT
        && state.burst_since.is_some_and(|since| now.since(since) < config::BURST_TIME);
    let life = tenure.vitals.expires().since(now);
    let may_pass = matches!(tenure.what, What::Exclusive)
        && before == State::Held
        && life >= tenure.lease / 2
        && !engine.is_closed();
    if state.queue.is_empty() || !may_pass {
        return None;
    }
    if !within_burst {
        state.stand_back = Some(Moment::NEVER); // until it is known whether anybody else waits
        return None;
    }
    let next = state.queue.pop_front()?;
    let watched = next.lease.is_none();
    let lease = next.lease.unwrap_or(engine.watchdog_timeout);
    let expires = tenure.vitals.expires().min(now.after(lease));
    let (kind, what) = (tenure.kind, tenure.what);
    let lane = tenure.lane.clone();
    let heir = Tenure::begin(engine, lane, kind, what, next.owner, lease, expires, watched);
    state.seat(&heir, watched);
    state.burst += 1;
    Some((next.grant, Hold::new(heir, watched)))
}

/// Takes a hold away from its guards and tells the store.
pub(super) fn revoke(tenure: &Arc<Tenure>) {
    let mut state = tenure.lane.state();
    if !state.sits(tenure) {
        return;
    }
    tenure.revoke();
    let gone = state.seat.take();
    let parting = tell_if_idle(&tenure.engine, &tenure.lane, state);
    drop(gone);
    if let Parting::Tell(stepping) = parting {
        detach::start(&tenure.engine.env, tell(stepping));
    }
}

/// The store may have given this claim the lock, and nobody here will use it: take it back.
pub(super) fn disown(engine: &Arc<Engine>, lane: &LaneRef, claim: &Claim) {
    let mut state = lane.state();
    let ours = state.stepping.is_none();
    if ours {
        state.stepping = Some(Step::Release);
    }
    drop(state);
    let (engine, lane) = (engine.clone(), lane.clone());
    let (owner, until) = (claim.owner, engine.env.now().after(claim.lease));
    let env = engine.env.clone();
    env.spawn_apart(Box::pin(async move {
        let _stepping = ours.then(|| Stepping::taken(&engine, &lane));
        free(&engine, &lane, owner, until, Vec::new()).await;
    }));
}

/// The right to tell the store about a lane. Dropped, it goes on with what is left to tell, or lets the next one have it.
#[derive(Debug)]
pub(super) struct Stepping {
    engine: Arc<Engine>,
    lane: LaneRef,
}

impl Stepping {
    /// The caller has set `stepping`.
    pub(super) fn taken(engine: &Arc<Engine>, lane: &LaneRef) -> Stepping {
        Stepping { engine: engine.clone(), lane: lane.clone() }
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        match state.work() {
            Some(work) => {
                state.stepping = Some(work.step());
                drop(state);
                let again = Stepping::taken(&self.engine, &self.lane);
                self.engine.env.spawn_apart(Box::pin(tell(again)));
            }
            None => {
                state.stepping = None;
                drop(state);
                self.lane.announce();
            }
        }
    }
}

/// What the store does not know yet.
#[derive(Debug)]
enum Work {
    /// Nobody of this process holds it any more.
    Free { owner: Owner, until: Moment },
    /// A re-entry was undone.
    Shrink { tenure: Arc<Tenure>, depth: u32 },
    /// It passed to another owner of this process.
    Pass { from: Owner, heir: Arc<Tenure>, until: Moment },
}

impl Work {
    fn step(&self) -> Step {
        match self {
            Work::Free { .. } | Work::Shrink { .. } => Step::Release,
            Work::Pass { .. } => Step::Pass,
        }
    }
}

impl LaneState {
    fn on_wire(&self, owner: Owner) -> bool {
        self.wire.is_some_and(|(on_wire, _)| on_wire == owner)
    }

    /// The next thing to tell the store: the difference between the seat and the wire.
    fn work(&self) -> Option<Work> {
        let (owner, depth) = self.wire?;
        let until = self.wire_until.unwrap_or(Moment::NEVER);
        match &self.seat {
            None => Some(Work::Free { owner, until }),
            Some(seat) if seat.tenure.owner != owner => {
                Some(Work::Pass { from: owner, heir: seat.tenure.clone(), until })
            }
            Some(seat) if seat.depth < depth => {
                Some(Work::Shrink { tenure: seat.tenure.clone(), depth: seat.depth })
            }
            Some(_) => None,
        }
    }
}

/// The next thing to tell, and who wants to know how it went.
fn take_work(lane: &LaneRef) -> Option<(Work, Vec<Receipt>)> {
    let mut state = lane.state();
    let work = state.work()?;
    state.stepping = Some(work.step());
    let receipts = match work {
        Work::Pass { .. } => Vec::new(),
        _ => std::mem::take(&mut state.receipts),
    };
    Some((work, receipts))
}

/// Tells the store what it does not know, until there is nothing left to tell.
async fn tell(stepping: Stepping) {
    let (engine, lane) = (&stepping.engine, &stepping.lane);
    while let Some((work, receipts)) = take_work(lane) {
        match work {
            Work::Free { owner, until } => free(engine, lane, owner, until, receipts).await,
            Work::Shrink { tenure, depth } => shrink(engine, &tenure, depth, receipts).await,
            Work::Pass { from, heir, until } => pass(engine, from, &heir, until).await,
        }
    }
}

fn answer(receipts: Vec<Receipt>, how: Result<()>) {
    for receipt in receipts {
        drop(receipt.send(how.clone()));
    }
}

/// The claim that gives up everything `owner` holds.
pub(super) fn last_step(name: &Arc<str>, owner: Owner) -> Claim {
    let (name, lease) = (name.clone(), Duration::ZERO);
    Claim { name, owner, lease, depth: 0, heir_of: None, what: What::Exclusive }
}

/// Frees the lock. Asks again until the store answers or the lease is over, when there is nothing left to free.
async fn free(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    owner: Owner,
    until: Moment,
    mut receipts: Vec<Receipt>,
) {
    let claim = last_step(&lane.name, owner);
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut backoff = Backoff::default();
    let mut unsure = false;
    let answered = loop {
        match engine.store.release(&claim).await {
            Err(e) if e.is_retryable() => {
                unsure |= e.kind() == ErrorKind::Indeterminate;
                let now = engine.env.now();
                if now >= until {
                    break Err(e);
                }
                if now >= patience {
                    // The caller has waited long enough; this goes on without it.
                    answer(std::mem::take(&mut receipts), Err(e));
                }
                engine.env.sleep_until(backoff.next(&*engine.env)).await;
            }
            answered => break answered,
        }
    };
    let mut state = lane.state();
    if state.on_wire(owner) {
        state.wire = None;
    }
    if state.stand_back.take().is_some()
        && let Ok(Released::Freed { heard_by }) = answered
        && heard_by > u32::from(state.listening)
    {
        state.stand_back = Some(engine.env.now().after(config::STAND_BACK));
    }
    drop(state);
    answer(
        receipts,
        match answered {
            // Told twice: the first time may have been the one that freed it.
            Ok(Released::NotHeld) if !unsure => Err(lost()),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        },
    );
}

/// Takes one level of a re-entered hold back.
async fn shrink(engine: &Arc<Engine>, tenure: &Arc<Tenure>, depth: u32, receipts: Vec<Receipt>) {
    let claim = tenure.claim(Duration::ZERO, depth);
    let mut backoff = Backoff::default();
    loop {
        match engine.store.release(&claim).await {
            Ok(Released::NotHeld) => {
                tenure.lose();
                return answer(receipts, Err(lost()));
            }
            Err(e) if e.is_retryable() && engine.env.now() < tenure.vitals.deadline() => {
                tenure.doubt();
                engine.env.sleep_until(backoff.next(&*engine.env)).await;
            }
            told => {
                // The count on the wire is for others to read; the truth about levels is the seat's.
                let mut state = tenure.lane.state();
                if state.on_wire(tenure.owner) {
                    state.wire = Some((tenure.owner, depth));
                }
                drop(state);
                return answer(receipts, told.map(drop));
            }
        }
    }
}

/// Tells the store that the lock passed from one owner of this process to another.
///
/// Until the answer is known the heir may have let go and the lock may have passed again; that is told next.
async fn pass(engine: &Arc<Engine>, from: Owner, heir: &Arc<Tenure>, until: Moment) {
    let mut backoff = Backoff::default();
    loop {
        let claim = Claim { heir_of: Some(from), ..heir.claim(heir.lease, 1) };
        let sent = engine.env.now();
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { .. }) => {
                let mut state = heir.lane.state();
                if state.on_wire(from) {
                    state.wire = Some((heir.owner, 1));
                    state.wire_until = Some(sent.after(claim.lease));
                }
                drop(state);
                return heir.accept(sent, claim.lease);
            }
            Err(e) if e.is_retryable() && engine.env.now() < until => {
                heir.doubt();
                engine.env.sleep_until(backoff.next(&*engine.env)).await;
            }
            _ => {
                // The store does not have it for this process any more: whoever sits there has lost it.
                let mut state = heir.lane.state();
                let lost = state.on_wire(from).then(|| state.wire = None);
                let seated = lost.and(state.seat.as_ref().map(|seat| seat.tenure.clone()));
                drop(state);
                if let Some(tenure) = seated {
                    tenure.lose();
                }
                return;
            }
        }
    }
}
