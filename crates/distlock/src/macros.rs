//! What `#[locked]` expands to calls. Not meant to be called by hand.

use std::cell::RefCell;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{FencedGuard, Guard, Permits, ReadGuard, WriteGuard};
use crate::kinds::MultiGuard;
use crate::locks::Locks;
use crate::owner::Owner;
use crate::profiles::Profiles;
use crate::request::{Acquire, May, Must};
use crate::store::What;

/// What a function with a lock around it gives.
#[diagnostic::on_unimplemented(
    message = "a #[locked] function must return a `Result` whose error can be made from `distlock::Error`",
    label = "it returns this",
    note = "the lock may not be had in time, or be lost: write `Result<T, E>` with `E: From<distlock::Error>`"
)]
pub trait Outcome {
    /// The lock was not had, or was lost.
    fn failed(error: Error) -> Self;
    /// Whether the body was content.
    fn is_ok(&self) -> bool;
}

impl<T, E: From<Error>> Outcome for std::result::Result<T, E> {
    fn failed(error: Error) -> Self {
        Err(error.into())
    }

    fn is_ok(&self) -> bool {
        self.is_ok()
    }
}

/// What a function gives that does without if the lock is busy.
#[diagnostic::on_unimplemented(
    message = "a #[locked(…, or_skip)] function must return `Result<Option<T>, E>`",
    label = "it returns this",
    note = "it gives `Ok(None)` when somebody else has the lock"
)]
pub trait Skip: Outcome {
    /// Somebody else has the lock.
    fn skipped() -> Self;
}

impl<T, E: From<Error>> Skip for std::result::Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}

/// What is held while the body runs.
pub trait Held: Sized + Send {
    /// What is locked.
    fn guards(&self) -> Vec<&Guard>;
    /// Lets go.
    fn release(self) -> impl Future<Output = Result<()>> + Send;
    /// Lets go, without a runtime.
    fn release_blocking(self) -> Result<()>;
    /// Does the work unless the lock is lost before it is done.
    fn during<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output>>;
}

macro_rules! held {
    ($($guard:ident: $guards:expr;)*) => {
        $(impl Held for $guard {
            fn guards(&self) -> Vec<&Guard> {
                let guards: fn(&$guard) -> Vec<&Guard> = $guards;
                guards(self)
            }

            fn release(self) -> impl Future<Output = Result<()>> + Send {
                self.unlock()
            }

            fn release_blocking(self) -> Result<()> {
                self.unlock_blocking()
            }

            fn during<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output>> {
                self.while_held(work)
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

/// The locks of the functions that are being run, the innermost first. A function that is called from within another one
/// and asks for the same lock re-enters it; others, also such as run beside it, exclude each other as always.
#[derive(Debug)]
struct Link {
    held: Vec<(Identity, Owner)>,
    outer: Option<Arc<Link>>,
}

/// Which lock it is: of which `Locks`, of what sort, and its name.
type Identity = (Uuid, &'static str, String);

/// `None` for what cannot be entered twice.
fn identity(engine: &Engine, what: What, name: &str) -> Option<Identity> {
    let sort = match what {
        What::Exclusive => "exclusive",
        What::Fenced => "fenced",
        What::Fair { .. } => "fair",
        What::Read | What::Write { .. } => "rw",
        What::Simple => "simple",
        What::Permits { .. } | What::LeasedPermits { .. } | What::LatchOpen => return None,
    };
    Some((engine.client(), sort, name.to_owned()))
}

tokio::task_local! {
    static CHAIN: Arc<Link>;
}

thread_local! {
    static THREAD: RefCell<Option<Arc<Link>>> = const { RefCell::new(None) };
}

fn of_task() -> Option<Arc<Link>> {
    CHAIN.try_with(Arc::clone).ok()
}

/// Of a function that is not async: also those that are not either.
fn of_thread() -> Option<Arc<Link>> {
    THREAD.with_borrow(Clone::clone).or_else(of_task)
}

impl Link {
    fn of(guards: &[&Guard], outer: Option<Arc<Link>>) -> Arc<Link> {
        let held = guards.iter().filter_map(|guard| {
            let tenure = &guard.hold.tenure;
            let identity = identity(&tenure.engine, tenure.what, tenure.name())?;
            Some((identity, tenure.owner))
        });
        Arc::new(Link { held: held.collect(), outer })
    }

    /// Who holds one of these, if one of the functions around does.
    fn owner(this: &Option<Arc<Link>>, wanted: &[Identity]) -> Option<Owner> {
        let mut link = this.as_ref();
        while let Some(this) = link {
            let known = this.held.iter().find(|(held, _)| wanted.contains(held));
            if let Some((_, owner)) = known {
                return Some(*owner);
            }
            link = this.outer.as_ref();
        }
        None
    }
}

fn within<G, Ending>(request: Acquire<G, Ending>, chain: &Option<Arc<Link>>) -> Acquire<G, Ending> {
    if chain.is_none() {
        return request;
    }
    let wanted = request.members().iter().filter_map(|member| {
        let name = member.name.as_ref().ok()?;
        identity(&member.engine, member.what, name)
    });
    match Link::owner(chain, &wanted.collect::<Vec<_>>()) {
        Some(owner) => request.owner(&owner),
        None => request,
    }
}

/// Runs `work` under the lock.
pub async fn run<G: Held, R: Outcome>(request: Acquire<G, Must>, work: impl Future<Output = R>) -> R
where
    Acquire<G, Must>: IntoFuture<Output = Result<G>>,
{
    let chain = of_task();
    match within(request, &chain).await {
        Ok(guard) => held(guard, chain, work).await,
        Err(error) => R::failed(error),
    }
}

/// Runs `work` under the lock, or not at all if somebody else has it.
pub async fn run_or_skip<G: Held, R: Skip>(
    request: Acquire<G, May>,
    work: impl Future<Output = R>,
) -> R
where
    Acquire<G, May>: IntoFuture<Output = Result<Option<G>>>,
{
    let chain = of_task();
    match within(request, &chain).await {
        Ok(Some(guard)) => held(guard, chain, work).await,
        Ok(None) => R::skipped(),
        Err(error) => R::failed(error),
    }
}

async fn held<G: Held, R: Outcome>(
    guard: G,
    chain: Option<Arc<Link>>,
    work: impl Future<Output = R>,
) -> R {
    let link = Link::of(&guard.guards(), chain);
    match guard.during(CHAIN.scope(link, work)).await {
        Ok(done) => judged(done, guard.release().await),
        // Stopped: it is not known how far it came.
        Err(lost) => R::failed(lost),
    }
}

/// What the body says stands, unless it is content with what it did without the lock.
fn judged<R: Outcome>(done: R, released: Result<()>) -> R {
    match released {
        Err(e) if done.is_ok() && e.kind() == ErrorKind::Lost => R::failed(e),
        _ => done,
    }
}

/// Runs `work` under the lock on the calling thread.
pub fn run_blocking<G: Held + 'static, R: Outcome>(
    request: Acquire<G, Must>,
    work: impl FnOnce() -> R,
) -> R
where
    Acquire<G, Must>: IntoFuture<Output = Result<G>, IntoFuture: Send + 'static>,
{
    let chain = of_thread();
    match within(request, &chain).blocking() {
        Ok(guard) => held_blocking(guard, chain, work),
        Err(error) => R::failed(error),
    }
}

/// Runs `work` under the lock on the calling thread, or not at all if somebody else has it.
pub fn run_blocking_or_skip<G: Held + 'static, R: Skip>(
    request: Acquire<G, May>,
    work: impl FnOnce() -> R,
) -> R
where
    Acquire<G, May>: IntoFuture<Output = Result<Option<G>>, IntoFuture: Send + 'static>,
{
    let chain = of_thread();
    match within(request, &chain).blocking() {
        Ok(Some(guard)) => held_blocking(guard, chain, work),
        Ok(None) => R::skipped(),
        Err(error) => R::failed(error),
    }
}

fn held_blocking<G: Held, R: Outcome>(
    guard: G,
    chain: Option<Arc<Link>>,
    work: impl FnOnce() -> R,
) -> R {
    /// Also when `work` panics.
    struct Restore(Option<Arc<Link>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            THREAD.set(self.0.take());
        }
    }
    let link = Link::of(&guard.guards(), chain);
    let restore = Restore(THREAD.replace(Some(link)));
    let done = work();
    drop(restore);
    judged(done, guard.release_blocking())
}

/// The locks that `via` names.
pub fn locks<L: AsRef<Locks> + ?Sized>(via: &L) -> &Locks {
    via.as_ref()
}

/// The locks of a profile, or of the default one.
pub async fn profile(name: Option<&str>) -> Result<Locks> {
    let profiles = Profiles::installed()?;
    profiles.locks(name.unwrap_or(profiles.default_name())).await
}

/// [`profile`] for a thread.
pub fn profile_blocking(name: Option<&str>) -> Result<Locks> {
    let profiles = Profiles::installed()?;
    profiles.locks_blocking(name.unwrap_or(profiles.default_name()))
}

/// Stands where a value of some type is named and never made.
///
/// # Panics
/// Always.
pub fn never<T>() -> T {
    unreachable!("BUG: this is named and not called")
}

/// A duration in words, checked when the program is built.
pub const fn duration(words: &str) -> Duration {
    match crate::duration::parse(words) {
        Some(duration) => duration,
        None => panic!(
            "not a duration: expected numbers with the units ms, s, m, h and d, as in 500ms, 10s, 2m, 1h30m"
        ),
    }
}
