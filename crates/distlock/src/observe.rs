//! Events about locks, and the observers that receive them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::Kind;

/// An event of a lock, or of a connection to its store.
///
/// ```
/// use distlock::Event;
///
/// /// What is worth an alarm.
/// fn is_bad(event: Event) -> bool {
///     matches!(event, Event::Lost | Event::NotDurable | Event::SlowHold { .. })
/// }
/// assert!(is_bad(Event::Lost) && !is_bad(Event::Renewed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A caller requests the lock. One [`Answered`](Event::Answered) follows in any case.
    Asked,
    /// An acquire was sent to the store.
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
    /// A [request](Event::Asked) has ended: in more detail than [`Acquired`](Event::Acquired) and [`GaveUp`](Event::GaveUp), once for
    /// each request. A request for several locks has one such event, of kind [`multi`](Kind::Multi).
    Answered {
        /// How it ended.
        outcome: Outcome,
        /// From the call to its end.
        waited: Duration,
    },
    /// A hold begins. Re-entries of the same owner have no event. One of [`Released`](Event::Released),
    /// [`Lost`](Event::Lost), [`Leaked`](Event::Leaked) and [`Revoked`](Event::Revoked) follows.
    Entered,
    /// Too few replicas acknowledged an acquisition, which is rolled back; see [`Durability`](crate::Durability). The caller
    /// gives up.
    NotDurable,
    /// The holder released the lock.
    Released {
        /// From the acquisition to the release.
        held: Duration,
    },
    /// The lock is held longer than [`Builder::slow_hold`](crate::Builder::slow_hold) and still held. Once for each hold.
    SlowHold {
        /// From the acquisition until now.
        held: Duration,
    },
    /// The watchdog renewed the lock.
    Renewed,
    /// The hold became [`Suspect`](crate::State::Suspect): a renewal got no reply, and is sent again until the deadline.
    Suspect,
    /// The lock is lost: its deadline passed, or the store no longer has the hold.
    Lost,
    /// The last guard of the hold was leaked: the store keeps the lock until its lease ends.
    Leaked,
    /// The lock was released although it has guards, because its `Locks` was closed.
    Revoked,
    /// A connection was made again after it broke.
    Reconnected,
}

/// How a request for a lock ended.
///
/// ```
/// assert_eq!(distlock::Outcome::TimedOut.as_str(), "timeout"); // a label of `distlock_acquire_total`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The lock was acquired.
    Acquired,
    /// The lock was busy, and the request was for a single attempt.
    Busy,
    /// The lock stayed busy for the whole wait.
    TimedOut,
    /// The caller dropped or cancelled the request.
    Cancelled,
    /// An error: the store could not be reached, or refused.
    Failed,
}

impl Outcome {
    /// Returns the name of the outcome: `acquired`, `busy`, `timeout`, `cancelled`, `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Acquired => "acquired",
            Outcome::Busy => "busy",
            Outcome::TimedOut => "timeout",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed => "failed",
        }
    }
}

/// The lock of an [`Event`]; the name is empty for events of a connection.
///
/// ```
/// use distlock::Subject;
///
/// fn about(lock: Subject<'_>) -> String {
///     format!("{} {:?} for {}", lock.kind.as_str(), lock.name, lock.label.unwrap_or("itself"))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subject<'a> {
    /// The kind of lock.
    pub kind: Kind,
    /// Its full name.
    pub name: &'a str,
    /// The [label](crate::Acquire::label) of the hold, if the event is about a hold that has one.
    pub label: Option<&'a str>,
}

/// Receives every [`Event`]. It is called from inside the engine: return quickly and do not block.
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
    /// Receives an event of `lock`.
    fn observe(&self, lock: Subject<'_>, event: Event);
}

/// Passes each event to both observers, one after the other.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::sync::Arc;
/// use distlock::{Event, Locks, Observer, Subject, Tracing};
///
/// #[derive(Debug)]
/// struct Pager;
/// impl Observer for Pager {
///     fn observe(&self, lock: Subject<'_>, event: Event) {
///         if event == Event::Lost {
///             println!("page the operator: {} is lost", lock.name);
///         }
///     }
/// }
/// let locks = Locks::builder().url("memory:").observer(Arc::new((Tracing, Pager))).connect().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        self.0.observe(lock, event);
        self.1.observe(lock, event);
    }
}

/// The default observer: logs losses, renewals without a reply, slow holds and missing replicas as `tracing` warnings, new connections
/// as info, the rest at debug and trace level.
///
/// ```
/// use distlock::{Locks, Tracing};
///
/// # distlock::block_on(async {
/// // Without the metrics of the feature `metrics`:
/// let locks = Locks::builder().url("memory:").observer(std::sync::Arc::new(Tracing)).connect().await?;
/// # locks.mutex("k").lock().await?.unlock().await }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Observer for Tracing {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        let (kind, name) = (lock.kind.as_str(), lock.name);
        match event {
            Event::Lost => tracing::warn!(target: "distlock", kind, name, "lock lost"),
            Event::SlowHold { held } => {
                let label = lock.label;
                tracing::warn!(target: "distlock", kind, name, label, ?held, "lock held longer than slow_hold")
            }
            Event::Suspect => {
                tracing::warn!(target: "distlock", kind, name, "renewal got no reply; retrying")
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
            Event::Leaked | Event::Revoked => {
                tracing::debug!(target: "distlock", kind, name, ?event)
            }
            Event::Asked
            | Event::Attempted
            | Event::Answered { .. }
            | Event::Entered
            | Event::Renewed => {
                tracing::trace!(target: "distlock", kind, name, ?event)
            }
        }
    }
}

/// The observer unless the program sets one.
pub(crate) fn usual() -> Arc<dyn Observer> {
    #[cfg(feature = "metrics")]
    {
        crate::Metrics::describe();
        Arc::new((Tracing, crate::Metrics))
    }
    #[cfg(not(feature = "metrics"))]
    Arc::new(Tracing)
}
