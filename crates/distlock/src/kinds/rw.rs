//! Many readers or one writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::guard::{ReadGuard, WriteGuard};
use crate::member::Member;
use crate::owner::Owner;
use crate::request::{Acquire, May, Must};
use crate::store::{Kind, Mode, Snapshot, What};

/// Many readers or one writer: Redisson's `RReadWriteLock`.
///
/// A handle is a name; it costs nothing and can be cloned. What is held is a [`ReadGuard`] or a [`WriteGuard`].
///
/// # When not
/// When reading is brief: a [`Mutex`](crate::Mutex) costs less. When whoever reads may want to write: an owner that reads
/// cannot write before it has let go of its read, and one that waits to write while it reads waits for ever. Take the
/// writing half from the start and [`downgrade`](WriteGuard::downgrade). Whoever reads and reads again must say that it is
/// the same: with [`owner`](Acquire::owner) or inside [`Owner::scope`]. As a stranger it may have to stand behind a writer
/// that waits for its first read to end.
///
/// # Guarantees
/// - Never two writers, and never a writer together with a reader that is somebody else, while the store keeps its memory
///   and holders obey [`Guard::lost`](crate::Guard::lost).
/// - A writer may read as well: pass its owner on, or [`downgrade`](WriteGuard::downgrade).
/// - Each reader has a lease of its own. A short one never ends another's, and a reader that died keeps a writer out for
///   no longer than its own lease. Levels of one owner share one life, that of the longest.
/// - **Readers do not keep a writer out for ever.** While a writer waits for readers, readers of this library that come
///   later stand behind it; those who are inside may go deeper. A writer that gives up or dies is stood behind no longer,
///   at the latest after 2.5 s. A single try is stood behind by nobody.
/// - **Nor do writers a reader.** When a writer leaves, whoever waits is told, readers and writers alike, and whoever asks
///   first is next: a race that anybody can win, not an order. All readers that wait come in together.
///
/// # If the holder dies
/// What it held is free when its lease ends: at most the watchdog's timeout (30 s unless configured) after the last renewal.
///
/// # Redisson compatibility
/// The same keys, channel and messages as `RedissonClient.getReadWriteLock(name)`: Java and Rust exclude and wake each
/// other. Java's readers know nothing of a writer of this library that waits, and do not stand behind it. Java's watchdog
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
/// let reading = writing.downgrade().await?; // reads on, and lets other readers in
/// assert!(prices.try_read().await?.is_some());
/// reading.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Rw {
    handle: Handle,
}

/// Is implemented by no type: it words the compiler's error for `rw.lock()`.
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
const WRITE: What = What::Write { waits: false };

impl Rw {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Rw {
        Rw { handle: Handle::new(engine, name, Kind::Rw) }
    }

    /// Acquires to read; waits for as long as it takes, or [`wait`](Acquire::wait) says.
    ///
    /// # Cancel safety
    /// Dropping the future at any point leaves nothing behind: an acquisition that is under way falls back by itself.
    ///
    /// # Errors
    /// `WaitTimeout` if it could not be had for the whole wait; `Unavailable` or `Indeterminate` if the store cannot be
    /// reached; `Conflict` if something else stands under the name; `InvalidName`, `InvalidDuration`, `Closed`.
    #[track_caller]
    pub fn read(&self) -> Acquire<ReadGuard, Must> {
        self.handle.acquire(What::Read)
    }

    /// Acquires to read if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if somebody else writes, or
    /// waits to.
    ///
    /// # Cancel safety
    /// As [`read`](Rw::read).
    ///
    /// # Errors
    /// As [`read`](Rw::read), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_read(&self) -> Acquire<ReadGuard, May> {
        self.handle.acquire(What::Read)
    }

    /// Acquires to write; waits for as long as it takes, or [`wait`](Acquire::wait) says. Readers that come meanwhile stand
    /// behind it.
    ///
    /// # Cancel safety
    /// As [`read`](Rw::read); readers that stood behind it come in at once.
    ///
    /// # Errors
    /// As [`read`](Rw::read).
    #[track_caller]
    pub fn write(&self) -> Acquire<WriteGuard, Must> {
        self.handle.acquire(WRITE)
    }

    /// Acquires to write if it can: one attempt unless [`wait`](Acquire::wait) says more. `None` if anybody reads or writes.
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

    /// A read hold as one of several locks that are [acquired together](crate::MultiLock).
    pub fn reader(&self) -> Member {
        self.handle.clone().member(What::Read)
    }

    /// The write hold as one of several locks that are [acquired together](crate::MultiLock).
    pub fn writer(&self) -> Member {
        self.handle.clone().member(WRITE)
    }

    /// Throws every reader out; true if there was one. Does nothing while somebody writes, be it one who reads as well.
    ///
    /// For operators: readers in this process learn of it at once, those elsewhere when they renew.
    pub async fn force_unlock_read(&self) -> Result<bool> {
        Ok(self.handle.force(What::Read).await?.is_held())
    }

    /// Throws the writer out, with what it reads; true if there was one. Does nothing while nobody writes.
    ///
    /// For operators: a writer in this process learns of it at once, one elsewhere when it renews.
    pub async fn force_unlock_write(&self) -> Result<bool> {
        Ok(self.handle.force(WRITE).await?.is_held())
    }

    /// Frees what `owner` reads although its guard is gone, for instance after [`ReadGuard::leak`].
    ///
    /// # Errors
    /// `NotHeld` if that owner does not read, or does so through a guard of this process.
    pub async fn unlock_read(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(What::Read, owner).await
    }

    /// Frees what `owner` writes although its guard is gone, for instance after [`WriteGuard::leak`].
    ///
    /// # Errors
    /// `NotHeld` if that owner does not write, or does so through a guard of this process.
    pub async fn unlock_write(&self, owner: &Owner) -> Result<()> {
        self.handle.unlock(WRITE, owner).await
    }

    /// Whether anybody reads; a writer that reads as well does.
    pub async fn is_read_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.holders.iter().any(|holder| holder.mode == Mode::Read))
    }

    /// Whether anybody writes.
    pub async fn is_write_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.holders.iter().any(|holder| holder.mode == Mode::Write))
    }

    /// Whether anybody reads or writes.
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.inspect().await?.is_held())
    }

    /// Whether this owner reads or writes.
    pub async fn is_held_by(&self, owner: &Owner) -> Result<bool> {
        let seen = self.inspect().await?;
        Ok(seen.depth_of(&self.handle.engine.owner_of(&seen.name, *owner)) > 0)
    }

    /// How many times this owner reads.
    pub async fn read_hold_count(&self, owner: &Owner) -> Result<u32> {
        self.count(owner, Mode::Read).await
    }

    /// How many times this owner writes.
    pub async fn write_hold_count(&self, owner: &Owner) -> Result<u32> {
        self.count(owner, Mode::Write).await
    }

    /// How long it stays locked unless it is renewed, with several readers as long as the last of them; `None` if it is
    /// free.
    pub async fn ttl(&self) -> Result<Option<Duration>> {
        Ok(self.inspect().await?.ttl)
    }

    /// Everything the store knows about it.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(What::Read).await
    }

    async fn count(&self, owner: &Owner, mode: Mode) -> Result<u32> {
        let seen = self.inspect().await?;
        let owner = self.handle.engine.owner_of(&seen.name, *owner).to_string();
        let own = seen.holders.iter().filter(|holder| holder.mode == mode && holder.owner == owner);
        Ok(own.map(|holder| holder.depth).sum())
    }

    /// The full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}

impl fmt::Debug for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rw").field(&self.name()).finish()
    }
}
