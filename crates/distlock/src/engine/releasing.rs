//! The one way out of a hold. Dropping a guard and unlocking it are the same; unlocking adds a receipt.
//!
//! The lane lets go here and now, in memory; the store is told in a future that no caller can drop.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::Engine;
use super::acquiring::Ask;
use super::detach::Watched;
use super::hold::{Hold, Tenure};
use super::lane::LaneEvent;
use super::receipts::{Receipt, ReleaseAnswer};
use super::shell::{Lent, Runs, carry_out};
use super::steps::{self, is_told_in_turn};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;

/// Lets go of one level and waits for no answer.
pub(super) fn let_go(tenure: &Arc<Tenure>, watched: bool) {
    let event = LaneEvent::LetGo { hold: tenure.clone(), watched, receipt: None };
    tenure.lane.tell(&tenure.engine, event);
}

/// Lets go of one level and returns how the release went.
pub(crate) async fn unlock(hold: Hold) -> Result<()> {
    let (tenure, watched) = hold.disarm();
    let env = tenure.engine.env.clone();
    let parted = tenure.clone();
    let mut release = Watched::begin(&env, |receipt, adoptable| {
        let (engine, lane) = (&parted.engine, &parted.lane);
        let event = LaneEvent::LetGo { hold: parted.clone(), watched, receipt: Some(receipt) };
        let mut work = None;
        let left = lane.on_lending(engine, event, |effects| {
            let step = effects.take(is_told_in_turn).and_then(super::lane::Effect::into_step)?;
            work = Some(steps::tell(engine, lane, step));
            Some((Lent::Telling, adoptable))
        });
        carry_out(engine, lane, left, Runs::Here);
        work
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
    let outage = tenure.lane.read(|lane| lane.outage_since(crate::env::Moment::from_nanos(0)));
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

/// Releases a hold that its caller has not come for: its future is not polled, and must not keep others out. If the caller comes
/// later it starts anew.
pub(super) fn withdraw(tenure: &Arc<Tenure>) {
    if tenure.withdraw(tenure.engine.env.now()) {
        let_go(tenure, tenure.is_watched());
    }
}

/// The store may have given this caller the lock, or keeps its place in a queue, and no task of this process will use it: take it back. If
/// its owner comes again meanwhile, that is another stay.
pub(super) fn disown(engine: &Arc<Engine>, name: &Arc<str>, ask: &Ask) {
    forget(engine, name, ask, None);
}

/// [`disown`], and waits until the store knows, if that is soon.
pub(super) async fn take_back(engine: &Arc<Engine>, name: &Arc<str>, ask: &Ask) {
    let answer = Arc::<ReleaseAnswer>::default();
    forget(engine, name, ask, Some(Receipt::of(answer.clone())));
    let _ = poll_fn(|cx| answer.poll(cx)).await; // it is told again until it knows, whether this caller waits for that or not
}

fn forget(engine: &Arc<Engine>, name: &Arc<str>, ask: &Ask, receipt: Option<Receipt>) {
    let lane = engine.lanes.to_sit(engine, name, ask.what, ask.owner);
    let (what, stay, lease) = (ask.what, ask.stay, ask.lease(engine));
    let left = lane.on(engine, LaneEvent::Forget { what, stay, lease, receipt });
    // The caller's runtime may be shutting down.
    carry_out(engine, &lane, left, Runs::InBackground);
}
