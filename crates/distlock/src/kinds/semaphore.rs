//! A number of permits.

use std::fmt;
use std::sync::Arc;

use super::handle::Handle;
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Permits;
use crate::owner::Owner;
use crate::store::{Admin, ClaimKind, Kind, PermitsOp, Snapshot};

/// A number of permits that callers acquire and return: Redisson's `RSemaphore`.
///
/// A handle is a name: creating and cloning one does no I/O. The hold is the [`Permits`]; dropping them returns them. The number of
/// permits is set once, by [`init`](Semaphore::init) or by the first acquire ([`with_permits`](Semaphore::with_permits)); a semaphore
/// whose number has not been set has no permits, and an acquire waits until the number is set.
///
/// # When not
/// When a holder may die: its permits stay taken until an operator returns them. The permits of a
/// [`LeasedSemaphore`](crate::LeasedSemaphore) end with their leases: use it unless Java services use
/// `RSemaphore` under the same name. When each permit is a particular object, such as a connection.
///
/// # Guarantees
/// Never are more permits held than there are, while the store keeps its data, no process returns held permits by force or lowers their
/// number, and holders obey [`lost`](crate::Guard::lost). An acquire or a release whose reply is lost is sent again and counts
/// once; releasing twice is not possible through a guard. Waiters of one process are served in the order of arrival,
/// a large request before the small ones behind it; between processes there is no order. A waiter also polls now
/// and then, so a lost message only delays it.
///
/// # If the holder dies
/// Its permits stay taken, except on `file:`, where the store detects dead processes. [`inspect`](Semaphore::inspect) returns the owners
/// with their numbers of permits; [`unlock`](Semaphore::unlock) returns the permits of one owner and
/// [`force_unlock`](Semaphore::force_unlock) those of all. Permits that Java or [`add`](Semaphore::add) took have no owner in the store:
/// [`release`](Semaphore::release) returns them.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background. If the process ends before the store
/// replies, the permits may stay taken on Redis, because they have no lease. The other methods send one command: if their future is
/// dropped, it may or may not have been applied.
///
/// # Errors
/// `Unsupported` for a lease, `Config` for zero permits, `Conflict` if the name holds something else; `Unavailable` if the
/// store cannot be reached; `Indeterminate` from a method that changes the number of permits if its reply was lost.
///
/// # Redisson compatibility
/// The same number, channel and messages as `RedissonClient.getSemaphore(name)`: Java and Rust share the permits and wake each
/// other. The owners and their numbers of permits are in a hash beside it, which Java does not read.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let seats = locks.semaphore("seats").with_permits(5);
///
/// let three = seats.acquire(3).await?; // waits as long as it takes
/// assert_eq!(seats.available().await?, 2);
/// assert!(seats.try_acquire(3).wait(Duration::from_millis(10)).await?.is_none());
/// three.release().await?; // or drop it
/// assert_eq!(seats.available().await?, 5);
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Semaphore {
    handle: Handle,
    initial: Option<u32>,
}

impl Semaphore {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Semaphore {
        Semaphore { handle: Handle::new(engine, name, Kind::Semaphore), initial: None }
    }

    /// Returns the same semaphore whose first acquire also sets the number of permits: [`init`](Semaphore::init) in the
    /// same atomic operation. Changes nothing if the number has been set before.
    #[must_use]
    pub fn with_permits(self, permits: u32) -> Semaphore {
        Semaphore { initial: Some(permits), ..self }
    }

    /// Acquires so many permits at once; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Errors
    /// `WaitTimeout` if too few were free for the whole wait; `Config` for zero permits; `Unsupported` with a lease;
    /// `Unavailable` or `Indeterminate` if the store cannot be reached; `Conflict`, `InvalidName`, `Closed`.
    #[track_caller]
    pub fn acquire(&self, permits: u32) -> Acquire<Permits, Must> {
        Acquire::one(self.permits(permits))
    }

    /// Acquires so many permits at once, or returns `None` if too few are free: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_acquire(&self, permits: u32) -> Acquire<Permits, May> {
        Acquire::one(self.permits(permits))
    }

    /// Returns so many permits as one of several locks that are [acquired together](crate::MultiLock).
    pub fn permits(&self, permits: u32) -> Member {
        some(&self.handle, self.what(permits), permits, u32::MAX)
    }

    /// Sets the number of permits if it is not set, and returns whether it did. Redisson's `trySetPermits`.
    pub async fn init(&self, permits: u32) -> Result<bool> {
        Ok(self.admin(PermitsOp::Init(permits)).await? == 1)
    }

    /// Adds permits, or takes some away, and returns how many are free then: below zero until enough are returned.
    pub async fn add(&self, permits: i64) -> Result<i64> {
        self.admin(PermitsOp::Add(permits)).await
    }

    /// Takes all permits that are free, without a guard, and returns how many they were.
    pub async fn drain(&self) -> Result<i64> {
        self.admin(PermitsOp::Drain).await
    }

    /// Returns how many permits are free; 0 if the number has not been set.
    pub async fn available(&self) -> Result<i64> {
        self.admin(PermitsOp::Available).await
    }

    /// Gives back permits that no guard holds, and returns how many are free then. Creates the semaphore if there is none.
    /// For permits that were acquired elsewhere, or [drained](Semaphore::drain); dropping a guard returns its own permits.
    pub async fn release(&self, permits: u32) -> Result<i64> {
        self.admin(PermitsOp::Release(permits)).await
    }

    /// [`release`](Semaphore::release), but only if there is a semaphore, and returns whether there is.
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        Ok(self.admin(PermitsOp::ReleaseIfExists(permits)).await? == 1)
    }

    /// Gives back the permits of `owner` whose guard is gone, for instance after [`Permits::leak`] or when its process died.
    ///
    /// # Errors
    /// `NotHeld` if that owner has no permits, or has them through a guard of this `Locks`.
    pub async fn unlock(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(self.what(1), owner).await
    }

    /// Gives back the permits of every owner in the store, and returns whether there was one.
    ///
    /// For operators. A guard of the same `Locks` (or a clone of it) is lost at once; any other guard notices when it is released, and
    /// its holder works on until then.
    pub async fn force_unlock(&self) -> Result<bool> {
        Ok(self.handle.force(self.what(1)).await?.is_held())
    }

    /// Removes the semaphore and returns whether there was one. Permits that are held are lost.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.admin(PermitsOp::Delete).await? == 1)
    }

    /// Returns how many permits are free, and the owners that hold permits through this library.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(self.what(1)).await
    }

    /// Returns the full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    fn what(&self, count: u32) -> ClaimKind {
        ClaimKind::Permits { count, initial: self.initial }
    }

    async fn admin(&self, op: PermitsOp) -> Result<i64> {
        self.handle.admin(Admin::Permits(op)).await
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.name()).finish()
    }
}

/// Some permits to ask for; refused when they are asked for if that is not a number of them.
pub(super) fn some(handle: &Handle, what: ClaimKind, permits: u32, most: u32) -> Member {
    let member = handle.clone().member(what);
    let text = match permits {
        0 => "zero permits cannot be acquired: ask for at least one".to_owned(),
        _ if permits > most => format!("{permits} permits are too many at once: at most {most}"),
        _ => return member,
    };
    let error = handle.about(Error::new(ErrorKind::Config, text));
    Member { name: handle.named().and(Err(error)), ..member }
}
