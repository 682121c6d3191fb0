//! The checking side of fencing: refuses those whose lock is not theirs any more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::store::state::fenced::Gate;
use crate::store::{Admin, Kind};

/// Refuses fencing tokens older than the newest it has seen. In the memory of this process: for a server that owns the
/// resource and keeps it itself.
///
/// Clients hold a [`Fenced`](crate::Fenced) lock and send its token with every request. A gate that forgets lets old tokens in:
/// one whose resource outlives the process must be kept with the resource, see [`with_highest`](FenceGate::with_highest) and
/// the guide to fencing; or in the store, see [`Locks::fence_gate`](crate::Locks::fence_gate).
///
/// # When not
/// When the resource can compare for itself, as a database can: then check and write are one step.
///
/// # Guarantees
/// After a token was let in, none below it is. What is done *after* [`admit`](FenceGate::admit) may still be overtaken by a
/// newer holder; what is done *inside* [`admit_and`](FenceGate::admit_and) is not.
///
/// # Examples
/// ```
/// use distlock::{ErrorKind, FenceGate};
///
/// let gate = FenceGate::new();
/// gate.admit(33)?;
/// gate.admit(33)?; // the same holder again
/// gate.admit(34)?; // the next one
/// let stale = gate.admit(33).unwrap_err();
/// assert_eq!(stale.kind(), ErrorKind::Lost);
///
/// let mut stock = 7;
/// gate.admit_and(35, || stock -= 1)?; // nobody newer comes in between
/// # assert_eq!(stock, 6);
/// # Ok::<(), distlock::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct FenceGate {
    gate: Mutex<Option<Gate>>,
}

impl FenceGate {
    /// A gate that has seen nothing yet.
    pub fn new() -> FenceGate {
        FenceGate::default()
    }

    /// A gate that has seen this token, which was kept together with the resource.
    pub fn with_highest(token: u64) -> FenceGate {
        FenceGate { gate: Mutex::new(Some(Gate { highest: token })) }
    }

    /// Lets a token in that is not older than the newest.
    ///
    /// # Errors
    /// `Lost`: the holder with this token lost its lock, and somebody newer has been here.
    pub fn admit(&self, token: u64) -> Result<()> {
        self.admit_and(token, || ())
    }

    /// The same, and does `work` before anybody else is let in.
    ///
    /// # Errors
    /// As [`admit`](FenceGate::admit); `work` is not done then.
    pub fn admit_and<T>(&self, token: u64, work: impl FnOnce() -> T) -> Result<T> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, passes) = Gate::shown(*gate, token);
        if !passes {
            return Err(stale(token, after.highest));
        }
        *gate = Some(after);
        Ok(work())
    }

    /// The newest token seen; `None` if there was none. Keep it with the resource.
    pub fn highest(&self) -> Option<u64> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).map(|gate| gate.highest)
    }
}

/// A [`FenceGate`] that is kept in the store, for several servers that look after one resource. Made by
/// [`Locks::fence_gate`](crate::Locks::fence_gate).
///
/// It has nothing to do with the lock of the same name, which may well be on another store.
///
/// # When not
/// When the resource can compare for itself; when one process owns it, which a [`FenceGate`] serves without a round trip.
///
/// # Guarantees
/// After a token was let in, none below it is, until somebody [forgets](StoredFenceGate::forget) the gate or the store loses
/// its memory. The write that follows is another step: between the two a newer holder may come and go. The gap is as
/// short as the write is; only a check in the same step as the write closes it.
///
/// # Redisson compatibility
/// Redisson leaves the checking side to its users. The tokens of its `RFencedLock` can be shown here.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{ErrorKind, Locks};
///
/// let locks = Locks::memory();
/// let gate = locks.fence_gate("disk:7");
///
/// let guard = locks.fenced("disk:7").lock().await?;
/// gate.admit(guard.token()).await?;
/// let stale = gate.admit(guard.token() - 1).await.unwrap_err();
/// assert_eq!(stale.kind(), ErrorKind::Lost);
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct StoredFenceGate {
    handle: Handle,
}

impl StoredFenceGate {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> StoredFenceGate {
        StoredFenceGate { handle: Handle::new(engine, name, Kind::Fenced) }
    }

    /// Lets a token in that is not older than the newest.
    ///
    /// # Cancel safety
    /// Dropping the future loses the answer; the token may have been noted.
    ///
    /// # Errors
    /// `Lost`: the holder with this token lost its lock, and somebody newer has been here. `Unavailable` or `Indeterminate` if
    /// the store cannot be reached: do not write then. `Conflict`, `InvalidName`.
    pub async fn admit(&self, token: u64) -> Result<()> {
        match self.show(token).await? {
            None => Ok(()),
            Some(highest) => Err(self.handle.about(stale(token, highest))),
        }
    }

    /// Shows it a token: the highest it has seen, if it refuses.
    pub(crate) async fn show(&self, token: u64) -> Result<Option<u64>> {
        match self.handle.admin(Admin::Fence { token }).await? {
            1 => Ok(None),
            refused => Ok(Some(refused.unsigned_abs())),
        }
    }

    /// Forgets every token, for a resource that is no more; true if there was any.
    ///
    /// # Errors
    /// The store's trouble.
    pub async fn forget(&self) -> Result<bool> {
        Ok(self.handle.admin(Admin::FenceForget).await? == 1)
    }

    /// The full name, prefix included; empty if the name is not valid.
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}

impl fmt::Debug for StoredFenceGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredFenceGate").field(&self.name()).finish()
    }
}

fn stale(token: u64, highest: u64) -> Error {
    let text = format!(
        "the token {token} is stale: a later holder has used {highest}, so the lock was lost"
    );
    Error::new(ErrorKind::Lost, text)
}
