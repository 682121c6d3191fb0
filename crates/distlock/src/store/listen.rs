//! Subscriptions to the releases of a lock.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The releases of one lock, which the store publishes and listeners receive.
#[derive(Debug, Default)]
pub struct Topic {
    messages: AtomicU64,
    /// The tasks that wait for the next message. Hardly ever more than one: the engine listens once per name.
    waiting: Mutex<WaitingTasks>,
}

impl Topic {
    /// Wakes every listener; one that is not waiting now returns at once from its next wait.
    pub fn wake(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.messages.fetch_add(1, Ordering::Release);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        match woken {
            WaitingTasks::None => {}
            WaitingTasks::One(waker) => waker.wake(),
            WaitingTasks::Many(mut wakers) => {
                // The first task woken acts first, and they wait again in that order: no listener must always be the last.
                wakers.rotate_left(1);
                wakers.into_iter().for_each(Waker::wake);
            }
        }
    }
}

/// The wakers of the waiting tasks; a single one costs no memory of its own.
#[derive(Debug, Default)]
enum WaitingTasks {
    #[default]
    None,
    One(Waker),
    Many(Vec<Waker>),
}

impl WaitingTasks {
    fn add(&mut self, waker: &Waker) {
        *self = match std::mem::take(self) {
            WaitingTasks::None => WaitingTasks::One(waker.clone()),
            WaitingTasks::One(one) if one.will_wake(waker) => WaitingTasks::One(one),
            WaitingTasks::One(one) => WaitingTasks::Many(vec![one, waker.clone()]),
            WaitingTasks::Many(mut many) => {
                if !many.iter().any(|one| one.will_wake(waker)) {
                    many.push(waker.clone());
                }
                WaitingTasks::Many(many)
            }
        };
    }
}

/// A subscription to one lock's releases; dropping it ends the subscription.
pub struct Listener {
    topic: Arc<Topic>,
    heard: u64,
    _subscription: Box<dyn Send + Sync>,
}

impl Listener {
    /// Returns a listener that keeps `subscription` for as long as it lives. It receives every message after this call.
    pub fn new(topic: Arc<Topic>, subscription: impl Send + Sync + 'static) -> Listener {
        let heard = topic.messages.load(Ordering::Acquire);
        Listener { topic, heard, _subscription: Box::new(subscription) }
    }

    /// Waits for a message and returns how many came since the last call; those that came before this call count.
    ///
    /// # Cancel safety
    /// A message that comes while the future is not polled, or after it was dropped, is received by the next call.
    pub async fn heard(&mut self) -> u64 {
        poll_fn(|cx| self.poll_heard(cx)).await
    }

    /// Polls for a message as [`heard`](Listener::heard) does, for callers that keep a waker instead of a future.
    pub fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        // Locked while the count is read: a message either is counted now or finds the waker.
        let mut waiting = self.topic.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = self.topic.messages.load(Ordering::Acquire);
        if messages != self.heard {
            return Poll::Ready(
                messages.wrapping_sub(std::mem::replace(&mut self.heard, messages)),
            );
        }
        waiting.add(cx.waker());
        Poll::Pending
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("heard", &self.heard).finish_non_exhaustive()
    }
}
