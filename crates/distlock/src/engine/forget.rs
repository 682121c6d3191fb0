//! Taking back what the store may have given although nobody here will use it.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::hold::Who;
use super::lanes::LaneRef;
use super::receipts::{Receipt, Receipts, ReleaseAnswer};
use super::tell::{self, Leave, Stepping, free};
use super::waiters::{Step, Waiter};
use crate::locks::config;
use crate::store::ClaimKind;

/// The store may have given this stay the lock, or keeps its place in a queue, and no caller of this process will use it: take it back. If the owner
/// comes again meanwhile, that is another stay.
pub(super) fn disown(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: ClaimKind,
    who: Who,
    lease: Duration,
) {
    forget(engine, name, what, who, lease, Receipts::default());
}

/// [`disown`], and waits until the store knows, if that is soon.
pub(super) async fn take_back(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: ClaimKind,
    who: Who,
    lease: Duration,
) {
    let answer = Arc::<ReleaseAnswer>::default();
    let mut receipts = Receipts::default();
    receipts.add(Some(Receipt::of(answer.clone())));
    forget(engine, name, what, who, lease, receipts);
    let _ = poll_fn(|cx| answer.poll(cx)).await; // it is told again until it knows, whether this caller waits for that or not
}

fn forget(
    engine: &Arc<Engine>,
    name: &Arc<str>,
    what: ClaimKind,
    who: Who,
    lease: Duration,
    receipts: Receipts,
) {
    let lane = engine.lanes.to_sit(name, what, who.owner);
    let mut state = lane.state();
    if state.has_seated_stay(who.stay) {
        return;
    }
    state.forgetting += 1;
    drop(state);
    let forgetting = Forgetting(lane.clone());
    let engine = engine.clone();
    // A place in a queue outlives a short lease.
    let until = engine.env.now().after(lease.max(config::WATCHDOG));
    let env = engine.env.clone();
    let stepping = step(&engine, &lane);
    env.spawn_background(Box::pin(async move {
        let _forgetting = forgetting;
        let _stepping = stepping;
        let claim = tell::last_step(&engine, &lane.name, what, who.stay);
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
        let who = Who { owner: waiter.owner, stay: waiter.stay };
        disown(engine, &lane.name, waiter.what, who, lease);
    }
}
