//! Futures that run beside each other in one task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use crate::engine::Vitals;
use crate::env::{BoxFuture, Env};

/// Runs all at once and answers in order: one that hangs keeps no other waiting. Meant for a few, because every wake-up polls
/// all that are left.
pub(crate) async fn join_all<T>(mut work: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = work.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (future, slot) in work.iter_mut().zip(&mut done).filter(|(_, slot)| slot.is_none()) {
            match Pin::new(future).poll(cx) {
                Poll::Ready(value) => *slot = Some(value),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Runs `work` until it is done, or gives nothing when `lost` comes first.
pub(crate) async fn unless<F: Future>(
    lost: impl Future<Output = ()>,
    is_lost: impl Fn() -> bool,
    work: F,
) -> Option<F::Output> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|cx| {
        // Before and after: work that ends in the moment of the loss was not protected to its end.
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

/// Ends when one of these holds is lost; never if they are released.
pub(crate) async fn first_lost(each: Vec<Arc<Vitals>>, env: Arc<dyn Env>) {
    if !first_over(each, env).await {
        std::future::pending().await
    }
}

/// Ends when one of these holds is lost, or all are released: true if one is lost.
pub(crate) async fn first_over(each: Vec<Arc<Vitals>>, env: Arc<dyn Env>) -> bool {
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
