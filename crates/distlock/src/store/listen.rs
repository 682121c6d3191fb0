//! Hearing of releases.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A place where releases of one lock are called out. The store wakes it; listeners hear it.
#[derive(Debug, Default)]
pub struct Topic {
    calls: AtomicU64,
    notify: Notify,
}

impl Topic {
    /// Wakes every listener; one that is not waiting now hears it the next time it asks.
    pub fn wake(&self) {
        self.calls.fetch_add(1, Ordering::Release);
        self.notify.notify_waiters();
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
        loop {
            // Registered before the count is read: a call in between is not missed.
            let call = self.topic.notify.notified();
            let calls = self.topic.calls.load(Ordering::Acquire);
            if calls != self.heard {
                return calls.wrapping_sub(std::mem::replace(&mut self.heard, calls));
            }
            call.await;
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("heard", &self.heard).finish_non_exhaustive()
    }
}
