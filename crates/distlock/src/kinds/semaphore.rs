//! A number of permits.

use std::fmt;
use std::sync::Arc;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Permits;
use crate::member::Member;
use crate::owner::Owner;
use crate::request::{Acquire, May, Must};
use crate::store::{Admin, Kind, PermitsOp, Snapshot, What};

/// A number of permits that are taken and given back: Redisson's `RSemaphore`.
///
/// A handle is a name; it costs nothing and can be cloned. What is held is [`Permits`], which dropping gives back. How many
/// permits there are is set once, by [`init`](Semaphore::init) or by whoever acquires first
/// ([`with_permits`](Semaphore::with_permits)); a semaphore that nobody has set has none, and waiting for it is waiting until
/// somebody does.
///
/// # When not
/// When a holder may die: its permits are gone until somebody gives them back by hand. A
/// [`LeasedSemaphore`](crate::LeasedSemaphore) takes them back by itself, and is what you want unless Java services use
/// `RSemaphore` under the same name. When each permit stands for a thing of its own, such as a connection.
///
/// # Guarantees
/// Never are more permits out than were put in. An acquisition or a release whose answer is lost is sent again and counts
/// once; releasing twice is not possible through a guard. Waiters of one process are served in the order in which they came,
/// a large request before the small ones behind it; between processes there is no order. A waiter looks by itself now
/// and then, so a lost message delays it and no more.
///
/// # If the holder dies
/// Its permits stay out, except on `file:`, where it is known who is dead. [`inspect`](Semaphore::inspect) says who has how
/// many; [`unlock`](Semaphore::unlock) gives back what one owner has and [`force_unlock`](Semaphore::force_unlock) what all have. Permits that Java or
/// [`add`](Semaphore::add) took out are known to nobody: [`release`](Semaphore::release) puts them back.
///
/// # Cancel safety
/// Dropping the future of an acquisition at any point leaves nothing behind. The other methods send one command: dropped,
/// it may or may not have been done.
///
/// # Errors
/// `Unsupported` for a lease, `Config` for zero permits, `Conflict` if something else stands under the name, and whatever
/// befalls the store. A method that changes the number and cannot tell whether it did says `Indeterminate`.
///
/// # Redisson compatibility
/// The same number, channel and messages as `RedissonClient.getSemaphore(name)`: Java and Rust share the permits and wake each
/// other. Who has how many stands in a hash beside it, which Java does not look at.
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

    /// The same, and whoever acquires first says that there are so many permits in all: [`init`](Semaphore::init) in the
    /// same step. Changes nothing if the number has been set before.
    #[must_use]
    pub fn with_permits(self, permits: u32) -> Semaphore {
        Semaphore { initial: Some(permits), ..self }
    }

    /// Acquires so many permits at once; waits for as long as it takes, or [`wait`](Acquire::wait) says.
    ///
    /// # Errors
    /// `WaitTimeout` if there were too few for the whole wait; `Config` for zero permits; `Unsupported` with a lease;
    /// `Unavailable` or `Indeterminate` if the store cannot be reached; `Conflict`, `InvalidName`, `Closed`.
    #[track_caller]
    pub fn acquire(&self, permits: u32) -> Acquire<Permits, Must> {
        Acquire::one(self.permits(permits))
    }

    /// Acquires so many permits if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if there are
    /// too few.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_acquire(&self, permits: u32) -> Acquire<Permits, May> {
        Acquire::one(self.permits(permits))
    }

    /// So many permits as one of several locks that are [acquired together](crate::MultiLock).
    pub fn permits(&self, permits: u32) -> Member {
        some(&self.handle, self.what(permits), permits, u32::MAX)
    }

    /// Sets the number of permits if nobody has before; true if it did. Redisson's `trySetPermits`.
    pub async fn init(&self, permits: u32) -> Result<bool> {
        Ok(self.admin(PermitsOp::Init(permits)).await? == 1)
    }

    /// Adds permits, or takes some away: how many are left then, which may be below zero until enough come back.
    pub async fn add(&self, permits: i64) -> Result<i64> {
        self.admin(PermitsOp::Add(permits)).await
    }

    /// Takes all permits that are left, for good: how many that were.
    pub async fn drain(&self) -> Result<i64> {
        self.admin(PermitsOp::Drain).await
    }

    /// How many permits are left; 0 if nobody has set any.
    pub async fn available(&self) -> Result<i64> {
        self.admin(PermitsOp::Available).await
    }

    /// Gives back permits for which there is no guard: how many are left then. Makes the semaphore if there is none.
    /// For permits that were acquired elsewhere, or [drained](Semaphore::drain); those of a guard come back by themselves.
    pub async fn release(&self, permits: u32) -> Result<i64> {
        self.admin(PermitsOp::Release(permits)).await
    }

    /// [`release`](Semaphore::release), but only if there is a semaphore: true if there is.
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool> {
        Ok(self.admin(PermitsOp::ReleaseIfExists(permits)).await? == 1)
    }

    /// Gives back what `owner` has although its guard is gone, for instance after [`Permits::leak`] or when its process died.
    ///
    /// # Errors
    /// `NotHeld` if that owner has no permits, or has them through a guard of this process.
    pub async fn unlock(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(self.what(1), owner).await
    }

    /// Gives back the permits of every owner that is known; true if there was one. For operators: the holders are only told,
    /// and only those of this process.
    pub async fn force_unlock(&self) -> Result<bool> {
        Ok(self.handle.force(self.what(1)).await?.is_held())
    }

    /// Removes the semaphore; true if there was one. Permits that are out are worth nothing then.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.admin(PermitsOp::Delete).await? == 1)
    }

    /// How many permits are left, and who has how many through this library.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(self.what(1)).await
    }

    /// The full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    fn what(&self, count: u32) -> What {
        What::Permits { count, initial: self.initial }
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
pub(super) fn some(handle: &Handle, what: What, permits: u32, most: u32) -> Member {
    let member = handle.clone().member(what);
    let text = match permits {
        0 => "zero permits cannot be acquired: ask for at least one".to_owned(),
        _ if permits > most => format!("{permits} permits are too many at once: at most {most}"),
        _ => return member,
    };
    let error = handle.about(Error::new(ErrorKind::Config, text));
    Member { name: handle.named().and(Err(error)), ..member }
}
