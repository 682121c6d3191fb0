//! Which locks the functions around hold: what is called from within re-enters them instead of waiting for itself.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use tokio::task::futures::TaskLocalFuture;
use uuid::Uuid;

use crate::engine::Engine;
use crate::guard::Guard;
use crate::owner::Owner;
use crate::request::Acquire;
use crate::store::What;

/// The locks of the functions that are being run, the innermost first. A function that is called from within another one
/// and asks for the same lock re-enters it; others, also such as run beside it, exclude each other as always.
#[derive(Debug)]
pub(crate) struct Link {
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

impl Link {
    /// This one and those around it.
    fn all(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(Some(self), |link| link.outer.as_deref())
    }

    fn is_within(&self, other: &Link) -> bool {
        self.all().any(|link| std::ptr::eq(link, other))
    }

    /// Who holds it, if one of the functions around does.
    fn owner(&self, wanted: &Identity) -> Option<Owner> {
        let mut held = self.all().flat_map(|link| &link.held);
        held.find(|(held, _)| held == wanted).map(|(_, owner)| *owner)
    }
}

/// The functions with locks that a call is made from.
pub(crate) struct Chain(Option<Arc<Link>>);

impl Chain {
    /// Of an async function.
    pub(crate) fn of_task() -> Chain {
        Chain(CHAIN.try_with(Arc::clone).ok())
    }

    /// Of a function that is not async: also those that are not either, whichever of both is further in.
    pub(crate) fn of_thread() -> Chain {
        Chain(match (Chain::of_task().0, THREAD.with_borrow(Clone::clone)) {
            (Some(task), Some(thread)) if !thread.is_within(&task) => Some(task),
            (task, thread) => thread.or(task),
        })
    }

    /// Has each lock that a function around holds re-entered by its owner. There may be several: each function has its own.
    pub(crate) fn re_entering<G, Ending>(&self, request: Acquire<G, Ending>) -> Acquire<G, Ending> {
        let Some(link) = &self.0 else { return request };
        request.re_entering(|member| {
            let name = member.name.as_ref().ok()?;
            link.owner(&identity(&member.engine, member.what, name)?)
        })
    }

    fn and(self, guards: &[&Guard]) -> Arc<Link> {
        let held = guards.iter().filter_map(|guard| {
            let tenure = &guard.hold.tenure;
            let identity = identity(&tenure.engine, tenure.what, tenure.name())?;
            Some((identity, tenure.owner))
        });
        Arc::new(Link { held: held.collect(), outer: self.0 })
    }

    /// `work` as what is done under these guards.
    pub(crate) fn scope<F: Future>(
        self,
        guards: &[&Guard],
        work: F,
    ) -> TaskLocalFuture<Arc<Link>, F> {
        CHAIN.scope(self.and(guards), work)
    }

    /// [`scope`](Chain::scope) for a thread: does it.
    pub(crate) fn scope_blocking<R>(self, guards: &[&Guard], work: impl FnOnce() -> R) -> R {
        /// Also when `work` panics.
        struct Restore(Option<Arc<Link>>);
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
    match Chain::of_thread().0 {
        Some(link) => CHAIN.scope(link, work).await,
        None => work.await,
    }
}
