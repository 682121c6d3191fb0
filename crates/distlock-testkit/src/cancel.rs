//! Futures that are dropped at a moment of the test's choice.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// How a future that was polled a number of times ended.
#[derive(Debug)]
pub enum Cut<T> {
    /// It was ready within that many polls.
    Done(T),
    /// It was dropped after its last poll.
    Dropped,
    /// It was dropped because it had not been woken for a while: more polls would find nothing new.
    Asleep,
}

/// How long a future may go without being woken before it counts as asleep.
const ASLEEP: Duration = Duration::from_millis(150);

/// Polls `work` at most `polls` times, each time it is woken, then drops it.
///
/// Between two polls the runtime runs whatever else there is to run. A sweep goes over `polls` from 0 until the
/// answer is not [`Cut::Dropped`]: then the future has been dropped once at every place where it can be.
pub async fn poll_times<T>(work: impl Future<Output = T>, polls: usize) -> Cut<T> {
    let mut work = pin!(work);
    let mut left = polls;
    let cut = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(Cut::Dropped);
        }
        left -= 1;
        match work.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Cut::Done(value)),
            Poll::Pending if left == 0 => Poll::Ready(Cut::Dropped),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(ASLEEP, cut).await.unwrap_or(Cut::Asleep)
}

/// Polls `work` once; true if it is ready. For a waiter that must have taken its place before the test goes on.
///
/// # Panics
/// When it is ready: it was meant to wait.
pub async fn poll_once(work: &mut (impl Future + Unpin)) {
    let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut *work).poll(cx).is_ready())).await;
    assert!(!ready, "a future that was meant to wait is ready at once");
}
