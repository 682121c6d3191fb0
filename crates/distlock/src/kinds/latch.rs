//! A count that callers wait for until it is zero.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use crate::acquire::{Acquire, AcquiredHolds, May, Must};
use crate::engine::{self, Detached, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Admin, ClaimKind, Kind, LatchOp, Snapshot};

/// A count that is counted down, and for which any number of callers wait until it is zero: Redisson's `RCountDownLatch`.
///
/// A handle is a name: creating and cloning one does no I/O. A latch that has not been set is open.
///
/// # When not
/// When waiters should continue one by one: that is a lock. When the same parties meet again and again: use a latch with
/// a name of its own for each round, because a latch that is set anew while a caller still waits for the last round keeps that
/// caller waiting.
///
/// # Guarantees
/// Every wait ends once the count is zero, or the latch is deleted, while the store can be reached. The count never goes below zero. A
/// count-down whose reply is lost is sent again and counts once. A waiter also polls now and then, so a lost message only
/// delays it.
///
/// # If the holder dies
/// A latch has no holder. A process that dies before it counts down leaves the count as it is: wait with
/// [`wait_for`](Latch::wait_for), or [`reset`](Latch::reset) it.
///
/// # Cancel safety
/// Dropping a wait ends its subscription; a wait holds nothing. A [`count_down`](Latch::count_down) that has begun is completed in
/// the background. The other methods send one command: if their future is dropped, it may or may not have been applied.
///
/// # Errors
/// `Conflict` if the name holds something else; `Unavailable` if the store cannot be reached; `Indeterminate` from a method that
/// changes the count if its reply was lost.
///
/// # Redisson compatibility
/// The same number, channel and messages as `RedissonClient.getCountDownLatch(name)`: Java and Rust count down together and wake
/// each other. Deleting a latch ends the waits of Java as well.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::memory();
/// let ready = locks.latch("ready");
/// assert!(ready.init(2).await?); // false if it is set already
///
/// assert_eq!(ready.count_down().await?, 1);
/// assert!(!ready.wait_for(Duration::from_millis(10)).await?); // not yet
/// assert_eq!(ready.count_down().await?, 0);
/// ready.wait().await?; // at once
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Latch {
    handle: Handle,
}

/// Nothing is held after waiting for a latch.
impl From<AcquiredHolds> for () {
    fn from(_: AcquiredHolds) {}
}

impl Latch {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Latch {
        Latch { handle: Handle::new(engine, name, Kind::Latch) }
    }

    /// Sets the count if there is none, and returns whether it did. Redisson's `trySetCount`. A latch of zero is open, like one that
    /// has not been set.
    pub async fn init(&self, count: u32) -> Result<bool> {
        Ok(self.admin(LatchOp::Init(count)).await? == 1)
    }

    /// [`init`](Latch::init) for blocking code.
    pub fn init_blocking(&self, count: u32) -> Result<bool> {
        let latch = self.clone();
        self.block_on(async move { latch.init(count).await })
    }

    /// Counts down by one and returns the new count. At zero every wait ends; the count stays zero then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the count-down is completed in the background.
    ///
    /// # Errors
    /// `Indeterminate` if no reply came in time although the command was sent again.
    pub async fn count_down(&self) -> Result<i64> {
        let latch = self.clone();
        let env = &self.handle.engine.env;
        let counted = Detached::new(env, |_| async move { latch.counted_down().await }).await;
        counted.unwrap_or_else(|| {
            let text = "the count-down was interrupted: it may or may not have been counted";
            Err(Error::new(ErrorKind::Indeterminate, text))
        })
    }

    /// [`count_down`](Latch::count_down) for blocking code.
    pub fn count_down_blocking(&self) -> Result<i64> {
        let latch = self.clone();
        self.block_on(async move { latch.counted_down().await })
    }

    async fn counted_down(&self) -> Result<i64> {
        let request = self.handle.engine.mint_owner();
        let count_down = Admin::Latch(LatchOp::CountDown { request });
        let (left, unsure) = self.handle.admin_unsure(count_down).await?;
        // A request without an answer may still arrive: the store must know that it was done, until it forgets by itself.
        if unsure {
            return Ok(left);
        }
        // It is not asked again, so the store need not know any more. If this does not arrive, it forgets by itself.
        let latch = self.clone();
        self.handle.engine.env.spawn(Box::pin(async move {
            let _ = latch.admin(LatchOp::Forget { request }).await;
        }));
        Ok(left)
    }

    /// Returns the count; 0 if there is none.
    pub async fn count(&self) -> Result<i64> {
        self.admin(LatchOp::Count).await
    }

    /// Waits until the count is zero, without a limit unless [`wait`](Acquire::wait) sets one. Completes at once if there is no
    /// latch.
    ///
    /// # Errors
    /// `WaitTimeout` if it was not zero for the whole wait; `Unavailable` if the store cannot be reached; `Conflict`,
    /// `InvalidName`, `Closed`.
    #[track_caller]
    pub fn wait(&self) -> Acquire<(), Must> {
        self.handle.acquire(ClaimKind::LatchOpen)
    }

    /// Waits until the count is zero, for at most this long, and returns whether it is. Zero means a single query.
    ///
    /// # Errors
    /// As [`wait`](Latch::wait), but never `WaitTimeout`.
    pub async fn wait_for(&self, wait: Duration) -> Result<bool> {
        Ok(self.opens_within(wait).await?.is_some())
    }

    /// [`wait_for`](Latch::wait_for) for blocking code; [`wait`](Latch::wait) has `.blocking()`.
    pub fn wait_for_blocking(&self, wait: Duration) -> Result<bool> {
        Ok(self.opens_within(wait).blocking()?.is_some())
    }

    fn opens_within(&self, wait: Duration) -> Acquire<(), May> {
        self.handle.acquire(ClaimKind::LatchOpen).wait(wait)
    }

    /// Sets the count whether or not there is one, and returns the old count. Zero opens the latch.
    pub async fn reset(&self, count: u32) -> Result<i64> {
        self.admin(LatchOp::Reset(count)).await
    }

    /// Removes the latch, which ends every wait, and returns whether there was one.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.admin(LatchOp::Delete).await? == 1)
    }

    /// Returns what the store knows about the latch: its count.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(ClaimKind::LatchOpen).await
    }

    /// Returns the full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    async fn admin(&self, op: LatchOp) -> Result<i64> {
        self.handle.admin(Admin::Latch(op)).await
    }

    fn block_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        engine::block_on(&*self.handle.engine.env, Box::pin(work))
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Latch").field(&self.name()).finish()
    }
}
