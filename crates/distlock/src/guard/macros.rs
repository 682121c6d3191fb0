//! The functions that the expansion of `#[locked]` calls. Not meant to be called by hand.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use crate::acquire::{Acquire, May, Must};
use crate::error::{Error, Result};
use crate::guard::nesting::Nesting;
use crate::guard::run::{self, RunGuard};
use crate::locks::Locks;
use crate::profiles::Profiles;

pub use crate::guard::run::RunOutput;

/// The return type of a function with `or_skip`.
#[diagnostic::on_unimplemented(
    message = "a #[locked(…, or_skip)] function must return `Result<Option<T>, E>`",
    label = "it returns this",
    note = "it returns `Ok(None)` when another owner holds the lock"
)]
pub trait Skip: RunOutput {
    /// Returns the result if another owner has the lock.
    fn skipped() -> Self;
}

impl<T, E: From<Error>> Skip for std::result::Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}

/// Runs `work` under the lock.
pub async fn run<G: RunGuard, R: RunOutput>(
    request: Acquire<G, Must>,
    work: impl Future<Output = R>,
) -> R
where
    Acquire<G, Must>: IntoFuture<Output = Result<G>>,
{
    match run::enter(request).await {
        Ok(entered) => run::under(entered, async move |_| work.await).await,
        Err(error) => R::failed(error),
    }
}

/// Runs `work` under the lock, or not at all if another owner has it.
pub async fn run_or_skip<G: RunGuard, R: Skip>(
    request: Acquire<G, May>,
    work: impl Future<Output = R>,
) -> R
where
    Acquire<G, May>: IntoFuture<Output = Result<Option<G>>>,
{
    match unless_busy(run::enter(request).await) {
        Ok(entered) => run::under(entered, async move |_| work.await).await,
        Err(skipped) => skipped,
    }
}

/// Runs `work` under the lock on the calling thread.
pub fn run_blocking<G: RunGuard, R: RunOutput>(
    request: Acquire<G, Must>,
    work: impl FnOnce() -> R,
) -> R
where
    Acquire<G, Must>: IntoFuture<Output = Result<G>, IntoFuture: Send + 'static>,
{
    match run::enter_blocking(request) {
        Ok(entered) => run::under_blocking(entered, |_| work()),
        Err(error) => R::failed(error),
    }
}

/// Runs `work` under the lock on the calling thread, or not at all if another owner has it.
pub fn run_blocking_or_skip<G: RunGuard, R: Skip>(
    request: Acquire<G, May>,
    work: impl FnOnce() -> R,
) -> R
where
    Acquire<G, May>: IntoFuture<Output = Result<Option<G>>, IntoFuture: Send + 'static>,
{
    match unless_busy(run::enter_blocking(request)) {
        Ok(entered) => run::under_blocking(entered, |_| work()),
        Err(skipped) => skipped,
    }
}

/// Returns the guard, or the result of a function that does not run.
fn unless_busy<G, R: Skip>(entered: Result<(Option<G>, Nesting)>) -> Result<(G, Nesting), R> {
    match entered {
        Ok((Some(guard), nesting)) => Ok((guard, nesting)),
        Ok((None, _)) => Err(R::skipped()),
        Err(error) => Err(R::failed(error)),
    }
}

/// Returns the locks that `via` names.
pub fn locks<L: AsRef<Locks> + ?Sized>(via: &L) -> &Locks {
    via.as_ref()
}

/// Returns the locks of a profile, or of the default one.
pub async fn profile(name: Option<&str>) -> Result<Locks> {
    let profiles = Profiles::installed()?;
    profiles.locks(name.unwrap_or(profiles.default_name())).await
}

/// [`profile`] for a thread.
pub fn profile_blocking(name: Option<&str>) -> Result<Locks> {
    let profiles = Profiles::installed()?;
    profiles.locks_blocking(name.unwrap_or(profiles.default_name()))
}

/// Names a value of some type and never makes one.
///
/// # Panics
/// Always.
pub fn never<T>() -> T {
    unreachable!("BUG: this is named and not called")
}

/// Parses a duration in words when the program is built.
pub const fn duration(words: &str) -> Duration {
    match crate::duration::parse(words) {
        Some(duration) => duration,
        None => panic!(
            "not a duration: expected numbers with the units ms, s, m, h and d, as in 500ms, 10s, 2m, 1h30m"
        ),
    }
}

/// What the compiler refuses in its own words, which change with each version: only that it refuses is tested.
///
/// It returns no `Result`.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", via = locks)]
/// async fn no_result(locks: &Locks) -> u32 { 1 }
/// ```
/// It returns nothing that could say "skipped".
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", or_skip, via = locks)]
/// async fn no_option(locks: &Locks) -> distlock::Result<u32> { Ok(1) }
/// ```
/// It waits for no duration.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", wait = "3 days", via = locks)]
/// async fn no_duration(locks: &Locks) -> distlock::Result<u32> { Ok(1) }
/// ```
/// Its name has an argument that it does not have.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k:{idd}", via = locks)]
/// async fn no_such_argument(locks: &Locks, id: u32) -> distlock::Result<u32> { Ok(1) }
/// ```
/// Its locks are none.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", via = id)]
/// async fn no_locks(locks: &Locks, id: u32) -> distlock::Result<u32> { Ok(1) }
/// ```
/// So that these fail for no other reason:
/// ```
/// # use distlock::{Locks, locked};
/// #[locked("k:{id}", or_skip, wait = "3s", via = locks)]
/// async fn good(locks: &Locks, id: u32) -> distlock::Result<Option<u32>> { Ok(Some(1)) }
/// ```
#[cfg(doctest)]
struct DoesNotCompile;
