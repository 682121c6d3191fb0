//! A count that comes down to zero.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use crate::engine::{self, Detached, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::request::{Acquire, Got, May, Must};
use crate::store::{Admin, Kind, LatchOp, Snapshot, What};

/// A count that comes down to zero, and lets everybody go who waits for that: Redisson's `RCountDownLatch`.
///
/// A handle is a name; it costs nothing and can be cloned. A latch that nobody has set is open.
///
/// # When not
/// When those who wait should come in one by one: that is a lock. When the same parties meet again and again: set a latch
/// with a name of its own for each round, because one that is set anew while somebody still waits for the last
/// round keeps them waiting.
///
/// # Guarantees
/// Everybody who waits goes on once the count is zero, or the latch is deleted. The count never goes below zero. A
/// count-down whose answer is lost is sent again and counts once. A waiter looks by itself now and then, so a lost message
/// delays it and no more.
///
/// # If the holder dies
/// Nobody holds a latch. A process that dies before it counts down leaves the count where it is: wait with
/// [`wait_for`](Latch::wait_for), or [`reset`](Latch::reset) it.
///
/// # Cancel safety
/// Dropping a wait leaves nothing behind. A [`count_down`](Latch::count_down) that has begun is carried through. The other
/// methods send one command: dropped, it may or may not have been done.
///
/// # Errors
/// `Conflict` if something else stands under the name, and whatever befalls the store. A method that sets the count and
/// cannot tell whether it did says `Indeterminate`.
///
/// # Redisson compatibility
/// The same number, channel and messages as `RedissonClient.getCountDownLatch(name)`: Java and Rust count down together and wake
/// each other. Deleting a latch lets Java's waiters go, too.
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
impl From<Got> for () {
    fn from(_: Got) {}
}

impl Latch {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Latch {
        Latch { handle: Handle::new(engine, name, Kind::Latch) }
    }

    /// Sets the count if there is none; true if it did. Redisson's `trySetCount`. A latch of zero is open, which is no
    /// latch at all.
    pub async fn init(&self, count: u32) -> Result<bool> {
        Ok(self.admin(LatchOp::Init(count)).await? == 1)
    }

    /// [`init`](Latch::init) for blocking code.
    pub fn init_blocking(&self, count: u32) -> Result<bool> {
        let latch = self.clone();
        self.block_on(async move { latch.init(count).await })
    }

    /// Counts down by one: the count after it. At zero everybody who waits goes on; below it stays zero.
    ///
    /// # Cancel safety
    /// Dropping the future loses the answer, not the count-down.
    ///
    /// # Errors
    /// `Indeterminate` if no answer came in time although it was asked for again.
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

    /// The count; 0 if there is none.
    pub async fn count(&self) -> Result<i64> {
        self.admin(LatchOp::Count).await
    }

    /// Waits until the count is zero; for as long as it takes, or [`wait`](Acquire::wait) says. Ends at once if there is no
    /// latch.
    ///
    /// # Errors
    /// `WaitTimeout` if it was not zero for the whole wait; `Unavailable` if the store cannot be reached; `Conflict`,
    /// `InvalidName`, `Closed`.
    #[track_caller]
    pub fn wait(&self) -> Acquire<(), Must> {
        self.handle.acquire(What::LatchOpen)
    }

    /// Waits until the count is zero, but at most this long: whether it is. Zero means one look.
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
        self.handle.acquire(What::LatchOpen).wait(wait)
    }

    /// Sets the count whether or not there is one: what it was. Zero opens the latch.
    pub async fn reset(&self, count: u32) -> Result<i64> {
        self.admin(LatchOp::Reset(count)).await
    }

    /// Removes the latch, which lets everybody go who waits; true if there was one.
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.admin(LatchOp::Delete).await? == 1)
    }

    /// Everything the store knows about it: the count.
    pub async fn inspect(&self) -> Result<Snapshot> {
        self.handle.inspect(What::LatchOpen).await
    }

    /// The full name, prefix included; empty if the name is not valid.
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
