//! One owner at a time, each acquisition numbered.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::FencedGuard;
use crate::store::{ClaimKind, Kind};

/// One owner at a time, each acquisition with a number higher than all before: Redisson's `RFencedLock`.
///
/// The number is a *fencing token*. Send it to the protected resource with every write, and let the resource refuse numbers
/// lower than the highest it has seen: then a holder that was stopped for longer than its lease can do no harm when it
/// resumes. [`FenceGate`](crate::FenceGate) is the refusing side; [`mod@crate::fencing`] shows it for databases.
///
/// # When not
/// When nothing checks the token: then it is a [`Mutex`](crate::Mutex) that costs one key per name for ever. When the resource
/// is data on the same Redis server: [`Guard::send`](crate::Guard::send) needs no token.
///
/// # Guarantees
/// Those of a [`Mutex`](crate::Mutex). Tokens of one name only rise, also within one owner's re-entries, also when a reply
/// or the counter is lost: they are not below the server's time in milliseconds. Only a server that loses the counter *and*
/// whose clock steps back can issue an old number again. Some numbers are skipped.
///
/// # If the holder dies
/// The lock is free when its lease ends. The counter stays.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends
/// with its lease. Its token is skipped.
///
/// # Errors
/// Those of a [`Mutex`](crate::Mutex), and `Conflict` if the key of the counter holds something else.
///
/// # Redisson compatibility
/// The same hash, channel and counter as `RedissonClient.getFencedLock(name)`: Java and Rust exclude and wake each other, and
/// each one's tokens are above the other's. The counter has no time to live, because Redisson would count from 1 again.
/// A [`Mutex`](crate::Mutex) of the same name excludes and takes no number.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{ErrorKind, FenceGate, Locks};
///
/// let locks = Locks::memory();
/// let disk = FenceGate::new(); // in the process that owns the resource
///
/// let paused = locks.fenced("disk:7").lock().await?;
/// locks.fenced("disk:7").force_unlock().await?; // or its lease ended while it slept
/// let next = locks.fenced("disk:7").lock().await?;
///
/// disk.admit(next.token())?;
/// let late = disk.admit(paused.token()).unwrap_err();
/// assert_eq!(late.kind(), ErrorKind::Lost);
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Fenced {
    handle: Handle,
}

exclusive_handle!(Fenced, ClaimKind::Fenced);

impl Fenced {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Fenced {
        Fenced { handle: Handle::new(engine, name, Kind::Fenced) }
    }

    /// Acquires the lock; waits without a limit unless [`wait`](Acquire::wait) sets one. The guard has the token.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its
    /// lease.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    #[track_caller]
    pub fn lock(&self) -> Acquire<FencedGuard, Must> {
        self.handle.acquire(ClaimKind::Fenced)
    }

    /// Acquires the lock, or returns `None` if it is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Cancel safety
    /// As [`lock`](Fenced::lock).
    ///
    /// # Errors
    /// As [`lock`](Fenced::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<FencedGuard, May> {
        self.handle.acquire(ClaimKind::Fenced)
    }
}

impl From<Fenced> for Member {
    fn from(fenced: Fenced) -> Member {
        fenced.handle.member(ClaimKind::Fenced)
    }
}
