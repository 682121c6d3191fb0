//! A number of permits, each with a lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use super::semaphore::some;
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must, check_lease};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Permits;
use crate::locks::config;
use crate::store::{Admin, ClaimKind, Kind, LeasedOp, PermitId, Snapshot};

/// A number of permits, each with an id and a lease: Redisson's `RPermitExpirableSemaphore`.
///
/// A handle is a name: creating and cloning one does no I/O. The hold is the [`Permits`]; dropping them returns them. Without a
/// [`lease`](Acquire::lease) the watchdog renews the permits for as long as their guard lives; with one they return when
/// it ends. The number of permits is set once, by [`init`](LeasedSemaphore::init) or by the first acquire
/// ([`with_permits`](LeasedSemaphore::with_permits)).
///
/// # When not
/// When Java services use `RSemaphore` under the same name: that is a [`Semaphore`](crate::Semaphore). When only one
/// permit is needed: a [`Mutex`](crate::Mutex) costs less.
///
/// # Guarantees
/// Never are more permits held than there are, while the store keeps its data, no process takes held permits back by force or lowers
/// their number, and holders obey [`lost`](crate::Guard::lost). A permit that has expired returns once, and cannot be released or
/// extended any more. An acquire or a release whose reply is lost is sent again and counts once. Waiters of one process are served in the
/// order of arrival; between processes there is no order. A waiter also polls when the next lease ends, and now
/// and then, so a lost message only delays it.
///
/// # If the holder dies
/// Its permits return when their leases end: at most the watchdog's timeout (30 s unless configured) after the last
/// renewal.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, its
/// permits end with their lease. The other methods send one command: if their future is dropped, it may or may not have been applied.
///
/// # Errors
/// `NotHeld` for an id that is unknown or has expired, `Config` for zero permits, `InvalidDuration`, `Conflict` if the name
/// holds something else; `Unavailable` if the store cannot be reached; `Indeterminate` from a method that changes the number of permits
/// if its reply was lost.
///
/// # Redisson compatibility
/// The same number, sorted set, channel and messages as `RedissonClient.getPermitExpirableSemaphore(name)` since 3.17: Java and
/// Rust share the permits, wake each other and can release each other's by id. Leases follow the server's clock, Java's
/// the clock of the Java client. Queries write nothing.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let workers = locks.leased_semaphore("workers").with_permits(3);
///
/// let two = workers.acquire(2).await?; // renewed for as long as it lives
/// let brief = workers.try_acquire(1).lease(Duration::from_secs(10)).await?; // at most ten seconds
/// assert_eq!((workers.available().await?, workers.acquired().await?), (0, 3));
/// two.release().await?;
///
/// // An id can be handed to another process, which gives the permit back.
/// let brief = brief.expect("one was left");
/// let id = brief.ids()[0];
/// brief.leak();
/// workers.release(&[id]).await?;
/// assert_eq!(workers.available().await?, 3);
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct LeasedSemaphore {
    handle: Handle,
    initial: Option<u32>,
}

impl LeasedSemaphore {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> LeasedSemaphore {
        let handle = Handle::new(engine, name, Kind::LeasedSemaphore);
        LeasedSemaphore { handle, initial: None }
    }

    /// Returns the same semaphore whose first acquire also sets the number of permits: [`init`](LeasedSemaphore::init) in the
    /// same atomic operation. Changes nothing if the number has been set before.
    #[must_use]
    pub fn with_permits(self, permits: u32) -> LeasedSemaphore {
        LeasedSemaphore { initial: Some(permits), ..self }
    }

    /// Acquires so many permits at once, at most 10 000; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Errors
    /// `WaitTimeout` if too few were free for the whole wait; `Config` for zero permits or too many; `Unavailable` or
    /// `Indeterminate` if the store cannot be reached; `Conflict`, `InvalidName`, `InvalidDuration`, `Closed`.
    #[track_caller]
    pub fn acquire(&self, permits: u32) -> Acquire<Permits, Must> {
        Acquire::one(self.permits(permits))
    }

    /// Acquires so many permits at once, or returns `None` if too few are free: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Errors
    /// As [`acquire`](LeasedSemaphore::acquire), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_acquire(&self, permits: u32) -> Acquire<Permits, May> {
        Acquire::one(self.permits(permits))
    }

    /// Returns so many permits as one of several locks that are [acquired together](crate::MultiLock).
    pub fn permits(&self, permits: u32) -> Member {
        some(&self.handle, self.what(permits), permits, config::MOST_LEASED)
    }

    /// Sets the number of permits if it is not set, and returns whether it did. Redisson's `trySetPermits`.
    pub async fn init(&self, permits: u32) -> Result<bool> {
        Ok(self.admin(LeasedOp::Init(permits)).await? == 1)
    }

    /// Sets the number of permits, those that are held included, and returns how many are free then: below zero until enough
    /// are returned.
    pub async fn set(&self, permits: u32) -> Result<i64> {
        self.admin(LeasedOp::Set(permits)).await
    }

    /// Adds permits, or takes some away, and returns how many are free then: below zero until enough are returned.
    pub async fn add(&self, permits: i64) -> Result<i64> {
        self.admin(LeasedOp::Add(permits)).await
    }

    /// Returns how many permits are free; 0 if the number has not been set.
    pub async fn available(&self) -> Result<i64> {
        self.admin(LeasedOp::Available).await
    }

    /// Returns how many permits are held.
    pub async fn acquired(&self) -> Result<i64> {
        self.admin(LeasedOp::Acquired).await
    }

    /// Releases these permits, all or none. For ids from another process or a leaked guard. If a guard still holds one of them, it is
    /// lost at its next renewal, or with a fixed lease at its deadline.
    ///
    /// # Errors
    /// `NotHeld` if one of them is unknown or has expired, in which case none was released; `Config` for an empty list;
    /// after `Indeterminate` it can be called again.
    pub async fn release(&self, ids: &[PermitId]) -> Result<()> {
        if ids.is_empty() {
            let text = "no permits to release: name at least one";
            return Err(self.handle.about(Error::new(ErrorKind::Config, text)));
        }
        match self.admin(LeasedOp::Release(ids.to_vec())).await? {
            0 => {
                Err(self
                    .unknown("one of these permits is unknown or has expired; none was released"))
            }
            _ => Ok(()),
        }
    }

    /// Gives this permit a new lease from now on, longer or shorter than the rest of the old one.
    ///
    /// # Errors
    /// `NotHeld` if it is unknown or has expired; `InvalidDuration`.
    pub async fn extend(&self, id: PermitId, lease: Duration) -> Result<()> {
        let lease = check_lease(lease).map_err(|e| self.handle.about(e))?;
        let millis = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        match self.admin(LeasedOp::Extend(id, millis)).await? {
            0 => Err(self.unknown("this permit is unknown or has expired")),
            _ => Ok(()),
        }
    }

    /// Returns how long this permit stays held unless it is renewed: [`Duration::MAX`] for one of Java's that has no lease, `None`
    /// if it is unknown or has expired.
    pub async fn remaining(&self, id: PermitId) -> Result<Option<Duration>> {
        Ok(match self.admin(LeasedOp::Remaining(id)).await? {
            -1 => Some(Duration::MAX),
            left => u64::try_from(left).ok().map(Duration::from_millis),
        })
    }

    /// Releases every permit that is held, whatever its owner, and returns whether there was one.
    ///
    /// For operators. A guard of the same `Locks` (or a clone of it) is lost at once; any other guard at its next renewal, or with a
    /// fixed lease at its deadline. Until then its holder works beside the next one.
    pub async fn force_unlock(&self) -> Result<bool> {
        Ok(self.handle.force(self.what(1)).await?.is_held())
    }

    /// Removes the semaphore and returns whether there was one. Permits that are held are lost.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.admin(LeasedOp::Delete).await? == 1)
    }

    /// Returns how many permits are free and which are held; the time to live is that of the permit whose lease ends next.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(self.what(1)).await
    }

    /// Returns the full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    fn what(&self, count: u32) -> ClaimKind {
        ClaimKind::LeasedPermits { count, initial: self.initial }
    }

    async fn admin(&self, op: LeasedOp) -> Result<i64> {
        self.handle.admin(Admin::Leased(op)).await
    }

    fn unknown(&self, text: &str) -> Error {
        self.handle.about(Error::new(ErrorKind::NotHeld, text))
    }
}

impl fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeasedSemaphore").field(&self.name()).finish()
    }
}
