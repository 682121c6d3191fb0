//! Futures that run beside each other in one task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::env::BoxFuture;

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
