//! [`Acquire`]: a request for a lock, built by the kinds, finished by `.await` or `.blocking()`.

mod blocking;
#[cfg(feature = "tokio-util")]
pub(crate) mod cancel;
mod member;
mod timeout_error;

pub use blocking::block_on;
pub use member::Member;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

#[cfg(feature = "tokio-util")]
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::engine::{self, All, Hold, Part, Wait};
use crate::env::{BoxFuture, System};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::owner::Owner;
use crate::runtime::Backoff;
use timeout_error::timeout_error;

/// Marks a request that must acquire: if the lock stays busy, it ends with an error.
#[derive(Debug)]
pub enum Must {}

/// Marks a request that may fail: if the lock stays busy, it returns `None`.
#[derive(Debug)]
pub enum May {}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum AcquiredHolds {
    /// One hold.
    One(Hold),
    /// A hold of each of several locks.
    All(Vec<Hold>),
}

/// A request for a lock that has not been sent yet: set options, then `.await` it or call [`blocking`](Acquire::blocking).
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// let locks = distlock::Locks::memory();
/// let guard = locks.mutex("k").lock().wait(Duration::from_secs(2)).await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
///
/// A request that is dropped without either locks nothing. The compiler warns of it (`unused_must_use`); where a binding hides it from the
/// compiler (`let _request = locks.mutex("k").lock();`), the library logs a warning with the place in the program at which the request was
/// made (`tracing`, target `distlock`).
#[must_use = "a request does nothing until it is awaited or finished with `.blocking()`"]
pub struct Acquire<G, Ending> {
    request: UnsentRequest,
    owner: Option<Owner>,
    wait: Option<Duration>,
    lease: Option<Duration>,
    label: Option<String>,
    /// Ends the wait when it is cancelled.
    #[cfg(feature = "tokio-util")]
    pub(crate) cancel: Option<CancellationToken>,
    ending: PhantomData<fn() -> (G, Ending)>,
}

/// One lock, or several that are acquired together.
enum RequestedLocks {
    One(Member),
    All(Vec<Member>),
}

impl RequestedLocks {
    fn members(&self) -> &[Member] {
        match self {
            RequestedLocks::One(member) => std::slice::from_ref(member),
            RequestedLocks::All(members) => members,
        }
    }
}

/// The locks of a request until it is sent. Its drop before that logs a warning.
struct UnsentRequest {
    locks: Option<RequestedLocks>,
    /// Where the request was made; `None` if its drop is no mistake.
    at: Option<&'static Location<'static>>,
}

impl UnsentRequest {
    fn take(mut self) -> RequestedLocks {
        self.locks.take().expect("BUG: a request is used once")
    }
}

impl Drop for UnsentRequest {
    fn drop(&mut self) {
        if let (Some(locks), Some(at)) = (&self.locks, self.at) {
            warn_unused(locks, at);
        }
    }
}

#[cold]
fn warn_unused(locks: &RequestedLocks, at: &Location<'_>) {
    // A panic between making the request and awaiting it is reported by itself.
    if std::thread::panicking() {
        return;
    }
    let Some(first) = locks.members().first() else { return };
    let (kind, name) = (first.kind.as_str(), first.name.as_deref().unwrap_or_default());
    tracing::warn!(
        target: "distlock", kind, name, %at,
        "a request for a lock was dropped without being awaited: nothing was locked; add .await or .blocking()"
    );
}

impl<G, Ending> Acquire<G, Ending> {
    /// A request for several locks, all or none.
    #[track_caller]
    pub(crate) fn all(members: Vec<Member>) -> Acquire<G, Ending> {
        Acquire::of(RequestedLocks::All(members))
    }

    /// A request for one lock.
    #[track_caller]
    pub(crate) fn one(member: Member) -> Acquire<G, Ending> {
        Acquire::of(RequestedLocks::One(member))
    }

    #[track_caller]
    fn of(locks: RequestedLocks) -> Acquire<G, Ending> {
        Acquire {
            request: UnsentRequest { locks: Some(locks), at: Some(Location::caller()) },
            owner: None,
            wait: None,
            lease: None,
            label: None,
            #[cfg(feature = "tokio-util")]
            cancel: None,
            ending: PhantomData,
        }
    }

    /// Returns the locks of the request.
    pub(crate) fn members(&self) -> &[Member] {
        self.request.locks.as_ref().map_or(&[], RequestedLocks::members)
    }

    /// Makes the drop of the request silent, for a request inside a future that the program may drop.
    pub(crate) fn unwatched(mut self) -> Self {
        self.request.at = None;
        self
    }

    /// Acquires as the owners that hold these locks already, unless the request names an owner.
    pub(crate) fn re_entering(mut self, holder: impl Fn(&Member) -> Option<Owner>) -> Self {
        if self.owner.is_none() {
            let members = match &mut self.request.locks {
                Some(RequestedLocks::One(member)) => std::slice::from_mut(member),
                Some(RequestedLocks::All(members)) => members,
                None => &mut [],
            };
            members.iter_mut().for_each(|member| member.owner = holder(member));
        }
        self
    }

    /// Makes the waiter poll with these pauses instead of subscribing.
    pub(crate) fn polling(mut self, backoff: Backoff) -> Self {
        if let Some(RequestedLocks::One(member)) = &mut self.request.locks {
            member.spin = Some(backoff);
        }
        self
    }

    /// Waits for at most this long; zero means one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets a fixed lease: the lock is held for at most this long, and the watchdog does not renew it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Acquires as this owner. If it holds the lock already, it re-enters: the hold count rises by one, and the lease is never
    /// shortened.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Sets a text that tells what the lock is held for: part of its [`HolderInfo`](crate::HolderInfo), and
    /// of warnings about slow holds. Cut after 256 bytes. Kept only if
    /// [`Builder::holder_info`](crate::Builder::holder_info) is set; a re-entry keeps the label of the outer hold.
    ///
    /// Every client that can read the locks can read it: put no secrets in it.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    fn begin(self, default_wait: Wait) -> Acquiring<G, Ending> {
        let wait = match self.wait {
            None => default_wait,
            Some(Duration::ZERO) => Wait::Once,
            Some(wait) => Wait::For(wait.min(config::LONGEST)),
        };
        let owner = self.owner.or_else(Owner::of_scope);
        let label = self.label.as_deref();
        let stage = match self.request.take() {
            RequestedLocks::One(member) => match member.ask(owner, wait, self.lease, label) {
                Ok((engine, name, ask)) => {
                    AcquiringStage::Asking(engine::Acquiring::new(engine, &name, ask))
                }
                Err(e) => AcquiringStage::Refused(Some(e)),
            },
            RequestedLocks::All(members) => {
                let asked = |member: Member| member.ask(owner, wait, self.lease, label);
                let parts = members.into_iter().map(asked);
                match parts.collect::<Result<Vec<_>>>() {
                    Ok(parts) => {
                        AcquiringStage::All(Box::pin(engine::acquire_all(parts, wait)), None)
                    }
                    Err(e) => AcquiringStage::Refused(Some(e)),
                }
            }
        };
        Acquiring {
            stage,
            #[cfg(feature = "tokio-util")]
            cancel: self.cancel.map(|token| Box::pin(token.cancelled_owned())),
            ending: PhantomData,
        }
    }
}

/// Returns the lease in whole milliseconds, rounded up: stores count in these, and a lease of zero would end at once.
pub(crate) fn check_lease(lease: Duration) -> Result<Duration> {
    if lease.is_zero() || lease > config::LONGEST {
        let text = format!("a lease of {lease:?} is out of range: use 1 ms to 10 years");
        return Err(Error::new(ErrorKind::InvalidDuration, text));
    }
    let part = lease.subsec_nanos() % 1_000_000;
    let up = if part == 0 { 0 } else { u64::from(1_000_000 - part) };
    Ok(lease + Duration::from_nanos(up))
}

/// The future of an awaited [`Acquire`].
///
/// # Cancel safety
/// If the future is dropped, an in-flight acquire is rolled back in the background; if the store is unreachable, it ends with its lease.
/// (The permits of a plain [`Semaphore`](crate::Semaphore) on Redis have no lease.)
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring<G, Ending> {
    stage: AcquiringStage,
    #[cfg(feature = "tokio-util")]
    cancel: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    ending: PhantomData<fn() -> (G, Ending)>,
}

enum AcquiringStage {
    Asking(engine::Acquiring),
    /// With the member that was busy at the end, if one was.
    All(BoxFuture<'static, Result<All>>, Option<Part>),
    /// Refused before anything was sent.
    Refused(Option<Error>),
    /// Asks the store which owner holds the lock.
    TimedOut(BoxFuture<'static, Error>),
}

impl<G, Ending> Acquiring<G, Ending> {
    /// Returns the error if the caller's token has ended the wait; an acquire in flight is rolled back in the background then.
    #[cfg(feature = "tokio-util")]
    fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Option<Error> {
        let cancelled =
            self.cancel.as_mut().is_some_and(|token| token.as_mut().poll(cx).is_ready());
        if !cancelled {
            return None;
        }
        let text = "the wait ended: the CancellationToken given to cancel_on was cancelled";
        let mut error = Error::new(ErrorKind::Cancelled, text);
        if let AcquiringStage::Asking(asking) = &mut self.stage {
            let (_, name, ask) = asking.request();
            error = error.about(ask.kind, name);
        }
        (self.cancel, self.stage) = (None, AcquiringStage::Refused(None));
        Some(error)
    }

    #[cfg(not(feature = "tokio-util"))]
    fn poll_cancelled(&mut self, _: &mut Context<'_>) -> Option<Error> {
        None
    }

    fn poll_acquired(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<AcquiredHolds>>> {
        match &mut self.stage {
            AcquiringStage::Asking(asking) => Pin::new(asking)
                .poll(cx)
                .map(|outcome| outcome.map(|hold| hold.map(AcquiredHolds::One))),
            AcquiringStage::All(asking, busy) => match ready!(asking.as_mut().poll(cx))? {
                All::Held(holds) => Poll::Ready(Ok(Some(AcquiredHolds::All(holds)))),
                All::Busy(part) => {
                    *busy = Some(*part);
                    Poll::Ready(Ok(None))
                }
            },
            AcquiringStage::TimedOut(why) => why.as_mut().poll(cx).map(Err),
            // Polled again after its end.
            AcquiringStage::Refused(error) => {
                error.take().map_or(Poll::Pending, |e| Poll::Ready(Err(e)))
            }
        }
    }
}

impl<G: From<AcquiredHolds>> Future for Acquiring<G, Must> {
    type Output = Result<G>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<G>> {
        if let Some(cancelled) = self.poll_cancelled(cx) {
            return Poll::Ready(Err(cancelled));
        }
        loop {
            if let Some(got) = ready!(self.poll_acquired(cx))? {
                return Poll::Ready(Ok(G::from(got)));
            }
            let busy = match &mut self.stage {
                AcquiringStage::Asking(asking) => {
                    let (engine, name, ask) = asking.request();
                    Some((engine.clone(), name.clone(), ask.clone()))
                }
                AcquiringStage::All(_, busy) => busy.take(),
                AcquiringStage::Refused(_) | AcquiringStage::TimedOut(_) => None,
            };
            if let Some((engine, name, ask)) = busy {
                self.stage = AcquiringStage::TimedOut(Box::pin(timeout_error(engine, name, ask)));
            }
        }
    }
}

impl<G: From<AcquiredHolds>> Future for Acquiring<G, May> {
    type Output = Result<Option<G>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Option<G>>> {
        if self.poll_cancelled(cx).is_some() {
            return Poll::Ready(Ok(None));
        }
        self.poll_acquired(cx).map(|outcome| outcome.map(|got| got.map(G::from)))
    }
}

impl<G, Ending> fmt::Debug for Acquiring<G, Ending> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

impl<G: From<AcquiredHolds> + Send + 'static> IntoFuture for Acquire<G, Must> {
    type Output = Result<G>;
    type IntoFuture = Acquiring<G, Must>;

    fn into_future(self) -> Acquiring<G, Must> {
        self.begin(Wait::Forever)
    }
}

impl<G: From<AcquiredHolds> + Send + 'static> IntoFuture for Acquire<G, May> {
    type Output = Result<Option<G>>;
    type IntoFuture = Acquiring<G, May>;

    fn into_future(self) -> Acquiring<G, May> {
        self.begin(Wait::Once)
    }
}

impl<G, Ending, T> Acquire<G, Ending>
where
    Self: IntoFuture<Output = Result<T>>,
    <Self as IntoFuture>::IntoFuture: Send + 'static,
    T: Send + 'static,
{
    /// Acquires and blocks the calling thread meanwhile; no runtime is needed. Not for use inside async code, where it
    /// would stop the other tasks of the thread.
    ///
    /// ```
    /// let locks = distlock::Locks::memory();
    /// let guard = locks.mutex("k").lock().blocking()?;
    /// guard.unlock_blocking()?;
    /// # Ok::<(), distlock::Error>(())
    /// ```
    pub fn blocking(self) -> Result<T> {
        let env = self.members().first().map(|member| member.engine.env.clone());
        let env = env.unwrap_or_else(|| Arc::new(System));
        engine::block_on(&*env, Box::pin(self.into_future()))
    }
}

impl<G, Ending> fmt::Debug for Acquire<G, Ending> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("of", &self.members())
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("owner", &self.owner)
            .finish()
    }
}
