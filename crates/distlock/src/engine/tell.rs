//! Telling the store what became of a hold: freed, passed on, one level less.
//!
//! A lane tells one thing at a time. A [`Stepping`] is the right to do so, and whoever has it goes on until the store agrees
//! with the lane. Every step is idempotent, so one without an answer is told again.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::hold::Tenure;
use super::lanes::LaneRef;
use super::receipts::Receipts;
use super::release::{lost, trouble};
use super::retry::Retry;
use super::waiters::{LaneState, StandBack, Step};
use crate::env::Moment;
use crate::error::{Error, Result};
use crate::locks::config;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Released, Store};

/// The right to tell the store about a lane. Dropped, it goes on with what is left to tell, or lets the next one have it.
#[derive(Debug)]
pub(super) struct Stepping {
    engine: Arc<Engine>,
    lane: LaneRef,
    /// It is a release, and counted in another lane.
    counted: bool,
}

impl Stepping {
    /// The caller has set `stepping`.
    pub(super) fn taken(engine: &Arc<Engine>, lane: &LaneRef) -> Stepping {
        let (engine, lane) = (engine.clone(), lane.clone());
        let counted = lane.is_counted_elsewhere() && lane.state().stepping == Some(Step::Release);
        if counted {
            lane.count().state().releasing += 1;
        }
        Stepping { engine, lane, counted }
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        let counted = u32::from(self.counted) + u32::from(std::mem::take(&mut state.parting));
        match state.work() {
            Some(work) => {
                state.stepping = Some(work.step());
                state.step_work = None;
                drop(state);
                let again = Stepping::taken(&self.engine, &self.lane);
                self.engine.env.spawn_background(Box::pin(tell(again)));
            }
            None => {
                state.stepping = None;
                state.step_work = None;
                if state.left.take().is_some() {
                    state.wire = None;
                }
                // The store is as they want it: nobody tells them anything else any more.
                let receipts = std::mem::take(&mut state.receipts);
                drop(state);
                receipts.answer(&Ok(()));
                self.lane.announce();
            }
        }
        // Last: a release that follows is counted by now.
        if counted > 0 {
            self.lane.count().state().releasing -= counted;
            self.lane.count().announce(); // and whoever waits there need not hear of it from the store
        }
    }
}

/// What the store does not know yet.
#[derive(Debug)]
pub(super) enum Work {
    /// Nobody of this process holds it any more.
    Free { stay: Owner, until: Moment, permits: u32 },
    /// A re-entry was undone.
    Shrink { tenure: Arc<Tenure>, depth: u32 },
    /// It passed to another owner of this process.
    Pass { from: Owner, heir: Arc<Tenure>, until: Moment },
}

impl Work {
    pub(super) fn step(&self) -> Step {
        match self {
            Work::Free { .. } | Work::Shrink { .. } => Step::Release,
            Work::Pass { .. } => Step::Pass,
        }
    }
}

impl LaneState {
    /// The next thing to tell the store: the difference between the seat and the wire.
    pub(super) fn work(&self) -> Option<Work> {
        let (stay, depth) = self.wire?;
        let until = self.wire_until.unwrap_or(Moment::NEVER);
        if let (None, Some(left)) = (&self.seat, &self.left) {
            let pass = || Work::Pass { from: stay, heir: left.clone(), until };
            return (left.stay != stay).then(pass);
        }
        match &self.seat {
            None => {
                let permits = self.wire_permits;
                Some(Work::Free { stay, until, permits })
            }
            Some(seat) if seat.tenure.stay != stay => {
                Some(Work::Pass { from: stay, heir: seat.tenure.clone(), until })
            }
            Some(seat) if seat.depth < depth => {
                Some(Work::Shrink { tenure: seat.tenure.clone(), depth: seat.depth })
            }
            Some(_) => None,
        }
    }
}

/// The next thing to tell, and who wants to know how it went.
fn take_work(lane: &LaneRef) -> Option<(Work, Receipts)> {
    let mut state = lane.state();
    let work = state.work()?;
    state.stepping = Some(work.step());
    let receipts = match work {
        Work::Pass { .. } => Receipts::default(),
        _ => std::mem::take(&mut state.receipts),
    };
    Some((work, receipts))
}

/// Tells the store what it does not know, until there is nothing left to tell.
pub(super) async fn tell(stepping: Stepping) {
    let (engine, lane) = (&stepping.engine, &stepping.lane);
    while let Some((work, receipts)) = take_work(lane) {
        match work {
            Work::Free { stay, until, permits } => {
                let claim = last_step(engine, &lane.name, lane.what(permits), stay);
                free(engine, lane, Leave::Release(claim), until, receipts).await;
            }
            Work::Shrink { tenure, depth } => shrink(engine, &tenure, depth, receipts).await,
            Work::Pass { from, heir, until } => {
                if !paced(engine, lane).await {
                    pass(engine, from, &heir, until).await;
                }
            }
        }
    }
}

/// The claim that gives up everything this stay has.
pub(super) fn last_step(engine: &Engine, name: &Arc<str>, what: ClaimKind, stay: Owner) -> Claim {
    let (name, lease, info) = (name.clone(), Duration::ZERO, engine.leaving.clone());
    Claim { name, owner: stay, lease, depth: 0, heir_of: None, kind: what, info }
}

/// How an owner leaves.
pub(super) enum Leave {
    /// It lets go of what it holds.
    Release(Claim),
    /// It wants nothing any more, whatever the store has of it.
    Forget(Claim),
}

impl Leave {
    fn claim(&self) -> &Claim {
        match self {
            Leave::Release(claim) | Leave::Forget(claim) => claim,
        }
    }

    async fn tell(&self, store: &dyn Store) -> Result<Released> {
        match self {
            Leave::Release(claim) => store.release(claim).await,
            Leave::Forget(claim) => {
                store.give_up(claim).await.map(|()| Released::Freed { heard_by: 0 })
            }
        }
    }
}

/// Frees the lock. Asks again until the store answers or the lease is over, when there is nothing left to free.
pub(super) async fn free(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    leave: Leave,
    until: Moment,
    mut receipts: Receipts,
) {
    let stay = leave.claim().owner;
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut retry = Retry::default();
    let mut unsure = false;
    let mut sent;
    let answered = loop {
        sent = engine.env.now();
        match leave.tell(&*engine.store).await {
            Err(e) if e.is_retryable() => {
                unsure |= e.is_in_doubt();
                let now = engine.env.now();
                trouble(engine, lane, &e);
                if now >= until {
                    break Err(e);
                }
                if now >= patience {
                    // The caller has waited long enough; this goes on without it.
                    std::mem::take(&mut receipts).answer(&Err(e));
                }
                engine.env.sleep_in_background(retry.next(&*engine.env)).await;
            }
            answered => break answered,
        }
    };
    let mut state = lane.state();
    // Not if it forgets: a majority takes note of that whether its stores can be asked or not.
    if answered.is_ok() && matches!(leave, Leave::Release(_)) {
        state.heard(sent);
    }
    if state.is_on_wire(stay) {
        state.wire = None;
    }
    if std::mem::take(&mut state.spent)
        && let Ok(Released::Freed { heard_by }) = answered
    {
        let own = u32::from(state.listening);
        let others = heard_by.saturating_sub(own);
        let patience = (config::BURST_TIME + config::TURN_SLACK) * others;
        state.stand_back = (others > 0).then(|| StandBack {
            turns: u64::from(others + own),
            until: engine.env.now().after(patience),
        });
    }
    drop(state);
    let how = match answered {
        // Told twice: the first time may have been the one that freed it.
        Ok(Released::NotHeld) if !unsure => Err(lost()),
        Ok(_) => Ok(()),
        Err(e) => Err(e),
    };
    receipts.answer(&how);
}

/// Takes one level of a re-entered hold back.
async fn shrink(engine: &Arc<Engine>, tenure: &Arc<Tenure>, depth: u32, mut receipts: Receipts) {
    let claim = tenure.claim(Duration::ZERO, depth);
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut retry = Retry::default();
    loop {
        let sent = engine.env.now();
        match engine.store.release(&claim).await {
            Ok(Released::NotHeld) => {
                tenure.lose();
                return receipts.answer(&Err(lost()));
            }
            Err(e) if e.is_retryable() && engine.env.now() < tenure.vitals.deadline() => {
                tenure.doubt();
                tenure.lane.state().unanswered(engine.env.now(), &e);
                if engine.env.now() >= patience {
                    std::mem::take(&mut receipts).answer(&Err(e)); // this goes on without the caller
                }
                engine.env.sleep_in_background(retry.next(&*engine.env)).await;
            }
            told => {
                // The count on the wire is for others to read; the truth about levels is the seat's.
                tenure.reassure();
                let mut state = tenure.lane.state();
                if told.is_ok() {
                    state.heard(sent);
                }
                state.may_be_deeper(tenure.stay, depth);
                drop(state);
                return receipts.answer(&told.map(drop));
            }
        }
    }
}

/// Waits if the store was told of a hand-off a moment ago. True if it did: there may be a later one to tell of by now.
async fn paced(engine: &Arc<Engine>, lane: &LaneRef) -> bool {
    let now = engine.env.now();
    let changed = lane.changed.notified();
    let next = lane.state().next_pass.filter(|next| *next > now);
    match next {
        Some(next) => {
            tokio::select! {
                () = engine.env.sleep_in_background(next) => {}
                () = changed => {}
            }
            true
        }
        None => {
            lane.state().next_pass = Some(now.after(config::PASS_PACE));
            false
        }
    }
}

/// Tells the store that the lock passed from one owner of this process to another.
///
/// Until the answer is known the heir may have let go and the lock may have passed again; that is told next.
async fn pass(engine: &Arc<Engine>, from: Owner, heir: &Arc<Tenure>, until: Moment) {
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut retry = Retry::default();
    let mut unsure = false;
    loop {
        let claim = Claim { heir_of: Some(from), ..heir.claim(heir.lease, 1) };
        let sent = engine.env.now();
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { lease, .. }) => {
                heir.lane.state().heard(sent);
                heir.confirm(from, 1, sent, lease);
                return;
            }
            Err(e) if e.is_retryable() && engine.env.now() < until => {
                unsure |= e.is_in_doubt();
                heir.doubt();
                unheard(engine, &heir.lane, e, patience);
                engine.env.sleep_in_background(retry.next(&*engine.env)).await;
            }
            failed => {
                unsure |= matches!(&failed, Err(e) if e.is_in_doubt());
                dispossess(&heir.lane, from);
                if unsure {
                    let claim = last_step(engine, heir.name(), heir.what, heir.stay);
                    let until = sent.after(heir.lease);
                    let forget = Leave::Forget(claim);
                    free(engine, &heir.lane, forget, until, Receipts::default()).await;
                }
                return;
            }
        }
    }
}

/// The store does not give what `from` had to anybody of this process any more: whoever sits there has lost it. What the store may
/// still have of `from` is freed next, and its answer is what an heir hears that has let go meanwhile.
fn dispossess(lane: &LaneRef, from: Owner) {
    let mut state = lane.state();
    state.left = None;
    let on_wire = state.is_on_wire(from);
    let seated = state.seat.as_ref().filter(|_| on_wire).map(|seat| seat.tenure.clone());
    drop(state);
    if let Some(tenure) = seated {
        tenure.lose();
    }
}

/// The store could not be told of a hand-over. Those who wait for more than that do not wait for ever.
fn unheard(engine: &Arc<Engine>, lane: &LaneRef, error: Error, patience: Moment) {
    let over = lane.state().seat.is_none();
    if over {
        trouble(engine, lane, &error);
    }
    if engine.env.now() >= patience {
        let receipts = std::mem::take(&mut lane.state().receipts);
        receipts.answer(&Err(error));
    }
}
