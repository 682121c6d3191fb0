//! The one road out. Dropping a guard and unlocking it are the same; unlocking adds a receipt.
//!
//! Letting go happens here and now, in memory; the [store is told](super::tell) in a future that no caller can drop.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use super::Engine;
use super::detach::{self, Adoptable, Watched};
use super::forget::give_up;
use super::hold::{Begun, Hold, Tenure, Who};
use super::lanes::LaneRef;
use super::receipts::Receipt;
use super::tell::{Stepping, tell};
use super::vitals::State;
use super::waiters::{Grant, LaneState, Step, Waiter};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;
use crate::locks::config;
use crate::observe::Event;

/// Lets go of one level and tells nobody.
pub(super) fn let_go(tenure: Arc<Tenure>, watched: bool) {
    let engine = tenure.engine.clone();
    if let Parting::Tell(stepping) = part(tenure, watched, None, None) {
        detach::start(&engine, tell(stepping));
    }
}

/// Lets go of one level and says how it went.
pub(crate) async fn unlock(hold: Hold) -> Result<()> {
    let (tenure, watched) = hold.disarm();
    let env = tenure.engine.env.clone();
    let parted = tenure.clone();
    let mut release = Watched::begin(&env, |receipt, adoptable| {
        match part(parted, watched, Some(receipt), Some(adoptable)) {
            Parting::Tell(stepping) => Some(tell(stepping)),
            Parting::Lost | Parting::Done => None,
        }
    });
    let until = env.now().after(config::COMMAND_TIMEOUT);
    // What is told before the release may take longer than this caller waits; what this one tells itself keeps to its own limit.
    let mut limit = release.is_done_elsewhere().then(|| env.sleep_in_background(until));
    let answer = poll_fn(|cx| {
        if let Poll::Ready(answer) = release.poll(cx) {
            return Poll::Ready(answer.unwrap_or_else(|| match tenure.is_released() {
                true => Err(Error::new(ErrorKind::Indeterminate, "the release was interrupted: it may or may not have been applied, and the lock is free when its lease ends")),
                false => Err(lost()),
            }));
        }
        match limit.as_mut().map(|limit| limit.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Err(unlock_too_slow(&tenure))),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    });
    answer.await.map_err(|e| e.about(tenure.kind, &tenure.lane.name))
}

/// The error for a release that goes on without its caller.
fn unlock_too_slow(tenure: &Tenure) -> Error {
    let outage = tenure.lane.state().outage.as_ref().map(|outage| outage.error.clone());
    outage.unwrap_or_else(|| {
        let limit = config::COMMAND_TIMEOUT;
        let text = format!(
            "the store did not confirm the release within {limit:?}: the release is retried in the background, and the lock is free when its lease ends"
        );
        Error::new(ErrorKind::Indeterminate, text)
    })
}

pub(crate) fn lost() -> Error {
    let text = "the lock was lost before it was released: its lease ended, its Locks was closed, or another process or the server freed it";
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

/// Lets go of one level, here and now. `adoptable`: the caller polls what is left to do.
fn part(
    tenure: Arc<Tenure>,
    watched: bool,
    receipt: Option<Receipt>,
    adoptable: Option<Adoptable>,
) -> Parting {
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
        state.receipts.add(receipt);
        return tell_if_idle(engine, lane, state, adoptable);
    }
    if !tenure.finish() {
        drop(state);
        tenure.lose();
        return Parting::Lost;
    }
    let leaked = seat.leaked;
    let next = if leaked { None } else { pass_on(&mut state, &tenure, state_before) };
    match next {
        Some(Passed { grant, hold, beside }) => {
            // The hold has passed: as far as its last holder is concerned, it is released.
            if let Some(receipt) = receipt {
                receipt.send(Ok(()));
            }
            let emptied = state.queue.is_empty();
            let parting = tell_if_idle(engine, lane, state, adoptable);
            if emptied {
                lane.nudge(); // the driver has nobody left to drive for
            }
            let_in_beside(engine, lane, beside);
            tenure.observe_release();
            hold.tenure.observe(Event::Entered);
            // A waiter that has just left returns the hold by dropping it.
            drop(grant.send(Grant::Hold(hold)));
            parting
        }
        None => {
            let gone = state.seat.take();
            if leaked {
                state.leave_there(&tenure);
            }
            state.receipts.add(receipt);
            let parting = tell_if_idle(engine, lane, state, adoptable);
            drop(gone);
            tenure.observe_release();
            parting
        }
    }
}

impl LaneState {
    /// Nobody sits here any more while the store is told something else: later single tries await the release to come.
    fn part_from(&mut self, lane: &LaneRef) {
        let released = self.stepping == Some(Step::Release); // which is counted
        if self.is_letting_go() && !released && !self.parting && lane.is_counted_elsewhere() {
            self.parting = true;
            lane.count().state().releasing += 1;
        }
    }
}

/// Starts telling the store, unless somebody is at it and will notice.
fn tell_if_idle(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    mut state: std::sync::MutexGuard<'_, LaneState>,
    adoptable: Option<Adoptable>,
) -> Parting {
    if state.stepping.is_some() {
        let vacant = state.seat.is_none();
        if vacant {
            state.part_from(lane);
        }
        // This waits for its end now.
        let in_the_way = state.step_work.clone();
        drop(state);
        if vacant {
            lane.changed.notify_waiters(); // no need to wait for more hand-offs
        }
        if let Some(work) = in_the_way.and_then(|work| work.upgrade()) {
            work.adopt();
        }
        return Parting::Done;
    }
    match state.work() {
        Some(work) => {
            state.stepping = Some(work.step());
            state.step_work = adoptable;
            drop(state);
            Parting::Tell(Stepping::taken(engine, lane))
        }
        None => {
            let receipts = std::mem::take(&mut state.receipts);
            drop(state);
            receipts.answer(&Ok(()));
            lane.announce();
            Parting::Done
        }
    }
}

/// Local hand-off: the next waiter of this process gets the hold without a round trip, for a bounded burst, while the
/// lease has life left. The store learns the new owner in the background.
fn pass_on(state: &mut LaneState, tenure: &Arc<Tenure>, before: State) -> Option<Passed> {
    let engine = &tenure.engine;
    let now = engine.env.now();
    let within_burst = state.burst < config::BURST_COUNT
        && state.burst_since.is_some_and(|since| now.since(since) < config::BURST_TIME);
    let life = tenure.vitals.expires().since(now);
    let alike = state.queue.front().is_some_and(|next| next.what == tenure.what);
    // Replicas do not acknowledge what passes on. If it is lost in a failover they still have the predecessor's hold, so nobody
    // else gets in before that ends, and the heir is told at its next renewal. If both are watched that comes first: a third
    // of the timeout against the half of it that is left. Of leases that nobody renews this cannot be said.
    let renewed = state.seat.as_ref().is_some_and(|seat| seat.watched > 0)
        && state.queue.front().is_some_and(|next| next.lease.is_none());
    let told_in_time = renewed || engine.store.capabilities().durability == Durability::Primary;
    let may_pass = alike
        && told_in_time
        && tenure.what.passes_on()
        && before == State::Held
        && life >= tenure.lease.min(tenure.granted()) / 2
        // An attempt for the very waiter that the hold would pass to may be under way.
        && !state.attempting
        && state.forgetting == 0
        && !engine.is_closed();
    if state.queue.is_empty() || !may_pass {
        return None;
    }
    if !within_burst || !engine.store.capabilities().passes_on {
        state.spent = true;
        return None;
    }
    let next = state.queue.pop_front()?;
    let watched = next.lease.is_none();
    let lease = next.lease.unwrap_or(engine.tuning.watchdog);
    let expected = tenure.vitals.life().inherited(now, lease);
    let (kind, what) = (next.kind, next.what);
    let lane = tenure.lane.clone();
    let info = next.asker.as_ref().map(|asker| asker.info(&*engine.env));
    let (owner, explicit) = (next.owner, next.explicit);
    let who = match next.wants_new_stay() {
        true => engine.new_stay(&tenure.lane.name, what, owner, explicit),
        false => Who { owner, stay: next.stay },
    };
    let begun = Begun { kind, what, who, lease, granted: lease, watched, info };
    let heir = Tenure::begin(engine, lane, begun, expected);
    state.seat(&heir, watched);
    let beside = state.same_owner(who.owner);
    state.burst += 1;
    Some(Passed { grant: next.grant, hold: Hold::new(heir, watched), beside })
}

/// A hold that has passed to the next waiter of this process.
struct Passed {
    grant: oneshot::Sender<Grant>,
    hold: Hold,
    /// Those who wait under the same owner.
    beside: Vec<Waiter>,
}

/// Their owner holds the lock now: each of them can re-enter. What the store may have under the id of one of them is not used.
pub(super) fn let_in_beside(engine: &Arc<Engine>, lane: &LaneRef, waiters: Vec<Waiter>) {
    for waiter in waiters {
        give_up(engine, lane, &waiter);
        drop(waiter.grant.send(Grant::Again));
    }
}

/// Releases a hold that its caller has not come for: its future is not polled, and must not keep others out. If the caller comes
/// later it starts anew.
pub(super) fn withdraw(tenure: &Arc<Tenure>) {
    if tenure.withdraw(tenure.engine.env.now()) {
        let_go(tenure.clone(), tenure.is_watched());
    }
}

/// Takes a hold away from its guards and tells the store.
pub(super) fn revoke(tenure: &Arc<Tenure>) {
    let mut state = tenure.lane.state();
    if !state.sits(tenure) {
        return;
    }
    let alive = tenure.revoke();
    let gone = state.seat.take();
    let parting = tell_if_idle(&tenure.engine, &tenure.lane, state, None);
    drop(gone);
    if alive {
        tenure.observe(Event::Revoked);
    }
    if let Parting::Tell(stepping) = parting {
        detach::start(&tenure.engine, tell(stepping));
    }
}

/// Ends every wait with this error.
pub(super) fn fail_all(engine: &Arc<Engine>, lane: &LaneRef, error: &Error) {
    let mut state = lane.state();
    let mut waiters = std::mem::take(&mut state.queue);
    waiters.iter_mut().for_each(|waiter| state.excuse(waiter));
    drop(state);
    fail(engine, lane, waiters, error);
}

/// The store could not be asked. Waiters ride out an outage, but not for ever: one that has had an answer keeps waiting
/// for as long as a holder could, one that never had any for as long as a command may take.
pub(super) fn trouble(engine: &Arc<Engine>, lane: &LaneRef, error: &Error) {
    let now = engine.env.now();
    let mut state = lane.state();
    let since = state.unanswered(now, error);
    let LaneState { queue, answered, .. } = &mut *state;
    let mut over = VecDeque::new();
    let mut at = 0;
    while at < queue.len() {
        let joined = queue[at].joined;
        let until = match answered.is_some_and(|answered| answered >= joined) {
            true => since.after(engine.tuning.watchdog),
            // In a crowd the first question may be late: its failure is not the end before it was asked again.
            false => joined.after(config::COMMAND_TIMEOUT).max(since.after(config::REPLY_TIMEOUT)),
        };
        if now >= until { over.extend(queue.remove(at)) } else { at += 1 }
    }
    over.iter_mut().for_each(|waiter| state.excuse(waiter));
    drop(state);
    fail(engine, lane, over, error);
}

fn fail(engine: &Arc<Engine>, lane: &LaneRef, waiters: VecDeque<Waiter>, error: &Error) {
    // A driver that is nudged does not rest: not if nothing has changed for it, or it would ask a dead store without a pause.
    if waiters.is_empty() {
        return;
    }
    for waiter in waiters {
        give_up(engine, lane, &waiter);
        drop(waiter.grant.send(Grant::Failed(error.clone())));
    }
    lane.nudge();
}
