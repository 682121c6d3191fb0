//! Which locks the functions around hold: what is called from within re-enters them instead of waiting for itself.

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

/// The locks of the functions that are being run, the innermost first. A function that is called from within another one
/// and asks for the same lock re-enters it; others, also such as run beside it, exclude each other as always.
#[derive(Debug)]
pub(crate) struct NestingLevel {
    held: Vec<(LockIdentity, Owner)>,
    outer: Option<Arc<NestingLevel>>,
}

/// Which lock it is: of which `Locks`, of what sort, and its name.
type LockIdentity = (Uuid, &'static str, String);

/// `None` for what cannot be entered twice.
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
    /// This one and those around it.
    fn all(&self) -> impl Iterator<Item = &NestingLevel> {
        std::iter::successors(Some(self), |level| level.outer.as_deref())
    }

    fn is_within(&self, other: &NestingLevel) -> bool {
        self.all().any(|level| std::ptr::eq(level, other))
    }

    /// Who holds it, if one of the functions around does.
    fn owner(&self, wanted: &LockIdentity) -> Option<Owner> {
        let mut held = self.all().flat_map(|level| &level.held);
        held.find(|(held, _)| held == wanted).map(|(_, owner)| *owner)
    }
}

/// The functions with locks that a call is made from.
pub(crate) struct Nesting(Option<Arc<NestingLevel>>);

impl Nesting {
    /// Of an async function.
    pub(crate) fn of_task() -> Nesting {
        Nesting(TASK.try_with(Arc::clone).ok())
    }

    /// Of a function that is not async: also those that are not either, whichever of both is further in.
    pub(crate) fn of_thread() -> Nesting {
        Nesting(match (Nesting::of_task().0, THREAD.with_borrow(Clone::clone)) {
            (Some(task), Some(thread)) if !thread.is_within(&task) => Some(task),
            (task, thread) => thread.or(task),
        })
    }

    /// Has each lock that a function around holds re-entered by its owner. There may be several: each function has its own.
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

    /// `work` as what is done under these guards.
    pub(crate) fn scope<F: Future>(
        self,
        guards: &[&Guard],
        work: F,
    ) -> TaskLocalFuture<Arc<NestingLevel>, F> {
        TASK.scope(self.and(guards), work)
    }

    /// [`scope`](Nesting::scope) for a thread: does it.
    pub(crate) fn scope_blocking<R>(self, guards: &[&Guard], work: impl FnOnce() -> R) -> R {
        /// Also when `work` panics.
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
