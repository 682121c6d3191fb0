//! Many readers or one writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use crate::acquire::Member;
use crate::acquire::{Acquire, May, Must};
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::{ReadGuard, WriteGuard};
use crate::owner::Owner;
use crate::store::{ClaimKind, Kind, Mode, Snapshot};

/// Many readers or one writer: Redisson's `RReadWriteLock`.
///
/// A handle is a name: creating and cloning one does no I/O. The hold is a [`ReadGuard`] or a [`WriteGuard`].
///
/// # When not
/// When reading is brief: a [`Mutex`](crate::Mutex) costs less. When a reader may want to write: an owner that reads
/// cannot write before it has released its read, and one that waits to write while it reads waits for ever. Acquire the
/// writing half from the start and [`downgrade`](WriteGuard::downgrade). A reader that reads again meanwhile must pass its owner,
/// with [`owner`](Acquire::owner) or inside [`Owner::scope`]: with another owner it may wait for a writer that waits for its first
/// read to end.
///
/// # Guarantees
/// - Never two writers, and never a writer together with a reader that has another owner, while the store keeps its data, no process
///   forces the lock free, and holders obey [`Guard::lost`](crate::Guard::lost).
/// - A writer may read as well: pass its owner on, or [`downgrade`](WriteGuard::downgrade).
/// - Each reader has a lease of its own. A short one never ends another's, and a reader that died keeps a writer out for
///   no longer than its own lease. Re-entries of one owner share one lease, the longest.
/// - **Readers do not keep a writer out for ever.** While a writer waits for readers, later readers of this library wait until it
///   has had its turn; owners that read already may re-enter. If the writer gives up or dies, they wait for at most 2.5 s more.
///   A single try to write delays no reader.
/// - **Writers have no priority.** When a writer releases, all waiters are notified, readers and writers alike, and the first that
///   asks acquires: a race, not an order. All readers that wait acquire together.
///
/// # If the holder dies
/// Its hold is free when its lease ends: at most the watchdog's timeout (30 s unless configured) after the last renewal.
///
/// # Redisson compatibility
/// The same keys, channel and messages as `RedissonClient.getReadWriteLock(name)`: Java and Rust exclude and wake each
/// other. Java's readers do not see that a writer of this library waits, and do not wait for it. Java's watchdog
/// sets the time to live of the whole lock: if a Java reader dies, a longer lease of a reader here ends with it, unless this
/// library's watchdog renews that one.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let prices = locks.rw("prices");
///
/// let (one, two) = (prices.read().await?, prices.read().await?); // together
/// assert!(prices.try_write().await?.is_none());
/// one.unlock().await?;
/// two.unlock().await?;
///
/// let writing = prices.write().await?; // alone
/// assert!(prices.try_read().await?.is_none());
/// let reading = writing.downgrade().await?; // reads on, beside other readers
/// assert!(prices.try_read().await?.is_some());
/// reading.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Rw {
    handle: Handle,
}

/// No type implements it: it words the compiler's error for `rw.lock()`.
#[diagnostic::on_unimplemented(
    message = "a read-write lock is taken by `read()` or `write()`",
    label = "call `read()` or `write()` (or `try_read()`, `try_write()`) instead",
    note = "`rw(\"k\").read().run(work)` and `rw(\"k\").write().run(work)` hold it while `work` runs"
)]
pub trait OneHalf<'a> {}

/// Methods that exist so that the compiler names the right ones.
///
/// ```compile_fail,E0277
/// # async fn takes(locks: distlock::Locks) -> distlock::Result<()> {
/// let guard = locks.rw("k").lock().await?;
/// # Ok(()) }
/// ```
/// ```compile_fail,E0277
/// # async fn takes(locks: distlock::Locks) -> distlock::Result<()> {
/// let guard = locks.rw("k").try_lock().await?;
/// # Ok(()) }
/// ```
/// ```compile_fail,E0277
/// # async fn takes(locks: distlock::Locks) -> distlock::Result<()> {
/// let done: u32 = locks.rw("k").run(async |_| Ok(7)).await?;
/// # Ok(()) }
/// ```
/// So that these fail for no other reason:
/// ```
/// # async fn takes(locks: distlock::Locks) -> distlock::Result<()> {
/// let guard = locks.rw("k").write().await?;
/// let guard = locks.rw("k").try_read().await?;
/// let done: u32 = locks.rw("k").write().run(async |_| Ok(7)).await?;
/// # Ok(()) }
/// ```
// Higher-ranked: of a bound without a variable the compiler would say already here that it cannot be met.
#[doc(hidden)]
impl Rw {
    #[track_caller]
    pub fn lock(&self) -> Acquire<WriteGuard, Must>
    where
        for<'a> Rw: OneHalf<'a>,
    {
        self.write()
    }

    #[track_caller]
    pub fn try_lock(&self) -> Acquire<WriteGuard, May>
    where
        for<'a> Rw: OneHalf<'a>,
    {
        self.try_write()
    }

    // No `async fn`: of its opaque type the compiler would say the same at `.await` and at `?` once more.
    pub fn run<T, E: From<crate::Error>>(
        &self,
        _: impl AsyncFnOnce(crate::Scope) -> Result<T, E>,
    ) -> std::future::Ready<Result<T, E>>
    where
        for<'a> Rw: OneHalf<'a>,
    {
        unreachable!("BUG: no type is OneHalf")
    }
}

/// Whether an acquisition waits is filled in when it is made.
const WRITE: ClaimKind = ClaimKind::Write { waits: false };

impl Rw {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Rw {
        Rw { handle: Handle::new(engine, name, Kind::Rw) }
    }

    /// Acquires the lock to read; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Cancel safety
    /// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its
    /// lease.
    ///
    /// # Errors
    /// `WaitTimeout` if the lock stayed busy for the whole wait; `Unavailable` or `Indeterminate` if the store cannot be
    /// reached; `Conflict` if the name holds something else; `InvalidName`, `InvalidDuration`, `Closed`.
    #[track_caller]
    pub fn read(&self) -> Acquire<ReadGuard, Must> {
        self.handle.acquire(ClaimKind::Read)
    }

    /// Acquires the lock to read, or returns `None` if another owner writes or waits to write: one attempt unless
    /// [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Cancel safety
    /// As [`read`](Rw::read).
    ///
    /// # Errors
    /// As [`read`](Rw::read), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_read(&self) -> Acquire<ReadGuard, May> {
        self.handle.acquire(ClaimKind::Read)
    }

    /// Acquires the lock to write; waits without a limit unless [`wait`](Acquire::wait) sets one. Readers that come meanwhile wait
    /// until it has had its turn.
    ///
    /// # Cancel safety
    /// As [`read`](Rw::read); readers that waited for it acquire at once.
    ///
    /// # Errors
    /// As [`read`](Rw::read).
    #[track_caller]
    pub fn write(&self) -> Acquire<WriteGuard, Must> {
        self.handle.acquire(WRITE)
    }

    /// Acquires the lock to write, or returns `None` if an owner reads or writes: one attempt unless [`wait`](Acquire::wait) sets a
    /// wait.
    ///
    /// # Cancel safety
    /// As [`write`](Rw::write).
    ///
    /// # Errors
    /// As [`read`](Rw::read), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_write(&self) -> Acquire<WriteGuard, May> {
        self.handle.acquire(WRITE)
    }

    /// Returns the reading half as one of several locks that are [acquired together](crate::MultiLock).
    pub fn reader(&self) -> Member {
        self.handle.clone().member(ClaimKind::Read)
    }

    /// Returns the writing half as one of several locks that are [acquired together](crate::MultiLock).
    pub fn writer(&self) -> Member {
        self.handle.clone().member(WRITE)
    }

    /// Removes every read hold and returns whether there was one. Does nothing while an owner writes, even if it reads as well.
    ///
    /// For operators. A guard of the same `Locks` (or a clone of it) is lost at once; any other guard at its next renewal, or with a
    /// fixed lease at its deadline. Until then its holder works beside the next one.
    pub async fn force_unlock_read(&self) -> Result<bool> {
        Ok(self.handle.force(ClaimKind::Read).await?.is_held())
    }

    /// Removes the write hold, with the read holds of the same owner, and returns whether there was one. Does nothing while no owner
    /// writes.
    ///
    /// For operators. Guards are lost as with [`force_unlock_read`](Rw::force_unlock_read).
    pub async fn force_unlock_write(&self) -> Result<bool> {
        Ok(self.handle.force(WRITE).await?.is_held())
    }

    /// Frees the read hold of `owner` whose guard is gone, for instance after [`ReadGuard::leak`].
    ///
    /// # Errors
    /// `NotHeld` if that owner does not read, or does so through a guard of this `Locks`.
    pub async fn unlock_read(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(ClaimKind::Read, owner).await
    }

    /// Frees the write hold of `owner` whose guard is gone, for instance after [`WriteGuard::leak`].
    ///
    /// # Errors
    /// `NotHeld` if that owner does not write, or does so through a guard of this `Locks`.
    pub async fn unlock_write(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(WRITE, owner).await
    }

    /// Returns whether an owner reads; a writer that reads as well counts.
    pub async fn is_read_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.holders.iter().any(|holder| holder.mode == Mode::Read))
    }

    /// Returns whether an owner writes.
    pub async fn is_write_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.holders.iter().any(|holder| holder.mode == Mode::Write))
    }

    /// Returns whether an owner reads or writes.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.is_held())
    }

    /// Returns whether this owner reads or writes.
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool> {
        let seen = self.inspect().await?;
        Ok(seen.depth_of(&self.handle.engine.owner_of(&seen.name, *owner)) > 0)
    }

    /// Returns how many read holds this owner has.
    pub async fn read_hold_count(&self, owner: &Owner) -> Result<u32> {
        self.count(owner, Mode::Read).await
    }

    /// Returns how many write holds this owner has.
    pub async fn write_hold_count(&self, owner: &Owner) -> Result<u32> {
        self.count(owner, Mode::Write).await
    }

    /// Returns how long the lock stays held unless it is renewed, with several readers as long as the last of them; `None` if it is
    /// free.
    pub async fn ttl(&self) -> Result<Option<Duration>> {
        Ok(self.inspect().await?.ttl)
    }

    /// Returns everything that the store knows about the lock.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(ClaimKind::Read).await
    }

    async fn count(&self, owner: &Owner, mode: Mode) -> Result<u32> {
        let seen = self.inspect().await?;
        let owner = self.handle.engine.owner_of(&seen.name, *owner).to_string();
        let own = seen.holders.iter().filter(|holder| holder.mode == mode && holder.owner == owner);
        Ok(own.map(|holder| holder.depth).sum())
    }

    /// Returns the full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}

impl fmt::Debug for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rw").field(&self.name()).finish()
    }
}
