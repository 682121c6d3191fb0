//! What arrives late does no harm: a request that the network delivers after its sender gave it up and went on, and a future that
//! is polled once and then left alone.
mod counts;
mod fence;
mod fleet;
#[cfg(target_os = "linux")]
mod kernel;
mod kinds;
mod outages;
mod shaky;
mod stage;
mod steps;
mod table;
mod unpolled;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls a future once; what it gives if it is ready.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
