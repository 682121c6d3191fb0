//! The error type.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::store::Kind;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every operation: a [kind](ErrorKind) to branch on, a message, and the lock it is about.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{ErrorKind, Locks};
///
/// let error = Locks::memory().mutex("").lock().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidName);
/// assert!(!error.is_retryable());
/// # });
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    lock: Option<(Kind, Arc<str>)>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    retry_after: Option<Duration>,
    /// What may have happened has been taken back.
    undone: bool,
}

/// The category of an [`Error`]. Contention, outage, loss and bad input never share a variant.
///
/// ```
/// use distlock::{Error, ErrorKind};
///
/// fn status(error: &Error) -> u16 {
///     match error.kind() {
///         ErrorKind::WaitTimeout => 423, // busy: try again later
///         _ if error.is_retryable() => 503,
///         _ => 500, // a mistake in code or configuration
///     }
/// }
/// assert_eq!(status(&Error::new(ErrorKind::Unavailable, "the store is away")), 503);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock stayed busy for the whole wait.
    WaitTimeout,
    /// The caller does not hold the lock it wants to act on.
    NotHeld,
    /// The lock was held and is not any more: its lease ended, or it was taken away, for instance by a forced unlock or a failover.
    Lost,
    /// The store could not be reached, or refuses to work; the operation was not applied.
    Unavailable,
    /// The operation was sent, but no reply arrived: it may or may not have been applied.
    Indeterminate,
    /// Too few of several servers agreed.
    NoQuorum,
    /// Too few replicas acknowledged the acquisition; it was rolled back. See [`Durability`](crate::Durability).
    NotDurable,
    /// The name is in use by another kind of lock, or by data that is not a lock.
    Conflict,
    /// The store or the server cannot do this.
    Unsupported,
    /// The name cannot be used.
    InvalidName,
    /// The duration cannot be used.
    InvalidDuration,
    /// The URL, an option or a credential is wrong.
    Config,
    /// The `Locks` was closed.
    Closed,
    /// The caller's `CancellationToken` ended the wait; see `Acquire::cancel_on`.
    Cancelled,
}

impl Error {
    /// Returns an error with a message, which should name what failed and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let (message, lock, source) = (message.into(), None, None);
        Error(Arc::new(Inner { kind, message, lock, source, retry_after: None, undone: false }))
    }

    /// Returns the same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Error {
        Arc::make_mut(&mut self.0).source = Some(Arc::new(source));
        self
    }

    /// Returns the same error, about this lock.
    #[must_use]
    pub fn about(mut self, kind: Kind, name: &Arc<str>) -> Error {
        Arc::make_mut(&mut self.0).lock = Some((kind, name.clone()));
        self
    }

    /// The same error, with when the lock is free unless its holder renews it.
    #[must_use]
    pub(crate) fn free_in(mut self, left: Option<Duration>) -> Error {
        Arc::make_mut(&mut self.0).retry_after = left;
        self
    }

    /// The same error, of an operation that its reporter has rolled back.
    #[must_use]
    pub(crate) fn undone(mut self) -> Error {
        Arc::make_mut(&mut self.0).undone = true;
        self
    }

    /// The same error, with where it was met unless it says so itself.
    #[must_use]
    pub(crate) fn at(mut self, place: &str) -> Error {
        if !self.0.message.contains(place) {
            let inner = Arc::make_mut(&mut self.0);
            inner.message = format!("{place}: {}", inner.message);
        }
        self
    }

    /// The same error, with the words of one more.
    #[must_use]
    pub(crate) fn and(mut self, more: &Error) -> Error {
        Arc::make_mut(&mut self.0).message += &format!("; {more}");
        self
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the name of the lock, if the error is about one.
    pub fn lock_name(&self) -> Option<&str> {
        self.0.lock.as_ref().map(|(_, name)| &**name)
    }

    /// Returns the kind of the lock, if the error is about one.
    pub fn lock_kind(&self) -> Option<Kind> {
        self.0.lock.as_ref().map(|(kind, _)| *kind)
    }

    /// Returns, for a [`WaitTimeout`](ErrorKind::WaitTimeout), after which time the lock is free unless its holder renews it or another
    /// caller acquires it first; `None` if the store does not know, and for every other kind of error.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// use std::time::Duration;
    /// let (locks, minute) = (distlock::Locks::memory(), Duration::from_secs(60));
    /// let _held = locks.mutex("k").lock().lease(minute).await?;
    /// let busy = locks.mutex("k").lock().wait(Duration::ZERO).await.unwrap_err();
    /// assert!(busy.retry_after().is_some_and(|left| left <= minute));
    /// # Ok::<(), distlock::Error>(()) }).unwrap();
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether what was asked for may have happened all the same.
    pub(crate) fn is_in_doubt(&self) -> bool {
        use ErrorKind::*;
        matches!(self.0.kind, Indeterminate | NoQuorum | NotDurable) && !self.0.undone
    }

    /// Whether the store answers, and could give the lock, but not with as many replicas as the caller wants. Not to be waited
    /// out: the caller decides.
    pub(crate) fn is_not_durable(&self) -> bool {
        self.0.kind == ErrorKind::NotDurable
    }

    /// Whether the engine may go on trying by itself.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_retryable() && !self.is_not_durable()
    }

    /// Returns whether the same call may succeed later without a change of code or configuration.
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::*;
        matches!(
            self.0.kind,
            WaitTimeout | Lost | Unavailable | Indeterminate | NoQuorum | NotDurable
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, name)) = &self.0.lock {
            match &**name {
                "" => write!(f, "{kind}: ")?,
                // Debug escapes control characters: a name must not be able to forge a log line.
                name => write!(f, "{kind} {name:?}: ")?,
            }
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
