//! One owner at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::owner::Owner;
use crate::request::{Acquire, May, Must};
use crate::store::{Holder, Kind, Snapshot, What};

/// One owner at a time: Redisson's `RLock`.
///
/// A handle is a name; it costs nothing and can be cloned. What is held is the [`Guard`].
///
/// # When not
/// When waiters must be served in the order in which they came, or when many may read at once.
///
/// # Guarantees
/// At most one owner is inside while the store keeps its memory and the holder obeys [`Guard::lost`]. The guides say
/// what cannot be promised, and what a fencing token adds.
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
    engine: Arc<Engine>,
    /// A bad name is reported when the handle is used: making one does no I/O and cannot fail.
    name: Result<Arc<str>>,
}

impl Mutex {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Mutex {
        Mutex { engine, name: name.map_err(|e| e.about(Kind::Mutex, &Arc::from(""))) }
    }

    /// Acquires; waits for as long as it takes, or [`wait`](Acquire::wait) says.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves nothing behind: an acquisition that is under way falls back by itself.
    ///
    /// # Errors
    /// `WaitTimeout` if the lock stayed busy for the whole wait; `Unavailable` or `Indeterminate` if the store cannot be
    /// reached; `Conflict` if something else stands under the name; `InvalidName`, `InvalidDuration`, `Closed`.
    pub fn lock(&self) -> Acquire<Guard, Must> {
        Acquire::new(self.engine.clone(), self.name.clone(), Kind::Mutex, What::Exclusive)
    }

    /// Acquires if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if the lock is busy.
    ///
    /// # Cancel safety
    /// As [`lock`](Mutex::lock).
    ///
    /// # Errors
    /// As [`lock`](Mutex::lock), but never `WaitTimeout`.
    pub fn try_lock(&self) -> Acquire<Guard, May> {
        Acquire::new(self.engine.clone(), self.name.clone(), Kind::Mutex, What::Exclusive)
    }

    /// Frees the lock whoever holds it; true if anybody did. For operators: the holder is only told.
    ///
    /// A holder in this process learns of it at once, one elsewhere when it renews.
    pub async fn force_unlock(&self) -> Result<bool> {
        let before = self.engine.force(self.named()?).await.map_err(|e| self.about(e))?;
        if before.is_held() {
            let holder = &before.holders[0].owner;
            tracing::warn!(target: "distlock", name = &*before.name, %holder, "lock freed by force");
        }
        Ok(before.is_held())
    }

    /// Frees what `owner` holds although its guard is gone, for instance after [`Guard::leak`].
    ///
    /// # Errors
    /// `NotHeld` if that owner does not hold it, or holds it through a guard of this process.
    pub async fn unlock(&self, owner: &Owner) -> Result<()> {
        let released = self.engine.release_leaked(Kind::Mutex, self.named()?, *owner).await;
        released.map_err(|e| self.about(e))
    }

    /// Whether anybody holds it.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.is_held())
    }

    /// Whether this owner holds it.
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool> {
        Ok(self.hold_count(owner).await? > 0)
    }

    /// How many times this owner holds it.
    pub async fn hold_count(&self, owner: &Owner) -> Result<u32> {
        Ok(self.inspect().await?.depth_of(owner))
    }

    /// How long it stays locked unless it is renewed; `None` if it is free.
    pub async fn ttl(&self) -> Result<Option<Duration>> {
        Ok(self.inspect().await?.ttl)
    }

    /// Who holds it, if anybody does.
    pub async fn holder(&self) -> Result<Option<Holder>> {
        Ok(self.inspect().await?.holders.into_iter().next())
    }

    /// Everything the store knows about it.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.engine.inspect(self.named()?).await.map_err(|e| self.about(e))
    }

    /// The full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn named(&self) -> Result<&Arc<str>> {
        self.name.as_ref().map_err(Clone::clone)
    }

    fn about(&self, error: Error) -> Error {
        match &self.name {
            Ok(name) => error.about(Kind::Mutex, name),
            Err(_) => error,
        }
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mutex").field(&self.name()).finish()
    }
}
