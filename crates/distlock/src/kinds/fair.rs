//! One owner at a time, in the order of arrival.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::store::{ClaimKind, Kind};

/// The claim of questions; a request fills in the waiter's patience.
const WHAT: ClaimKind = ClaimKind::Fair { patience: None };

/// One owner at a time, in the order of arrival: Redisson's fair lock.
///
/// Each waiter has a place in a queue in the store, also among waiters of one process. A release notifies only the first waiter
/// in the queue.
///
/// # When not
/// When the order does not matter: a [`Mutex`](crate::Mutex) passes from one waiter to the next inside a process without
/// a request to the server, and is many times as fast under contention.
///
/// # Guarantees
/// Those of a [`Mutex`](crate::Mutex). Waiters acquire in the order in which their requests reach the store. A single
/// try ([`try_lock`](Fair::try_lock) without a wait) takes no place, and overtakes no waiter that has one. A waiter keeps its place
/// for as long as it waits, unless it is cut off from the store: for seconds while the lock is free, or for its
/// [patience](crate::Builder::fair_patience) while it is held. Then it goes to the end of the queue.
///
/// # If the holder dies
/// The lock is free when its lease ends, and the first in the queue acquires it at that moment. A *waiter* that died is detected when
/// its turn comes: all dead waiters together delay the next live one by about a second; one that dies at the very
/// moment of its turn by two or three; one whose connection seems to be open, because a network or a machine just
/// stopped, by up to ten.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends
/// with its lease. The place in the queue is given up.
///
/// # Errors
/// Those of a [`Mutex`](crate::Mutex), and `Conflict` if the key of the queue holds something else.
///
/// # Redisson compatibility
/// The same hash, queue, timeouts and channels as `RedissonClient.getFairLock(name)`: Java and Rust wait in one queue and
/// wake each other. This library takes the times in the queue from the server's clock and Redisson from each client's, so the clocks
/// of Java clients should be right. Releasing a lock that is free is an error here, and a success in Redisson. A [`Mutex`](crate::Mutex)
/// of the same name excludes, but ignores the queue.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let printer = locks.fair("printer");
///
/// let first = printer.lock().await?;
/// let second = tokio::spawn(printer.lock().into_future()); // takes its place in the queue
/// # use std::future::IntoFuture;
/// # while printer.inspect().await?.queue.is_empty() { tokio::task::yield_now().await }
/// assert_eq!(printer.inspect().await?.queue.len(), 1);
///
/// let short = printer.try_lock().wait(Duration::from_millis(20)).await?;
/// assert!(short.is_none()); // out of time, and out of the queue
///
/// first.unlock().await?;
/// second.await.expect("no panic")?.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Fair {
    handle: Handle,
}

exclusive_handle!(Fair, WHAT);

impl Fair {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Fair {
        Fair { handle: Handle::new(engine, name, Kind::Fair) }
    }

    /// Acquires the lock in the order of arrival; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its
    /// lease. The place in the queue is given up.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        self.handle.acquire(WHAT)
    }

    /// Acquires the lock, or returns `None` if it is busy or other waiters are in the queue: one attempt unless
    /// [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Cancel safety
    /// As [`lock`](Fair::lock).
    ///
    /// # Errors
    /// As [`lock`](Fair::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        self.handle.acquire(WHAT)
    }
}

impl From<Fair> for Member {
    fn from(fair: Fair) -> Member {
        fair.handle.member(WHAT)
    }
}
