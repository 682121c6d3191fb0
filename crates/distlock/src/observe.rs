//! What happens to locks, told to whoever wants to count or log it.

use std::fmt;
use std::time::Duration;

use crate::store::Kind;

/// Something that happened to a lock, or to the connection that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The store was asked for the lock.
    Attempted,
    /// The lock was acquired.
    Acquired {
        /// From the call to the acquisition.
        waited: Duration,
    },
    /// The caller gave up, or the wait was over.
    GaveUp {
        /// From the call to giving up.
        waited: Duration,
    },
    /// Too few replicas acknowledged an acquisition, which is rolled back; see [`Durability`](crate::Durability). The caller
    /// gives up.
    NotDurable,
    /// The holder let go.
    Released {
        /// From the acquisition to the release.
        held: Duration,
    },
    /// It is held for longer than [`Builder::slow_hold`](crate::Builder::slow_hold) says, and is held on. Once for each hold.
    SlowHold {
        /// From the acquisition until now.
        held: Duration,
    },
    /// The watchdog renewed it.
    Renewed,
    /// A renewal got no answer; the lock is still held as far as anybody knows.
    Suspect,
    /// The lock is lost: its lease ran out, or somebody removed it.
    Lost,
    /// A connection was made again after it broke.
    Reconnected,
}

/// The lock an [`Event`] is about; the empty name for events of a whole connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The kind of lock.
    pub kind: Kind,
    /// Its full name.
    pub name: &'a str,
    /// What the hold is for, if the event is about one and it [says so](crate::Acquire::label).
    pub label: Option<&'a str>,
}

/// Gets every [`Event`]. Called from inside the engine: be quick, do not block.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use distlock::{Event, Locks, Observer, Subject};
///
/// #[derive(Debug, Default)]
/// struct Acquisitions(AtomicUsize);
/// impl Observer for Acquisitions {
///     fn observe(&self, _lock: Subject<'_>, event: Event) {
///         if let Event::Acquired { .. } = event {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let count = std::sync::Arc::new(Acquisitions::default());
/// let locks = Locks::builder().url("memory:").observer(count.clone()).connect().await?;
/// locks.mutex("k").lock().await?.unlock().await?;
/// assert_eq!(count.0.load(Ordering::Relaxed), 1);
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
pub trait Observer: fmt::Debug + Send + Sync + 'static {
    /// Something happened to `lock`.
    fn observe(&self, lock: Subject<'_>, event: Event);
}

/// The default observer: losses and doubts as `tracing` warnings, the rest at debug and trace level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Observer for Tracing {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        let (kind, name) = (lock.kind.as_str(), lock.name);
        match event {
            Event::Lost => tracing::warn!(target: "distlock", kind, name, "lock lost"),
            Event::SlowHold { held } => {
                let label = lock.label;
                tracing::warn!(target: "distlock", kind, name, label, ?held, "held for long")
            }
            Event::Suspect => {
                tracing::warn!(target: "distlock", kind, name, "renewal got no answer; retrying")
            }
            Event::NotDurable => {
                tracing::warn!(target: "distlock", kind, name, "too few replicas; rolled back")
            }
            Event::Reconnected => tracing::info!(target: "distlock", "connected again"),
            Event::Acquired { waited } => {
                tracing::debug!(target: "distlock", kind, name, ?waited, "acquired")
            }
            Event::GaveUp { waited } => {
                tracing::debug!(target: "distlock", kind, name, ?waited, "gave up waiting")
            }
            Event::Released { held } => {
                tracing::debug!(target: "distlock", kind, name, ?held, "released")
            }
            Event::Attempted | Event::Renewed => {
                tracing::trace!(target: "distlock", kind, name, ?event)
            }
        }
    }
}
