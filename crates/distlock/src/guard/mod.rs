//! [`Guard`]: holds a lock and reports its loss. Beside it, work that runs under a lock.

mod guarded;
pub(crate) mod loss;
#[cfg(feature = "macros")]
pub mod macros;
pub(crate) mod nesting;
pub(crate) mod run;
mod scope;

pub use scope::Scope;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use tracing::Instrument;

use crate::acquire::Member;
use crate::acquire::{Acquire, AcquiredHolds, May, check_lease};
use crate::engine::{self, Hold, State};
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::store::{ClaimKind, Kind, PermitId};
use loss::until_lost;

/// A guard holds a lock until it is dropped or the lock is [lost](Guard::lost). Dropping it releases the lock.
///
/// The release of a dropped guard is sent in the background; the drop does not wait for it.
///
/// # What the compiler catches
/// | code | drops the guard | reported by |
/// |---|---|---|
/// | `let guard = lock.lock().await?;` | at the end of the block | |
/// | `let _guard = lock.lock().await?;` | at the end of the block | |
/// | `lock.lock().await?;` | at once | rustc, by default (`unused_must_use`) |
/// | `let _ = lock.lock().await?;` | at once: `_` binds nothing | rustc's `let_underscore_drop` and clippy's `let_underscore_must_use`, which are off by default |
/// | `lock.try_lock().await?;` | at once | no lint: it is an `Option` |
/// | `let _ = lock.try_lock().await?;` | at once | rustc's `let_underscore_drop`, which is off by default |
///
/// rustc's `let_underscore_lock`, which is on by default, knows the guards of the standard library alone, and a library cannot add its own. So
/// turn these on, for a crate at its root, or for a workspace in `Cargo.toml`:
///
/// ```toml
/// [workspace.lints.rust]
/// let_underscore_drop = "deny"
/// [workspace.lints.clippy]
/// let_underscore_must_use = "deny"
/// ```
///
/// clippy's `significant_drop_in_scrutinee` and `significant_drop_tightening` (both in `nursery`) know guards, too: they report a lock that is held
/// for longer than it is used.
///
/// # At the end of a program
/// [`unlock().await`](Guard::unlock), or [`Locks::close().await`](crate::Locks::close), before `main` returns is the only way to
/// know that the store has the release. Without it, the drop of the last [`Locks`](crate::Locks) waits up to 0.3 s for releases
/// that are under way. So `drop(guard)` at the end of `main` normally frees the lock before the process exits. The
/// release is skipped, and the lock stays until its lease ends (30 s without a lease of its own), if
/// - the store does not reply within that time,
/// - the last `Locks` is never dropped (it is in a `static`, or the process ends by `std::process::exit`, a signal or an abort),
/// - the last `Locks` is dropped within a task of a runtime (`tokio::spawn`, `spawn_blocking`), which must not be blocked,
/// - the guard is dropped after the last `Locks`.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// let locks = distlock::Locks::memory();
/// let guard = locks.mutex("orders:42").lock().await?;
/// let shipped = guard.while_held(async { "shipped" }).await?; // stops if the lock is lost
/// guard.unlock().await?; // `Lost` if the lock had been lost
/// # assert_eq!(shipped, "shipped");
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "dropping a guard releases the lock immediately"]
#[clippy::has_significant_drop]
pub struct Guard {
    pub(crate) hold: Hold,
}

impl From<AcquiredHolds> for Guard {
    fn from(got: AcquiredHolds) -> Guard {
        match got {
            AcquiredHolds::One(hold) => Guard { hold },
            AcquiredHolds::All(_) => unreachable!("BUG: a request for one lock was given several"),
        }
    }
}

impl Guard {
    /// Releases the lock and returns whether it was held until then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release is completed in the background.
    ///
    /// # Errors
    /// `Lost` if the lock was not held any more; `Unavailable` or `Indeterminate` if the store did not reply in time, in
    /// which case the release is retried in the background until the lease is over.
    pub async fn unlock(self) -> Result<()> {
        engine::unlock(self.hold).await
    }

    /// [`unlock`](Guard::unlock) for blocking code.
    pub fn unlock_blocking(self) -> Result<()> {
        let env = self.hold.tenure.engine.env.clone();
        engine::block_on(&*env, Box::pin(engine::unlock(self.hold)))
    }

    /// Returns a future that completes when the lock is lost, and never completes if it is released.
    ///
    /// When the *lease ends*, the future completes before another owner can acquire the lock, provided that this process runs and
    /// that its clock and the store's differ in rate by less than 1 %: the deadline is computed locally, from the time at which the
    /// last accepted renewal was sent. When the lock is *taken away* (a forced unlock through another `Locks`, an eviction, a jump of
    /// the server's clock), it completes at the next renewal, a third of the watchdog's timeout later at most, if the store replies;
    /// otherwise at the deadline at the latest. With a fixed lease, which is not renewed, it completes at the deadline. After a
    /// failover that lost the lock it completes when the client has found the new primary, at the deadline at the latest. Until then
    /// another owner may hold the lock. A forced unlock through the same [`Locks`](crate::Locks), or a clone of it, is noticed at once.
    ///
    /// The future is independent of the guard: it can be moved into another task.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// let locks = distlock::Locks::memory();
    /// let guard = locks.mutex("k").lock().await?;
    /// let watch = tokio::spawn(guard.lost());
    /// locks.mutex("k").force_unlock().await?;
    /// watch.await.unwrap();
    /// assert!(guard.is_lost());
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let vitals = self.hold.tenure.vitals.clone();
        let env = self.hold.tenure.engine.env.clone();
        async move { vitals.lost(&*env).await }
    }

    /// Returns whether the lock is lost, as far as [`lost`](Guard::lost) knows.
    pub fn is_lost(&self) -> bool {
        self.state() == State::Lost
    }

    /// Returns the state of the lock: held, suspect or lost.
    pub fn state(&self) -> State {
        self.hold.state()
    }

    /// Returns the time until the deadline if the lock is not renewed, by the lease that the store granted last; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        let tenure = &self.hold.tenure;
        tenure.vitals.remaining(tenure.engine.env.now())
    }

    /// Makes the lock last at least `lease` from now, or as long as the store grants if that is less; never shortens it.
    ///
    /// # Errors
    /// `Lost` if it is not held any more, `InvalidDuration`, or an error of the store.
    pub async fn extend(&self, lease: Duration) -> Result<()> {
        let tenure = self.hold.tenure.clone();
        let about = tenure.clone();
        let env = tenure.engine.env.clone();
        let extended = match check_lease(lease) {
            Ok(lease) => {
                let work = |adoptable| engine::extend(tenure, lease, adoptable);
                engine::Detached::new(&env, work).await.unwrap_or_else(|| {
                    let text = "the extension was interrupted: it may or may not have been applied";
                    Err(Error::new(ErrorKind::Indeterminate, text))
                })
            }
            Err(e) => Err(e),
        };
        extended.map_err(|e| e.about(about.kind, about.name()))
    }

    /// Runs `work` and drops it when the loss of the lock is noticed. Log lines of `work` are in the `tracing` span `held`,
    /// with the lock's kind and name.
    ///
    /// # Cancel safety
    /// Dropping this drops `work`; the guard stays as it is.
    ///
    /// # Errors
    /// `Lost`; what `work` has done so far is not undone.
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        let tenure = &self.hold.tenure;
        let work = work.instrument(self.held_span());
        let done = until_lost(self.lost(), || self.is_lost(), work).await;
        done.ok_or_else(|| engine::lost().about(tenure.kind, tenure.name()))
    }

    /// Returns the span of the log lines of work under the lock.
    pub(crate) fn held_span(&self) -> tracing::Span {
        span_of(self.hold.tenure.kind, self.name())
    }

    /// Returns the owner that holds the lock; pass it on to re-enter.
    pub fn owner(&self) -> &Owner {
        &self.hold.tenure.owner
    }

    /// Returns the owner as the store and other processes see it: an id for this stay, from the acquire until the last guard is
    /// gone. It equals [`owner`](Guard::owner) unless the program named the owner; each stay of a named owner has its own id.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// let locks = distlock::Locks::memory();
    /// let me = locks.owner();
    /// let first = locks.mutex("k").lock().owner(&me).await?;
    /// let before = *first.stay();
    /// first.unlock().await?;
    /// let second = locks.mutex("k").lock().owner(&me).await?;
    /// assert_eq!(second.owner(), &me);
    /// assert_ne!(second.stay(), &before);
    /// # Ok::<(), distlock::Error>(()) }).unwrap();
    /// ```
    pub fn stay(&self) -> &Owner {
        &self.hold.tenure.stay
    }

    /// Returns the full name of the lock, prefix included.
    pub fn name(&self) -> &str {
        self.hold.tenure.name()
    }

    /// Forgets the guard without releasing: the lock stays, unrenewed, until its lease ends or a process calls
    /// [`Mutex::unlock`](crate::Mutex::unlock) with the [stay](Guard::stay) that this returns. On `memory:` and `file:` it ends with the process at the
    /// latest.
    pub fn leak(self) -> Owner {
        self.hold.leak()
    }
}

/// Returns the span of the log lines of work under a lock.
pub(crate) fn span_of(kind: Kind, name: &str) -> tracing::Span {
    tracing::info_span!(target: "distlock", "held", kind = kind.as_str(), name)
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("state", &self.state())
            .finish()
    }
}

/// Defines a guard type that dereferences to [`Guard`] and adds the methods of its kind.
macro_rules! guards {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use = "dropping a guard releases the lock immediately"]
            #[clippy::has_significant_drop]
            pub struct $name(Guard);

            impl From<AcquiredHolds> for $name {
                fn from(got: AcquiredHolds) -> $name {
                    $name(Guard::from(got))
                }
            }

            impl Deref for $name {
                type Target = Guard;

                fn deref(&self) -> &Guard {
                    &self.0
                }
            }

            impl $name {
                /// As [`Guard::unlock`].
                pub async fn unlock(self) -> Result<()> {
                    self.0.unlock().await
                }

                /// As [`Guard::unlock_blocking`].
                pub fn unlock_blocking(self) -> Result<()> {
                    self.0.unlock_blocking()
                }

                /// As [`Guard::leak`].
                pub fn leak(self) -> Owner {
                    self.0.leak()
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_tuple(stringify!($name)).field(&self.0).finish()
                }
            }
        )*
    };
}

guards! {
    /// A hold of the reading half of an [`Rw`](crate::Rw) lock.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// let prices = distlock::Locks::memory().rw("prices");
    /// let reading = prices.read().await?;
    /// assert!(prices.try_read().await?.is_some() && prices.try_write().await?.is_none());
    /// # reading.unlock().await }).unwrap();
    /// ```
    ReadGuard;
    /// A hold of the writing half of an [`Rw`](crate::Rw) lock.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// let prices = distlock::Locks::memory().rw("prices");
    /// let writing = prices.write().await?;
    /// assert!(prices.try_read().await?.is_none());
    /// # writing.unlock().await }).unwrap();
    /// ```
    WriteGuard;
    /// A hold of a [`Fenced`](crate::Fenced) lock, with its token.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// let disk = distlock::Locks::memory().fenced("disk:7");
    /// let first = disk.lock().await?.token();
    /// assert!(disk.lock().await?.token() > first); // the disk refuses tokens lower than the highest it has seen
    /// # Ok::<(), distlock::Error>(()) }).unwrap();
    /// ```
    FencedGuard;
    /// Permits of a [`Semaphore`](crate::Semaphore) or a [`LeasedSemaphore`](crate::LeasedSemaphore). Dropping
    /// them returns them to the semaphore.
    ///
    /// ```
    /// # distlock::block_on(async {
    /// let builds = distlock::Locks::memory().leased_semaphore("builds").with_permits(3);
    /// let two = builds.acquire(2).await?;
    /// assert_eq!((two.count(), two.ids().len(), builds.available().await?), (2, 2, 1));
    /// # two.release().await }).unwrap();
    /// ```
    Permits;
}

impl FencedGuard {
    /// Returns the fencing token, which is higher than that of every earlier acquisition. Send it to the resource with every write.
    pub fn token(&self) -> u64 {
        self.0.hold.tenure.token()
    }
}

impl Permits {
    /// Returns the number of permits.
    pub fn count(&self) -> u32 {
        match self.0.hold.tenure.what {
            ClaimKind::Permits { count, .. } | ClaimKind::LeasedPermits { count, .. } => count,
            _ => 0,
        }
    }

    /// Returns the ids of permits of a [`LeasedSemaphore`](crate::LeasedSemaphore), by which any process can release them; empty
    /// for a plain semaphore.
    pub fn ids(&self) -> Vec<PermitId> {
        let tenure = &self.0.hold.tenure;
        match tenure.what {
            ClaimKind::LeasedPermits { count, .. } => PermitId::of(tenure.stay, count).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the permits to the semaphore: the same as [`unlock`](Permits::unlock).
    pub async fn release(self) -> Result<()> {
        self.unlock().await
    }
}

impl WriteGuard {
    /// Turns the write hold into a read hold, so that other readers can acquire; no other owner can write in between.
    ///
    /// The watchdog renews the read if it renewed the write; otherwise the read has a lease of its own, as long as the write's. If
    /// its owner writes more than once, the other write holds stay as they are.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// let locks = distlock::Locks::memory();
    /// let writing = locks.rw("prices").write().await?;
    /// let reading = writing.downgrade().await?;
    /// assert!(locks.rw("prices").try_read().await?.is_some());
    /// assert!(locks.rw("prices").try_write().await?.is_none());
    /// # reading.unlock().await?;
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is held afterwards.
    ///
    /// # Errors
    /// `Lost` if the write was not held any more; `Unavailable` or `Indeterminate` if the store did not reply in time;
    /// `NotDurable` if too few replicas acknowledged the read. Nothing is held then.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let hold = &self.0.hold;
        let (tenure, lease) = (&hold.tenure, hold.tenure.lease);
        let (engine, name, kind) = (tenure.engine.clone(), tenure.name().clone(), tenure.kind);
        let reader =
            Member { engine, name: Ok(name), kind, what: ClaimKind::Read, spin: None, owner: None };
        let read = Acquire::<ReadGuard, May>::one(reader).owner(&tenure.owner);
        let read = if hold.watched { read } else { read.lease(lease) };
        let read = if let Some(label) = tenure.label() { read.label(label) } else { read };
        // A writer can read at once; if this one cannot, another owner writes.
        let Some(read) = read.await? else {
            return Err(engine::lost().about(kind, tenure.name()));
        };
        // If the write had been lost before, other owners may have written since, and the read does not continue it.
        self.unlock().await?;
        Ok(read)
    }

    /// [`downgrade`](WriteGuard::downgrade) for blocking code.
    pub fn downgrade_blocking(self) -> Result<ReadGuard> {
        let env = self.0.hold.tenure.engine.env.clone();
        engine::block_on(&*env, Box::pin(self.downgrade()))
    }
}
