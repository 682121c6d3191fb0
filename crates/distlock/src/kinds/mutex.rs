//! One owner at a time.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::backoff::Backoff;
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::member::Member;
use crate::request::{Acquire, May, Must};
use crate::store::{Kind, What};

/// One owner at a time: Redisson's `RLock`.
///
/// A handle is a name; it costs nothing and can be cloned. What is held is the [`Guard`].
///
/// # When not
/// When waiters must be served in the order in which they came, or when many may read at once.
///
/// # Guarantees
/// At most one owner is inside while the store keeps its memory and the holder obeys [`Guard::lost`]. The guides say
/// what cannot be promised, and what a fencing token adds.
///
/// # If the holder dies
/// The lock is free when its lease ends: at most the watchdog's timeout (30 s unless configured) after the last renewal.
///
/// # Redisson compatibility
/// The same hash, channel and message as `RedissonClient.getLock(name)`: Java and Rust exclude and wake each other.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let stock = locks.mutex("coupon:42");
///
/// let guard = stock.lock().await?; // waits as long as it takes
/// assert!(stock.try_lock().await?.is_none()); // one attempt: busy
/// guard.unlock().await?;
///
/// let short = stock.try_lock().wait(Duration::from_secs(3)).lease(Duration::from_secs(10)).await?;
/// assert!(short.is_some());
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Mutex {
    handle: Handle,
}

exclusive_handle!(Mutex);

impl Mutex {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Mutex {
        Mutex { handle: Handle::new(engine, name, Kind::Mutex) }
    }

    /// What serves it here: [`Builder::mutex_as`](crate::Builder::mutex_as).
    fn what(&self) -> What {
        self.handle.engine.tuning.mutex_as
    }

    pub(super) fn member(self) -> Member {
        let what = self.what();
        // Nobody calls out the release of a plain value.
        let spin = (what == What::Simple).then(Backoff::default);
        Member { spin, ..self.handle.member(what) }
    }

    /// Acquires; waits for as long as it takes, or [`wait`](Acquire::wait) says.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves nothing behind: an acquisition that is under way falls back by itself.
    ///
    /// # Errors
    /// `WaitTimeout` if the lock stayed busy for the whole wait; `Unavailable` or `Indeterminate` if the store cannot be
    /// reached; `NotDurable` if too few replicas have it ([`Durability`](crate::Durability)); `Conflict` if something else stands
    /// under the name; `InvalidName`, `InvalidDuration`, `Closed`.
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        Acquire::one(self.clone().member())
    }

    /// Acquires if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if the lock is busy.
    ///
    /// # Cancel safety
    /// As [`lock`](Mutex::lock).
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        Acquire::one(self.clone().member())
    }

    /// How many of this process wait for it.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let engine = &self.handle.engine;
        self.handle.named().map_or(0, |name| engine.waiting(name))
    }
}
