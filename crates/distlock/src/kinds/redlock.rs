//! A majority of independent servers.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::store::{ClaimKind, Kind};

/// One owner at a time, by a majority of independent servers: Redisson's `RedissonRedLock`.
///
/// Each node is a `Locks` of its own, on a server that shares nothing with the others: no replication between them, no common
/// disk.
///
/// # When not
/// When one server, with or without replicas, is good enough: that is simpler and faster. When a second writer must be impossible:
/// then the resource must check a fencing token, which a majority cannot issue.
///
/// # Guarantees
/// At most one owner holds the lock while a majority of the servers keep their data, clocks differ in rate by less than one
/// per cent, no process forces the lock free, and holders obey [`Guard::lost`]. A minority that is down, slow or refuses does not
/// matter. A server that restarts empty gets the hold back with the next renewal, as long as a majority still has it; a server that
/// restarts empty *during* a hold without renewal can, together with others that never had the hold, make a second majority: keep
/// restarted servers out for longer than the longest lease.
///
/// When `unlock` returns, a majority has released the lock. The last server may take a moment more, so a single try of another process
/// in that moment can find the lock busy: give it a short [`wait`](Acquire::wait).
///
/// # If the holder dies
/// The lock is free when its lease has ended on a majority.
///
/// # Redisson compatibility
/// On each server it is the hash of a plain lock.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::{Locks, RedLock};
///
/// let nodes = [Locks::memory(), Locks::memory(), Locks::memory()]; // in production: three or five servers
/// let ledger = RedLock::new("ledger", &nodes);
/// let guard = ledger.lock().wait(Duration::from_secs(1)).lease(Duration::from_secs(8)).await?;
/// assert!(ledger.try_lock().await?.is_none());
/// guard.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct RedLock {
    handle: Handle,
}

exclusive_handle!(RedLock, ClaimKind::Exclusive);

impl RedLock {
    /// Returns the lock with this name on a majority of these servers.
    pub fn new(name: impl AsRef<str>, nodes: &[Locks]) -> RedLock {
        let (engine, name) = match Locks::majority_of(nodes) {
            Ok(all) => (all.engine(), all.full_name(name.as_ref())),
            // Reported when it is used, as bad names are.
            Err(e) => {
                let name = Arc::from(name.as_ref());
                (Locks::memory().engine(), Err(e.about(Kind::Redlock, &name)))
            }
        };
        RedLock { handle: Handle::new(engine, name, Kind::Redlock) }
    }

    /// Acquires the lock; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; on a server that is unreachable, it ends with
    /// its lease.
    ///
    /// # Errors
    /// `NoQuorum` if too few servers reply, with the error of each; `WaitTimeout` if the lock stayed busy; `Config` if
    /// the nodes are not different servers; the rest as [`Mutex::lock`](crate::Mutex::lock).
    #[track_caller]
    pub fn lock(&self) -> Acquire<Guard, Must> {
        self.handle.acquire(ClaimKind::Exclusive)
    }

    /// Acquires the lock, or returns `None` if it is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Errors
    /// As [`lock`](RedLock::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        self.handle.acquire(ClaimKind::Exclusive)
    }
}

impl From<RedLock> for Member {
    fn from(lock: RedLock) -> Member {
        lock.handle.member(ClaimKind::Exclusive)
    }
}

/// The nodes as one `Locks`, if they can be.
pub(crate) fn check(nodes: &[Locks]) -> Result<()> {
    let wrong = |text: String| Err(Error::new(ErrorKind::Config, text));
    let Some(first) = nodes.first() else {
        return wrong("the RedLock has no servers: pass at least one to RedLock::new".to_owned());
    };
    for (at, node) in nodes.iter().enumerate() {
        if node.prefix() != first.prefix() {
            let (one, other) = (first.prefix(), node.prefix());
            let text = format!(
                "the servers of the RedLock have different prefixes, {one:?} and {other:?}: connect to all with the same prefix"
            );
            return wrong(text);
        }
        let same =
            |other: &&Locks| Arc::ptr_eq(&other.engine(), &node.engine()) || node.is_at(other);
        if let Some(twice) = nodes[..at].iter().find(same) {
            let place = twice.engine().store.place();
            return wrong(format!("{place} is given twice: a majority needs different servers"));
        }
    }
    Ok(())
}
