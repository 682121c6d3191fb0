//! Hearing of releases.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A place where releases of one lock are called out. The store wakes it; listeners hear it.
#[derive(Debug, Default)]
pub struct Topic {
    calls: AtomicU64,
    /// Who waits for the next call. Hardly ever more than one: the engine listens once per name.
    waiting: Mutex<Waiting>,
}

impl Topic {
    /// Wakes every listener; one that is not waiting now hears it the next time it asks.
    pub fn wake(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.fetch_add(1, Ordering::Release);
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        match woken {
            Waiting::Nobody => {}
            Waiting::One(waker) => waker.wake(),
            Waiting::Many(mut wakers) => {
                // Whoever is woken first asks first, and then waits again in that order: nobody must always be late.
                wakers.rotate_left(1);
                wakers.into_iter().for_each(Waker::wake);
            }
        }
    }
}

/// One costs no memory of its own.
#[derive(Debug, Default)]
enum Waiting {
    #[default]
    Nobody,
    One(Waker),
    Many(Vec<Waker>),
}

impl Waiting {
    fn add(&mut self, waker: &Waker) {
        *self = match std::mem::take(self) {
            Waiting::Nobody => Waiting::One(waker.clone()),
            Waiting::One(one) if one.will_wake(waker) => Waiting::One(one),
            Waiting::One(one) => Waiting::Many(vec![one, waker.clone()]),
            Waiting::Many(mut many) => {
                if !many.iter().any(|one| one.will_wake(waker)) {
                    many.push(waker.clone());
                }
                Waiting::Many(many)
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
    /// A listener that keeps `subscription` for as long as it lives. It hears every call after this one.
    pub fn new(topic: Arc<Topic>, subscription: impl Send + Sync + 'static) -> Listener {
        let heard = topic.calls.load(Ordering::Acquire);
        Listener { topic, heard, _subscription: Box::new(subscription) }
    }

    /// Ends when something was called out since the last time, even if that was before this call; says how often.
    ///
    /// # Cancel safety
    /// A call that comes while nobody polls is heard at the next one.
    pub async fn heard(&mut self) -> u64 {
        poll_fn(|cx| self.poll_heard(cx)).await
    }

    /// [`heard`](Listener::heard) for those who keep a waker instead of a future.
    pub fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        // Locked while the count is read: a call either is counted now or finds the waker.
        let mut waiting = self.topic.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = self.topic.calls.load(Ordering::Acquire);
        if calls != self.heard {
            return Poll::Ready(calls.wrapping_sub(std::mem::replace(&mut self.heard, calls)));
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
