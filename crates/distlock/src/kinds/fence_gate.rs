//! The checking side of fencing: refuses the tokens of holders that have lost their lock.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::store::machine::fenced::GateEntry;
use crate::store::{Admin, Kind};

/// Refuses fencing tokens lower than the highest it has seen. In the memory of this process: for a server that owns the
/// resource.
///
/// Clients hold a [`Fenced`](crate::Fenced) lock and send its token with every request. A gate that loses its state admits old tokens:
/// if the resource outlives the process, keep the highest token with the resource, see [`with_highest`](FenceGate::with_highest) and
/// [`mod@crate::fencing`]; or in the store, see [`Locks::fence_gate`](crate::Locks::fence_gate).
///
/// # When not
/// When the resource can compare tokens itself, as a database can: then check and write are one atomic operation.
///
/// # Guarantees
/// After a token was admitted, no lower one is. A newer holder may still overtake what is done *after* [`admit`](FenceGate::admit), but
/// not what is done *inside* [`admit_and`](FenceGate::admit_and).
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
/// gate.admit_and(35, || stock -= 1)?; // no newer holder comes in between
/// # assert_eq!(stock, 6);
/// # Ok::<(), distlock::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct FenceGate {
    gate: Mutex<Option<GateEntry>>,
}

impl FenceGate {
    /// Returns a gate that has seen no token.
    pub fn new() -> FenceGate {
        FenceGate::default()
    }

    /// Returns a gate that has seen this token, which was kept together with the resource.
    pub fn with_highest(token: u64) -> FenceGate {
        FenceGate { gate: Mutex::new(Some(GateEntry { highest: token })) }
    }

    /// Admits a token that is not lower than the highest seen.
    ///
    /// # Errors
    /// `Lost`: the holder with this token lost its lock, and a newer holder has shown its token.
    pub fn admit(&self, token: u64) -> Result<()> {
        self.admit_and(token, || ())
    }

    /// Admits a token as [`admit`](FenceGate::admit) does, and runs `work` before the next token is checked.
    ///
    /// # Errors
    /// As [`admit`](FenceGate::admit); then `work` is not run.
    pub fn admit_and<T>(&self, token: u64, work: impl FnOnce() -> T) -> Result<T> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, passes) = GateEntry::shown(*gate, token);
        if !passes {
            return Err(stale(token, after.highest));
        }
        *gate = Some(after);
        Ok(work())
    }

    /// Returns the highest token seen, or `None` if there was none. Keep it with the resource.
    pub fn highest(&self) -> Option<u64> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).map(|gate| gate.highest)
    }
}

/// A [`FenceGate`] that is kept in the store, for several servers that serve one resource. Made by
/// [`Locks::fence_gate`](crate::Locks::fence_gate).
///
/// It is independent of the lock of the same name, which may be in another store.
///
/// # When not
/// When the resource can compare tokens itself; when one process owns it: a [`FenceGate`] needs no round trip.
///
/// # Guarantees
/// After a token was admitted, no lower one is, until the gate is [forgotten](StoredFenceGate::forget) or the store loses
/// its data. The write that follows is another operation: between the two a newer holder may write. Only a check in the same atomic
/// operation as the write closes this gap.
///
/// # Redisson compatibility
/// Redisson leaves the checking side to its users. This gate checks the tokens of its `RFencedLock` as well.
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

    /// Admits a token that is not lower than the highest seen.
    ///
    /// # Cancel safety
    /// If the future is dropped, the token may or may not have been recorded.
    ///
    /// # Errors
    /// `Lost`: the holder with this token lost its lock, and a newer holder has shown its token. `Unavailable` or `Indeterminate` if
    /// the store cannot be reached: do not write then. `Conflict`, `InvalidName`.
    pub async fn admit(&self, token: u64) -> Result<()> {
        match self.show(token).await? {
            None => Ok(()),
            Some(highest) => Err(self.handle.about(stale(token, highest))),
        }
    }

    /// Shows it a token and returns the highest it has seen if it refuses.
    pub(crate) async fn show(&self, token: u64) -> Result<Option<u64>> {
        match self.handle.admin(Admin::Fence { token }).await? {
            1 => Ok(None),
            refused => Ok(Some(refused.unsigned_abs())),
        }
    }

    /// Forgets every token, for a resource that no longer exists, and returns whether there was one.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn forget(&self) -> Result<bool> {
        Ok(self.handle.admin(Admin::FenceForget).await? == 1)
    }

    /// Returns the full name, prefix included; empty if the name is not valid.
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
