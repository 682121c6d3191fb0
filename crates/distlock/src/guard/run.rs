//! Work under a lock: what [`Mutex::run`](crate::Mutex::run), `#[locked]` and scheduled jobs share.

use std::future::{Future, IntoFuture};

use tracing::{Instrument, Span};

use crate::acquire::{Acquire, May, Must};
use crate::engine;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Scope;
use crate::guard::loss::until_lost;
use crate::guard::nesting::Nesting;
use crate::guard::{FencedGuard, Guard, Permits, ReadGuard, WriteGuard};
use crate::kinds::MultiGuard;

/// The return type of a function with a lock around it.
#[diagnostic::on_unimplemented(
    message = "a #[locked] function must return a `Result` whose error can be made from `distlock::Error`",
    label = "it returns this",
    note = "the lock may stay busy for the whole wait, or be lost: write `Result<T, E>` with `E: From<distlock::Error>`"
)]
#[cfg_attr(not(feature = "macros"), allow(unreachable_pub))] // reached through `macros`
pub trait RunOutput {
    /// Returns the result for an acquire that failed, or a lock that was lost.
    fn failed(error: Error) -> Self;
    /// Returns whether the body succeeded.
    fn is_ok(&self) -> bool;
}

impl<T, E: From<Error>> RunOutput for std::result::Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn is_ok(&self) -> bool {
        self.is_ok()
    }
}

/// The guard of one lock or of several, held while the body runs.
pub trait RunGuard: Sized + Send + 'static {
    /// Returns the guards.
    fn guards(&self) -> Vec<&Guard>;
    /// Returns the span of the body's log lines.
    fn span(&self) -> Span;
    /// Releases every lock.
    fn release(self) -> impl Future<Output = Result<()>> + Send;
    /// Releases every lock, without a runtime.
    fn release_blocking(self) -> Result<()>;
}

macro_rules! held {
    ($($guard:ident: $guards:expr;)*) => {
        $(impl RunGuard for $guard {
            fn guards(&self) -> Vec<&Guard> {
                let guards: fn(&$guard) -> Vec<&Guard> = $guards;
                guards(self)
            }

            fn span(&self) -> Span {
                self.held_span()
            }

            fn release(self) -> impl Future<Output = Result<()>> + Send {
                self.unlock()
            }

            fn release_blocking(self) -> Result<()> {
                self.unlock_blocking()
            }
        })*
    };
}

held! {
    Guard: |guard| vec![guard];
    ReadGuard: |guard| vec![guard];
    WriteGuard: |guard| vec![guard];
    FencedGuard: |guard| vec![guard];
    Permits: |guard| vec![guard];
    MultiGuard: |several| several.guards().iter().collect();
}

/// Acquires, and returns the locks of the calling functions as well.
pub(crate) async fn enter<G, Ending, T>(request: Acquire<G, Ending>) -> Result<(T, Nesting)>
where
    Acquire<G, Ending>: IntoFuture<Output = Result<T>>,
{
    let nesting = Nesting::of_task();
    Ok((nesting.re_entering(request).await?, nesting))
}

/// [`enter`] for a thread.
pub(crate) fn enter_blocking<G, Ending, T>(request: Acquire<G, Ending>) -> Result<(T, Nesting)>
where
    Acquire<G, Ending>: IntoFuture<Output = Result<T>, IntoFuture: Send + 'static>,
    T: Send + 'static,
{
    let nesting = Nesting::of_thread();
    Ok((nesting.re_entering(request).blocking()?, nesting))
}

/// Runs `work` under a lock that is held, and releases the lock.
pub(crate) async fn under<G: RunGuard, R: RunOutput>(
    (guard, nesting): (G, Nesting),
    work: impl AsyncFnOnce(Scope) -> R,
) -> R {
    let (scope, work) = {
        let guards = guard.guards();
        let scope = Scope::of(&guards);
        // Boxed: otherwise each level of nested runs would make the future several times as large.
        let work = Box::pin(work(scope.clone()).instrument(guard.span()));
        (scope, nesting.scope(&guards, work))
    };
    // The result of work that ends in the moment of the loss counts: the release reports the loss.
    match until_lost(scope.lost(), || false, work).await {
        Some(done) => unless_lost(done, guard.release().await),
        // Dropped: how much of it was done is not known.
        None => R::failed(scope.ensure().err().unwrap_or_else(engine::lost)),
    }
}

/// Returns the result of the body, or the loss if the body succeeded without the lock. For a loss that is known here the release returns
/// `Lost` without a request, and of several locks that of the lost one first.
fn unless_lost<R: RunOutput>(done: R, released: Result<()>) -> R {
    match released {
        Err(e) if done.is_ok() && e.kind() == ErrorKind::Lost => R::failed(e),
        _ => done,
    }
}

/// [`under`] for a thread.
pub(crate) fn under_blocking<G: RunGuard, R: RunOutput>(
    (guard, nesting): (G, Nesting),
    work: impl FnOnce(Scope) -> R,
) -> R {
    let done = {
        let guards = guard.guards();
        let scope = Scope::of(&guards);
        guard.span().in_scope(|| nesting.scope_blocking(&guards, || work(scope)))
    };
    unless_lost(done, guard.release_blocking())
}

impl<G: RunGuard> Acquire<G, Must>
where
    Self: IntoFuture<Output = Result<G>, IntoFuture: Send + 'static>,
{
    /// Acquires the lock, runs `work` and releases the lock: [`while_held`](crate::Guard::while_held) and
    /// [`unlock`](crate::Guard::unlock) in one.
    ///
    /// `work` is dropped when the loss of the lock is noticed. It receives a [`Scope`], which shows the state of the lock and cannot
    /// release it; its log lines are in the `tracing` span `held`. If it calls `run` or a `#[locked]` function for the same lock, that
    /// re-enters it.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use std::time::Duration;
    /// use distlock::Locks;
    ///
    /// let locks = Locks::memory();
    /// let left = locks.mutex("stock").lock().wait(Duration::from_secs(3)).run(async |scope| {
    ///     assert!(scope.remaining() > Duration::ZERO);
    ///     Ok(7)
    /// });
    /// assert_eq!(left.await?, 7);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// The error type of `work` can be any type that is `From<distlock::Error>`. The compiler infers it from the function that uses `?`
    /// if that returns [`distlock::Result`](crate::Result); elsewhere name it once, in `work` or where its result is stored:
    ///
    /// ```
    /// # use distlock::Locks;
    /// enum ShopError {
    ///     Lock(distlock::Error),
    ///     SoldOut,
    /// }
    ///
    /// impl From<distlock::Error> for ShopError {
    ///     fn from(error: distlock::Error) -> ShopError {
    ///         ShopError::Lock(error)
    ///     }
    /// }
    ///
    /// async fn sell(locks: &Locks) -> Result<u32, ShopError> {
    ///     let stock = locks.mutex("stock");
    ///     stock.run(async |_| Err(ShopError::SoldOut)).await // `run` is the last expression: its type is that of `sell`
    /// }
    ///
    /// async fn count(locks: &Locks) -> Result<u32, ShopError> {
    ///     let left = locks.mutex("stock").run(async |_| Ok::<_, ShopError>(7)).await?; // `?` converts: any error type would fit
    ///     Ok(left)
    /// }
    /// # distlock::block_on(async {
    /// # let locks = Locks::memory();
    /// # assert!(matches!(sell(&locks).await, Err(ShopError::SoldOut)));
    /// # assert!(matches!(count(&locks).await, Ok(7)));
    /// # locks.close().await;
    /// # assert!(matches!(count(&locks).await, Err(ShopError::Lock(_))));
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future at any point drops `work` and releases; so does a panic in `work`.
    ///
    /// # Errors
    /// The errors of the acquire and of `work`; `Lost` if the lock was lost before `work` was done, even if `work` succeeded. An error of
    /// `work` takes precedence over one of the release.
    pub fn run<T, E: From<Error>, W: AsyncFnOnce(Scope) -> Result<T, E>>(
        self,
        work: W,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, W, G> {
        let request = self.unwatched();
        async move { under(enter(request).await?, work).await }
    }

    /// [`run`](Acquire::run) on the calling thread; no runtime is needed. `work` cannot be stopped when the lock is lost: it can
    /// check its [`Scope`]; if it does not, the call returns `Lost` at the end.
    ///
    /// ```
    /// use distlock::{Locks, Result};
    ///
    /// fn left(locks: &Locks) -> Result<u32> {
    ///     locks.mutex("stock").lock().run_blocking(|scope| {
    ///         scope.ensure()?; // before something that cannot be undone
    ///         Ok(7)
    ///     })
    /// }
    /// assert_eq!(left(&Locks::connect_blocking("memory:")?)?, 7);
    /// # Ok::<(), distlock::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Acquire::run).
    pub fn run_blocking<T, E: From<Error>>(
        self,
        work: impl FnOnce(Scope) -> Result<T, E>,
    ) -> Result<T, E> {
        under_blocking(enter_blocking(self)?, work)
    }
}

impl<G: RunGuard> Acquire<G, May>
where
    Self: IntoFuture<Output = Result<Option<G>>, IntoFuture: Send + 'static>,
{
    /// Runs `work` under the lock; returns `None` without running it if the lock is busy. Otherwise as
    /// [`Acquire<_, Must>::run`](Acquire::run).
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::Locks;
    ///
    /// let locks = Locks::memory();
    /// let _elsewhere = locks.mutex("nightly").lock().await?;
    /// let report = locks.mutex("nightly").try_lock().run(async |_| Ok("done"));
    /// assert_eq!(report.await?, None);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As of [`Acquire<_, Must>::run`](Acquire::run), but never `WaitTimeout`.
    pub fn run<T, E: From<Error>, W: AsyncFnOnce(Scope) -> Result<T, E>>(
        self,
        work: W,
    ) -> impl Future<Output = Result<Option<T>, E>> + use<T, E, W, G> {
        let request = self.unwatched();
        async move {
            match enter(request).await? {
                (Some(guard), nesting) => under((guard, nesting), work).await.map(Some),
                (None, _) => Ok(None),
            }
        }
    }

    /// [`run`](Acquire::run) on the calling thread; no runtime is needed.
    ///
    /// # Errors
    /// As [`run`](Acquire::run).
    pub fn run_blocking<T, E: From<Error>>(
        self,
        work: impl FnOnce(Scope) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        match enter_blocking(self)? {
            (Some(guard), nesting) => under_blocking((guard, nesting), work).map(Some),
            (None, _) => Ok(None),
        }
    }
}
