//! The locks that the calling functions hold: a function that is called under a lock and acquires it again re-enters it.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use tokio::task::futures::TaskLocalFuture;
use uuid::Uuid;

use crate::acquire::Acquire;
use crate::engine::Engine;
use crate::guard::Guard;
use crate::owner::Owner;
use crate::store::ClaimKind;

/// The locks of one running function, linked to those of the function that called it. A function that is called from within another one and
/// acquires the same lock re-enters it; functions that run concurrently exclude each other as always.
#[derive(Debug)]
pub(crate) struct NestingLevel {
    held: Vec<(LockIdentity, Owner)>,
    outer: Option<Arc<NestingLevel>>,
}

/// The identity of a lock: the client, the kind of data and the name.
type LockIdentity = (Uuid, &'static str, String);

/// Returns the identity of a lock, or `None` if its kind cannot be re-entered.
fn identity(engine: &Engine, what: ClaimKind, name: &str) -> Option<LockIdentity> {
    let sort = match what {
        ClaimKind::Exclusive => "exclusive",
        ClaimKind::Fenced => "fenced",
        ClaimKind::Fair { .. } => "fair",
        ClaimKind::Read | ClaimKind::Write { .. } => "rw",
        ClaimKind::Simple => "simple",
        ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } | ClaimKind::LatchOpen => {
            return None;
        }
    };
    Some((engine.client(), sort, name.to_owned()))
}

tokio::task_local! {
    static TASK: Arc<NestingLevel>;
}

thread_local! {
    static THREAD: RefCell<Option<Arc<NestingLevel>>> = const { RefCell::new(None) };
}

impl NestingLevel {
    /// Returns this level and all outer ones.
    fn all(&self) -> impl Iterator<Item = &NestingLevel> {
        std::iter::successors(Some(self), |level| level.outer.as_deref())
    }

    fn is_within(&self, other: &NestingLevel) -> bool {
        self.all().any(|level| std::ptr::eq(level, other))
    }

    /// Returns the owner that holds the lock, if one of the calling functions does.
    fn owner(&self, wanted: &LockIdentity) -> Option<Owner> {
        let mut held = self.all().flat_map(|level| &level.held);
        held.find(|(held, _)| held == wanted).map(|(_, owner)| *owner)
    }
}

/// The calling functions that hold locks.
pub(crate) struct Nesting(Option<Arc<NestingLevel>>);

impl Nesting {
    /// Returns the callers of an async function.
    pub(crate) fn of_task() -> Nesting {
        Nesting(TASK.try_with(Arc::clone).ok())
    }

    /// Returns the callers of a function that is not async: those of its thread or those of its task, whichever are further in.
    pub(crate) fn of_thread() -> Nesting {
        Nesting(match (Nesting::of_task().0, THREAD.with_borrow(Clone::clone)) {
            (Some(task), Some(thread)) if !thread.is_within(&task) => Some(task),
            (task, thread) => thread.or(task),
        })
    }

    /// Makes the request re-enter each lock that a calling function holds, as the owner that holds it. Each function has its own owner, so
    /// there may be several.
    pub(crate) fn re_entering<G, Ending>(&self, request: Acquire<G, Ending>) -> Acquire<G, Ending> {
        let Some(level) = &self.0 else { return request };
        request.re_entering(|member| {
            let name = member.name.as_ref().ok()?;
            level.owner(&identity(&member.engine, member.what, name)?)
        })
    }

    fn and(self, guards: &[&Guard]) -> Arc<NestingLevel> {
        let held = guards.iter().filter_map(|guard| {
            let tenure = &guard.hold.tenure;
            let identity = identity(&tenure.engine, tenure.what, tenure.name())?;
            Some((identity, tenure.owner))
        });
        Arc::new(NestingLevel { held: held.collect(), outer: self.0 })
    }

    /// Returns `work` as a future that runs under these guards.
    pub(crate) fn scope<F: Future>(
        self,
        guards: &[&Guard],
        work: F,
    ) -> TaskLocalFuture<Arc<NestingLevel>, F> {
        TASK.scope(self.and(guards), work)
    }

    /// [`scope`](Nesting::scope) for a thread: runs `work`.
    pub(crate) fn scope_blocking<R>(self, guards: &[&Guard], work: impl FnOnce() -> R) -> R {
        /// Restores the outer level, also when `work` panics.
        struct Restore(Option<Arc<NestingLevel>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                THREAD.set(self.0.take());
            }
        }
        let _restore = Restore(THREAD.replace(Some(self.and(guards))));
        work()
    }
}

/// Runs `work` as a part of the function that waits for it on its thread.
pub(crate) async fn carried<F: Future>(work: F) -> F::Output {
    match Nesting::of_thread().0 {
        Some(level) => TASK.scope(level, work).await,
        None => work.await,
    }
}
