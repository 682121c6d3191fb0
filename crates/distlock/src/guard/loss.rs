//! Waiting for the loss of a hold.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::engine::Vitals;
use crate::env::Env;

/// Runs `work` to its end, or drops it and returns `None` when `lost` completes first. Also `None` if `is_lost` when `work` ends: then
/// the lock did not protect it to its end.
pub(crate) async fn until_lost<F: Future>(
    lost: impl Future<Output = ()>,
    is_lost: impl Fn() -> bool,
    work: F,
) -> Option<F::Output> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|cx| {
        if lost.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        match work.as_mut().poll(cx) {
            Poll::Ready(_) if is_lost() => Poll::Ready(None),
            done => done.map(Some),
        }
    })
    .await
}

/// Completes when one of these holds is lost; never if all are released.
pub(crate) async fn any_lost(each: Vec<Arc<Vitals>>, env: Arc<dyn Env>) {
    if !any_lost_or_all_released(each, env).await {
        std::future::pending().await
    }
}

/// Completes with `true` when one of these holds is lost, with `false` when all are released.
pub(crate) async fn any_lost_or_all_released(each: Vec<Arc<Vitals>>, env: Arc<dyn Env>) -> bool {
    let mut all: Vec<_> = each.iter().map(|vitals| Some(Box::pin(vitals.over(&*env)))).collect();
    poll_fn(|cx| {
        for slot in &mut all {
            match slot.as_mut().map(|over| over.as_mut().poll(cx)) {
                Some(Poll::Ready(true)) => return Poll::Ready(true),
                Some(Poll::Ready(false)) => *slot = None,
                Some(Poll::Pending) | None => {}
            }
        }
        if all.iter().all(Option::is_none) { Poll::Ready(false) } else { Poll::Pending }
    })
    .await
}
