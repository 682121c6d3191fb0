//! One owner at a time, in the order in which they asked.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::Guard;
use crate::member::Member;
use crate::request::{Acquire, May, Must};
use crate::store::{Kind, What};

/// What is asked about; how long somebody waits is filled in by the request.
const WHAT: What = What::Fair { patience: None };

/// One owner at a time, in the order in which they asked: Redisson's fair lock.
///
/// Whoever has to wait takes a place in a queue that the store keeps, also among waiters of one process. A release calls the
/// first in line and nobody else.
///
/// # When not
/// When the order does not matter: a [`Mutex`](crate::Mutex) passes from one waiter to the next inside a process without
/// asking the server, and is many times as fast under contention.
///
/// # Guarantees
/// Those of a [`Mutex`](crate::Mutex). Whoever asked first gets in first, counted from when the store hears of it. A single
/// try ([`try_lock`](Fair::try_lock) without a wait) takes no place, and overtakes nobody who has one. A waiter keeps its place
/// for as long as it waits; it may lose it, and then goes to the end, if it is cut off from the store for seconds while the
/// lock is free, or for its [patience](crate::Builder::fair_patience) while it is held.
///
/// # If the holder dies
/// The lock is free when its lease ends, and the first in line comes at that moment. A *waiter* that dies is found out when its
/// turn comes: however many there are, the dead cost the next who lives about a second together; one that dies at the very
/// moment of its turn two or three; one whose connection seems to be open, because a network or a machine just
/// stopped, up to ten.
///
/// # Cancel safety
/// Dropping a request at any point leaves no hold and no place in the queue.
///
/// # Errors
/// Those of a [`Mutex`](crate::Mutex), and `Conflict` if something else stands where the queue should.
///
/// # Redisson compatibility
/// The same hash, queue, timeouts and channels as `RedissonClient.getFairLock(name)`: Java and Rust wait in one queue and
/// call each other. Times in the queue are the server's here and each client's there, so the clocks of Java clients
/// should be right. Releasing a lock that is held by nobody is an error here, and a success there. A [`Mutex`](crate::Mutex)
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

    /// Acquires in turn; waits for as long as it takes, or [`wait`](Acquire::wait) says.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves nothing behind: an acquisition that is under way falls back by itself, and the
    /// place in the queue is given up.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        self.handle.acquire(WHAT)
    }

    /// Acquires if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if the lock is busy, or others are in
    /// line for it.
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
