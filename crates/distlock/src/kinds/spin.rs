//! One owner at a time; waiters poll.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Kind};

/// One owner at a time, for which waiters poll instead of subscribing: Redisson's `RSpinLock`.
///
/// # When not
/// Nearly always: a [`Mutex`](crate::Mutex) is acquired sooner and with fewer requests. This one is for servers and proxies that have no
/// Pub/Sub, and for locks that are so rarely contended that subscriptions would cost more than a few polls.
///
/// # Guarantees
/// Those of a [`Mutex`](crate::Mutex), but a waiter acquires up to one [pause](Backoff) after the release. However many wait in
/// one process, one of them polls. No command subscribes to anything.
///
/// # If the holder dies
/// The lock is free when its lease ends: at most the watchdog's timeout (30 s unless configured) after the last renewal.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends
/// with its lease.
///
/// # Errors
/// Those of a [`Mutex`](crate::Mutex).
///
/// # Redisson compatibility
/// The same hash as `RedissonClient.getSpinLock(name)` and `getLock(name)`. Releases are published as a
/// [`Mutex`](crate::Mutex)'s are, which Redisson's spin lock does not do: waiters of a mutex with the same name are woken.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::{Backoff, Locks};
///
/// let locks = Locks::memory();
/// let steady = locks.spin("k").backoff(Backoff::constant(Duration::from_millis(64)));
/// let guard = steady.lock().await?;
/// assert!(locks.spin("k").try_lock().wait(Duration::from_millis(5)).await?.is_none());
/// assert!(locks.mutex("k").try_lock().await?.is_none()); // the same lock
/// guard.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Spin {
    handle: Handle,
    backoff: Backoff,
}

exclusive_handle!(Spin, ClaimKind::Exclusive);

impl Spin {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Spin {
        Spin { handle: Handle::new(engine, name, Kind::Spin), backoff: Backoff::default() }
    }

    /// Sets the pauses between attempts. [`Backoff::default`] unless set.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Spin {
        Spin { backoff, ..self }
    }

    /// Acquires the lock; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its
    /// lease.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        self.handle.acquire(ClaimKind::Exclusive).polling(self.backoff)
    }

    /// Acquires the lock, or returns `None` if it is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Cancel safety
    /// As [`lock`](Spin::lock).
    ///
    /// # Errors
    /// As [`lock`](Spin::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        self.handle.acquire(ClaimKind::Exclusive).polling(self.backoff)
    }
}

impl From<Spin> for Member {
    fn from(spin: Spin) -> Member {
        Member { spin: Some(spin.backoff), ..spin.handle.member(ClaimKind::Exclusive) }
    }
}
