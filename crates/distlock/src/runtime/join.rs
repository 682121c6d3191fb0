//! Futures that run concurrently in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::env::BoxFuture;

/// Runs all futures concurrently and returns their outputs in order: one that hangs delays no other. For a few futures, because every
/// wake-up polls all that are not ready.
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
