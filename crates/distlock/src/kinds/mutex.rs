//! One owner at a time.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Kind};

/// One owner at a time: Redisson's `RLock`.
///
/// A handle is a name: creating and cloning one does no I/O. The hold is the [`Guard`].
///
/// # When not
/// When waiters must be served in the order of arrival ([`Fair`](crate::Fair)), or when many may read at once ([`Rw`](crate::Rw)).
///
/// # Guarantees
/// At most one owner holds the lock while the store keeps its data, no process forces the lock free, and holders obey
/// [`Guard::lost`]. What cannot be promised: [`mod@crate::guarantees`]; what a fencing token adds: [`mod@crate::fencing`].
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

    /// The kind that serves it: [`Builder::mutex_as`](crate::Builder::mutex_as).
    fn what(&self) -> ClaimKind {
        self.handle.engine.tuning.mutex_as
    }

    pub(super) fn member(self) -> Member {
        let what = self.what();
        // The release of a plain value is not published.
        let spin = (what == ClaimKind::Simple).then(Backoff::default);
        Member { spin, ..self.handle.member(what) }
    }

    /// Acquires the lock; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its
    /// lease.
    ///
    /// # Errors
    /// `WaitTimeout` if the lock stayed busy for the whole wait; `Unavailable` or `Indeterminate` if the store cannot be
    /// reached; `NotDurable` if too few replicas have it ([`Durability`](crate::Durability)); `Conflict` if the name holds
    /// something else; `InvalidName`, `InvalidDuration`, `Closed`.
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        Acquire::one(self.clone().member())
    }

    /// Acquires the lock, or returns `None` if it is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
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
