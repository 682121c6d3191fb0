//! Taking back what the store may have given although nobody here will use it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use super::lanes::LaneRef;
use super::receipts::Receipts;
use super::tell::{self, Leave, Stepping, free};
use super::waiters::{Step, Waiter};
use crate::config;
use crate::owner::Owner;
use crate::store::What;

/// The store may have given this owner the lock, or keeps its place in a queue, and nobody here will use it: take it back.
///
/// An owner that could come back meanwhile must wait for that, or its new hold would be taken back too.
pub(super) fn disown(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: What,
    owner: Owner,
    lease: Duration,
) {
    forget(engine, name, what, owner, lease, Receipts::default(), false);
}

/// [`disown`], and waits until the store knows, if that is soon.
pub(super) async fn take_back(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: What,
    owner: Owner,
    lease: Duration,
) {
    let (receipt, received) = oneshot::channel();
    let mut receipts = Receipts::default();
    receipts.add(Some(receipt));
    forget(engine, name, what, owner, lease, receipts, true);
    let _ = received.await; // it is told again until it knows, whether anybody waits for that or not
}

/// `asking`: the attempt that this is about is still under way, so nobody else's is.
fn forget(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: What,
    owner: Owner,
    lease: Duration,
    receipts: Receipts,
    asking: bool,
) {
    let lane = engine.lanes.to_sit(name, what, owner);
    let mut state = lane.state();
    if state.has_seated(owner) {
        return;
    }
    state.forgetting += 1;
    let at_once = asking || !state.attempting;
    drop(state);
    let forgetting = Forgetting(lane.clone());
    let engine = engine.clone();
    // A place in a queue outlives a short lease.
    let until = engine.env.now().after(lease.max(config::WATCHDOG));
    let env = engine.env.clone();
    let mut stepping = at_once.then(|| step(&engine, &lane)).flatten();
    env.spawn_apart(Box::pin(async move {
        let _forgetting = forgetting;
        if !at_once {
            // It may be the same owner's, and then it clears this up. Meanwhile a holder is renewed: an attempt that nobody polls
            // any more has no end.
            lane.until(|state| !state.attempting).await;
            if lane.state().has_seated(owner) {
                return;
            }
            stepping = step(&engine, &lane);
        }
        let _stepping = stepping;
        let claim = tell::last_step(&engine, &lane.name, what, owner);
        free(&engine, &lane, Leave::Forget(claim), until, receipts).await;
    }));
}

/// The lane's right to tell the store something, if nobody has it.
fn step(engine: &Arc<Engine>, lane: &LaneRef) -> Option<Stepping> {
    let mut state = lane.state();
    if state.stepping.is_some() {
        return None;
    }
    state.stepping = Some(Step::Release);
    drop(state);
    Some(Stepping::taken(engine, lane))
}

/// The lane's mark that the store is told to forget an owner, taken off however that ends.
struct Forgetting(LaneRef);

impl Drop for Forgetting {
    fn drop(&mut self) {
        self.0.state().forgetting -= 1;
        self.0.announce();
    }
}

/// A waiter has left the queue without the lock. If the store may have given it the lock all the same, take it back.
pub(super) fn give_up(engine: &Arc<Engine>, lane: &LaneRef, waiter: &Waiter) {
    if waiter.unsure {
        let lease = waiter.lease.unwrap_or(engine.tuning.watchdog);
        disown(engine, &lane.name, waiter.what, waiter.owner, lease);
    }
}
