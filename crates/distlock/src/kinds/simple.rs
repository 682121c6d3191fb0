//! One owner at a time, in the format of `SET NX PX`.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Kind};

/// One owner at a time, as a plain value: `SET name owner NX PX lease`. The format of hand-written locks, and of redis-py's `Lock`,
/// redsync and node-redlock.
///
/// # When not
/// When no such program shares the name: a [`Mutex`](crate::Mutex) wakes its waiters, those of this kind poll.
///
/// # Guarantees
/// Those of a [`Mutex`](crate::Mutex), but a waiter acquires up to one [pause](Backoff) after the release. However many wait in
/// one process, one of them polls. No command publishes or subscribes, so it works where Pub/Sub is forbidden.
///
/// # If the holder dies
/// The lock is free when its lease ends: at most the watchdog's timeout (30 s unless configured) after the last renewal.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends
/// with its lease.
///
/// # Errors
/// Those of a [`Mutex`](crate::Mutex). A value without a time to live is a `Conflict`: redis-py's `Lock` writes one if it
/// has no `timeout`.
///
/// # Redisson compatibility
/// None: Redisson has no such lock. A [`Mutex`](crate::Mutex) of the same name is a `Conflict`. The value is the
/// [`Owner`](crate::Owner); re-entry is counted in the process that holds it and not in the store, so
/// [`hold_count`](Simple::hold_count) is at most 1. [`Locks::list`](crate::Locks::list) omits these locks on a server,
/// where they cannot be told from other values.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory(); // or the Redis server that the Python half uses
/// let report = locks.simple("nightly-report");
///
/// match report.try_lock().wait(Duration::from_secs(3)).lease(Duration::from_secs(60)).await? {
///     Some(guard) => guard.unlock().await?,
///     None => println!("another process writes it"),
/// }
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Simple {
    handle: Handle,
    backoff: Backoff,
}

exclusive_handle!(Simple, ClaimKind::Simple);

impl Simple {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Simple {
        Simple { handle: Handle::new(engine, name, Kind::Simple), backoff: Backoff::default() }
    }

    /// Sets the pauses between attempts. [`Backoff::default`] unless set.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Simple {
        Simple { backoff, ..self }
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
        self.handle.acquire(ClaimKind::Simple).polling(self.backoff)
    }

    /// Acquires the lock, or returns `None` if it is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Cancel safety
    /// As [`lock`](Simple::lock).
    ///
    /// # Errors
    /// As [`lock`](Simple::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        self.handle.acquire(ClaimKind::Simple).polling(self.backoff)
    }
}

impl From<Simple> for Member {
    fn from(simple: Simple) -> Member {
        Member { spin: Some(simple.backoff), ..simple.handle.member(ClaimKind::Simple) }
    }
}
