//! What happens to locks, told to whoever wants to count or log it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::Kind;

/// Something that happened to a lock, or to the connection that serves it.
///
/// ```
/// use distlock::Event;
///
/// /// What a program may want to be woken up for.
/// fn is_bad(event: Event) -> bool {
///     matches!(event, Event::Lost | Event::NotDurable | Event::SlowHold { .. })
/// }
/// assert!(is_bad(Event::Lost) && !is_bad(Event::Renewed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody asks for the lock. One [`Answered`](Event::Answered) follows, whatever happens.
    Asked,
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
    /// Whoever [asked](Event::Asked) has an answer now: [`Acquired`](Event::Acquired) and [`GaveUp`](Event::GaveUp) in more
    /// detail, once for each request. Of several locks that are asked for together this is told of all as one, of kind
    /// [`multi`](Kind::Multi).
    Answered {
        /// Which.
        outcome: Outcome,
        /// From the call to the answer.
        waited: Duration,
    },
    /// A hold begins. Deeper levels of the same owner are not told. One of [`Released`](Event::Released),
    /// [`Lost`](Event::Lost), [`Leaked`](Event::Leaked) and [`Revoked`](Event::Revoked) follows.
    Entered,
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
    /// Its last guard was leaked: the store keeps it until its lease ends.
    Leaked,
    /// It was taken from its guards because its `Locks` was closed.
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
    /// With the lock.
    Acquired,
    /// It was busy, and one attempt was all that was asked for.
    Busy,
    /// It stayed busy for the whole wait.
    TimedOut,
    /// Whoever asked left before there was an answer.
    Cancelled,
    /// With an error: the store could not be reached, or would not.
    Failed,
}

impl Outcome {
    /// The word for it: `acquired`, `busy`, `timeout`, `cancelled`, `failed`.
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

/// The lock an [`Event`] is about; the empty name for events of a whole connection.
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

/// Both are told, one after the other.
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
///             println!("wake somebody up: {} is lost", lock.name);
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

/// The default observer: losses and doubts as `tracing` warnings, the rest at debug and trace level.
///
/// ```
/// use distlock::{Locks, Tracing};
///
/// # distlock::block_on(async {
/// // Without the figures of the feature `metrics`:
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

/// Who is told unless the program says otherwise.
pub(crate) fn usual() -> Arc<dyn Observer> {
    #[cfg(feature = "metrics")]
    {
        crate::Metrics::describe();
        Arc::new((Tracing, crate::Metrics))
    }
    #[cfg(not(feature = "metrics"))]
    Arc::new(Tracing)
}
