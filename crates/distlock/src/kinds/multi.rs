//! Several locks, all or none.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tracing::Instrument;

use super::Mutex;
use super::handle::run_methods;
use crate::acquire::Member;
use crate::acquire::{Acquire, AcquiredHolds, May, Must};
use crate::engine::{self, Hold, State};
use crate::error::Result;
use crate::guard::loss::{any_lost, until_lost};
use crate::guard::{Guard, span_of};
use crate::owner::Owner;
use crate::store::{ClaimKind, Kind};

/// Several locks as one: all or none, over any kinds, stores and servers. Redisson's `getMultiLock`.
///
/// Made by [`Locks::multi`](crate::Locks::multi) for names of one store, by [`MultiLock::new`] for everything else: handles of
/// the exclusive kinds become members by `into()`, those of other kinds by [`reader`](crate::Rw::reader),
/// [`writer`](crate::Rw::writer) or [`permits`](crate::Semaphore::permits).
///
/// # When not
/// When one coarser lock would do: it takes one command to acquire and one to release, and there is nothing to roll back.
///
/// # Guarantees
/// The guard holds every member until one of them is lost, all under one owner. No request waits while it holds some of the members: if
/// one is busy the others are released, so two requests that name the same locks in different orders do not block each other for ever.
/// Mutexes and fenced locks on one Redis server are acquired in one script; other members store by store in the order given, and by
/// name within a store. A lease, or the watchdog, applies to each. The guard is lost as soon as the loss of one member is noticed.
///
/// There is no queue for the whole: a caller that wants many busy locks at once can be overtaken by callers that want
/// one of them.
///
/// # If the holder dies
/// Each member is free when its lease ends.
///
/// # Cancel safety
/// If the future of an acquire is dropped, an in-flight acquire is rolled back in the background; if a store is unreachable, its members
/// end with their leases. (The permits of a plain [`Semaphore`](crate::Semaphore) on Redis have no lease.)
///
/// # Redisson compatibility
/// The store sees only the members, so a `RedissonMultiLock` over the same members excludes and is excluded.
/// Redisson acquires its members one by one and keeps those that it has while it waits for the next, up to its wait.
///
/// # Examples
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{Locks, MultiLock};
///
/// let locks = Locks::memory();
/// let both = locks.multi(["acct:1", "acct:2"]).lock().await?;
/// assert!(locks.mutex("acct:2").try_lock().await?.is_none());
/// both.unlock().await?;
///
/// let (old, new) = (Locks::memory(), Locks::memory()); // two servers, while moving from one to the other
/// let guard = MultiLock::new([old.mutex("k").into(), new.mutex("k").into()]).lock().await?;
/// guard.unlock().await?;
///
/// let slots = locks.semaphore("slots").with_permits(3);
/// let mixed = MultiLock::new([locks.rw("index").reader(), slots.permits(2), locks.fair("k").into()]);
/// mixed.lock().await?.unlock().await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
///
/// How to move locks from one server to another under load: [`mod@crate::migration`].
#[derive(Clone, Debug)]
pub struct MultiLock {
    members: Vec<Member>,
}

impl MultiLock {
    /// Returns these locks as one. A lock that is named twice counts once.
    pub fn new(members: impl IntoIterator<Item = Member>) -> MultiLock {
        MultiLock { members: members.into_iter().collect() }
    }

    /// Acquires all members; waits without a limit unless [`wait`](Acquire::wait) sets one.
    ///
    /// # Errors
    /// `WaitTimeout` if not all were free in time, with the last busy one; the error of the member that failed, and its store,
    /// after all others were released, with the errors of these releases; `Config` for no locks at all.
    #[track_caller]
    pub fn lock(&self) -> Acquire<MultiGuard, Must> {
        Acquire::all(self.members.clone())
    }

    /// Acquires all members, or returns `None` if one is busy: one attempt unless [`wait`](Acquire::wait) sets a wait.
    ///
    /// # Errors
    /// As [`lock`](MultiLock::lock), but never `WaitTimeout`.
    #[track_caller]
    pub fn try_lock(&self) -> Acquire<MultiGuard, May> {
        Acquire::all(self.members.clone())
    }

    run_methods!();
}

/// A hold of every member of a [`MultiLock`]. Dropping it releases all.
///
/// ```
/// # distlock::block_on(async {
/// let locks = distlock::Locks::memory();
/// let both = locks.multi(["acct:1", "acct:2"]).lock().await?;
/// assert!(!both.is_lost() && locks.mutex("acct:2").is_locked().await?);
/// both.unlock().await?; // `Lost` if one of them had been lost
/// assert!(!locks.mutex("acct:2").is_locked().await?);
/// # Ok::<(), distlock::Error>(()) }).unwrap();
/// ```
#[must_use = "dropping a guard releases the locks immediately"]
#[clippy::has_significant_drop]
pub struct MultiGuard {
    /// At least one.
    guards: Vec<Guard>,
}

impl From<AcquiredHolds> for MultiGuard {
    fn from(got: AcquiredHolds) -> MultiGuard {
        let holds = match got {
            AcquiredHolds::All(holds) => holds,
            AcquiredHolds::One(hold) => vec![hold],
        };
        MultiGuard {
            guards: holds.into_iter().map(|hold| Guard::from(AcquiredHolds::One(hold))).collect(),
        }
    }
}

impl MultiGuard {
    /// Returns the guard of each member, in the order in which they were acquired.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the owner of the members, one for all of them; pass it on to re-enter. (Permits have one each.)
    pub fn owner(&self) -> &Owner {
        self.guards[0].owner()
    }

    /// Returns the highest fencing token among the members; `None` if none of them is fenced.
    pub fn token(&self) -> Option<u64> {
        let fenced = self.guards.iter().filter(|guard| guard.hold.tenure.what == ClaimKind::Fenced);
        fenced.map(|guard| guard.hold.tenure.token()).max()
    }

    /// Releases all members at the same time, each even if others fail, and returns every error in one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the releases are completed in the background.
    ///
    /// # Errors
    /// The error of the member that failed, and its store; if several failed, the messages of all, and the kind of the first, or `Lost`
    /// if one of them was lost.
    pub async fn unlock(self) -> Result<()> {
        let holds: Vec<Hold> = self.guards.into_iter().map(|guard| guard.hold).collect();
        engine::unlock_all(holds).await
    }

    /// [`unlock`](MultiGuard::unlock) for blocking code.
    pub fn unlock_blocking(self) -> Result<()> {
        let env = self.guards[0].hold.tenure.engine.env.clone();
        engine::block_on(&*env, Box::pin(self.unlock()))
    }

    /// Returns a future that completes when one of the members is lost, and never if they are released. As [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let each = self.guards.iter().map(|guard| guard.hold.tenure.vitals.clone()).collect();
        any_lost(each, self.guards[0].hold.tenure.engine.env.clone())
    }

    /// Returns whether one of the members is lost.
    pub fn is_lost(&self) -> bool {
        self.state() == State::Lost
    }

    /// Returns the worst of the members' states.
    pub fn state(&self) -> State {
        State::worst(self.guards.iter().map(Guard::state))
    }

    /// Returns the time until the first deadline of a member if none is renewed; zero once one is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::MAX)
    }

    /// Makes every member last at least `lease` from now; never shortens one.
    ///
    /// # Errors
    /// As [`Guard::extend`], for the first member that fails.
    pub async fn extend(&self, lease: Duration) -> Result<()> {
        for guard in &self.guards {
            guard.extend(lease).await?;
        }
        Ok(())
    }

    /// Forgets the guard without releasing: every member stays, unrenewed, until its lease ends or its `unlock` is called with the
    /// owner that this returns.
    pub fn leak(self) -> Owner {
        let owner = *self.owner();
        for guard in self.guards {
            guard.leak();
        }
        owner
    }

    /// Runs `work` and drops it when the loss of a member is noticed.
    ///
    /// # Errors
    /// `Lost`; what `work` has done so far is not undone.
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        let work = work.instrument(self.held_span());
        let done = until_lost(self.lost(), || self.is_lost(), work).await;
        let lost =
            |guard: &Guard| engine::lost().about(guard.hold.tenure.kind, guard.hold.tenure.name());
        done.ok_or_else(|| {
            let first = self.guards.iter().find(|guard| guard.is_lost());
            first.map_or_else(engine::lost, lost)
        })
    }

    /// What log lines of work under it belong to.
    pub(crate) fn held_span(&self) -> tracing::Span {
        let names: Vec<&str> = self.guards.iter().map(Guard::name).collect();
        span_of(Kind::Multi, &names.join(", "))
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGuard").field(&self.guards).finish()
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Member {
        mutex.member()
    }
}
