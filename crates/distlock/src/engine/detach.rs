//! Work that a caller may watch but not cancel, and that does not depend on the caller being polled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::receipts::{HasReleaseAnswer, Receipt, ReleaseAnswer};
use crate::env::{BoxFuture, Env};
use crate::error::Result;
use crate::locks::config;

/// Runs inside the caller's future while that is polled, which costs nothing. If the caller leaves, the rest runs to its end where
/// no caller can end it. If the caller neither polls nor leaves, a task that depends on the work [adopts](Adopt) it. A result that
/// the caller does not take is dropped: a hold that is not collected is released.
///
/// Ends with `None` if the work was cut off, or if its result was dropped before the caller came for it: the caller starts anew.
pub(crate) struct Detached<T: Send + 'static>(Arc<dyn CallersSide<T>>);

/// Work that its caller polls now and then. A task that depends on its end has the library's own thread poll it instead.
pub(crate) trait Adopt: fmt::Debug + Send + Sync {
    /// Takes the work from its caller, who gets the result all the same if it comes for it soon.
    fn adopt(self: Arc<Self>);
}

/// The caller's side of it. A trait, so that the compiler need not look through all that a result is made of whenever a program
/// asks whether a future of this library is `Send`.
trait CallersSide<T>: Adopt {
    fn poll(self: Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<T>>;

    /// The caller is gone.
    fn leave(self: Arc<Self>);
}

/// What callers' work may carry.
trait Carried: Send + Sync + 'static {}
impl<X: Send + Sync + 'static> Carried for X {}

/// What a lane keeps of work that it depends on. Does not keep the work alive.
pub(super) type Adoptable = Weak<dyn Adopt>;

struct CallersWork<T, X = ()> {
    stage: Mutex<Progress<T>>,
    env: Arc<dyn Env>,
    /// What the caller shares with others besides.
    more: X,
}

enum Progress<T> {
    /// It is polled when the caller is.
    Callers(BoxFuture<'static, T>, Option<Waker>),
    /// The caller polls it at this moment. `wanted`: it is to be adopted after that.
    Polled { wanted: bool },
    /// The library's thread polls it, and wakes the caller at its end.
    Adopted(Option<Waker>),
    /// It has ended; `None` if it was cut off or its result was dropped.
    Done(Option<T>),
    /// The caller has the result, or has left.
    Over,
}

impl<T: Send + 'static> Detached<T> {
    /// `work` gets what it leaves in the lanes that depend on it.
    pub(crate) fn new<F>(env: &Arc<dyn Env>, work: impl FnOnce(Weak<dyn Adopt>) -> F) -> Detached<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let shared = CallersWork::new(env, ());
        let work = work(Arc::downgrade(&shared) as Weak<dyn Adopt>);
        shared.begin(work)
    }

    /// What it leaves in a lane that depends on it.
    pub(super) fn adoptable(&self) -> Adoptable {
        let shared: Arc<dyn Adopt> = self.0.clone();
        Arc::downgrade(&shared)
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.clone().poll(cx)
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        self.0.clone().leave();
    }
}

impl<T: Send + 'static, X: Carried> CallersSide<T> for CallersWork<T, X> {
    fn poll(self: Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut stage = self.stage();
        let (mut work, waker) = match std::mem::replace(&mut *stage, Progress::Over) {
            Progress::Callers(work, waker) => (work, waker),
            Progress::Adopted(_) => {
                *stage = Progress::Adopted(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Progress::Done(result) => return Poll::Ready(result),
            // Polled again after its end: there is nothing more to give. (It cannot be polled twice at once.)
            Progress::Over | Progress::Polled { .. } => return Poll::Pending,
        };
        *stage = Progress::Polled { wanted: false };
        drop(stage);
        // If this panics the stage stays as it is: the work is not polled again.
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            *self.stage() = Progress::Over;
            return Poll::Ready(Some(result));
        }
        let waker = match waker {
            Some(waker) if waker.will_wake(cx.waker()) => waker,
            _ => cx.waker().clone(),
        };
        let mut stage = self.stage();
        if matches!(*stage, Progress::Polled { wanted: true }) {
            *stage = Progress::Adopted(Some(waker));
            drop(stage);
            run(self.clone(), work);
        } else {
            *stage = Progress::Callers(work, Some(waker));
        }
        Poll::Pending
    }

    fn leave(self: Arc<Self>) {
        let before = std::mem::replace(&mut *self.stage(), Progress::Over);
        // Not on the caller's runtime: it may be shutting down, and would drop the work half-done.
        if let Progress::Callers(work, _) = before {
            run(self, work);
        }
    }
}

impl<T: Send + 'static, X: Carried> CallersWork<T, X> {
    fn new(env: &Arc<dyn Env>, more: X) -> Arc<CallersWork<T, X>> {
        Arc::new(CallersWork { stage: Mutex::new(Progress::Over), env: env.clone(), more })
    }

    fn begin(self: Arc<Self>, work: impl Future<Output = T> + Send + 'static) -> Detached<T> {
        *self.stage() = Progress::Callers(Box::pin(work), None);
        Detached(self)
    }
}

impl<T, X> CallersWork<T, X> {
    fn stage(&self) -> MutexGuard<'_, Progress<T>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result is there, or will never be. False if the caller has left.
    fn finish(&self, result: Option<T>) -> bool {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Progress::Over) {
            Progress::Adopted(waker) => {
                *stage = Progress::Done(result);
                drop(stage);
                if let Some(waker) = waker {
                    waker.wake();
                }
                true
            }
            // The caller has left.
            _ => {
                drop(stage);
                drop(result);
                false
            }
        }
    }

    /// The caller did not come for the result.
    fn drop_uncollected(&self) {
        let mut stage = self.stage();
        let uncollected = match &mut *stage {
            Progress::Done(result) => result.take(),
            _ => None,
        };
        drop(stage);
        drop(uncollected); // releases what was acquired, so not under the lock
    }
}

impl<T: Send + 'static, X: Carried> Adopt for CallersWork<T, X> {
    fn adopt(self: Arc<Self>) {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Progress::Over) {
            Progress::Callers(work, waker) => {
                *stage = Progress::Adopted(waker);
                drop(stage);
                run(self, work);
            }
            Progress::Polled { .. } => *stage = Progress::Polled { wanted: true },
            before => *stage = before,
        }
    }
}

/// Runs adopted work on the library's own thread. The connection that it waits for lives on the caller's runtime, and if no thread
/// runs that any more no answer ever comes: then the work is dropped after all, and what it leaves undone is done anew.
fn run<T: Send + 'static, X: Carried>(shared: Arc<CallersWork<T, X>>, work: BoxFuture<'static, T>) {
    /// Also when the thread ends with the work in it.
    struct Finish<T: Send + 'static, X: Carried>(Option<Arc<CallersWork<T, X>>>);
    impl<T: Send + 'static, X: Carried> Drop for Finish<T, X> {
        fn drop(&mut self) {
            if let Some(shared) = self.0.take() {
                shared.finish(None);
            }
        }
    }
    let env = shared.env.clone();
    let mut finish = Finish(Some(shared));
    env.clone().spawn_background(Box::pin(async move {
        let enough = env.sleep_until(env.now().after(config::COMMAND_TIMEOUT * 2));
        let result = tokio::select! {
            biased;
            result = work => Some(result),
            () = enough => None,
        };
        let Some(shared) = finish.0.take() else { return };
        if shared.finish(result) {
            env.sleep_until(env.now().after(config::UNCOLLECTED)).await;
            shared.drop_uncollected();
        }
    }));
}

impl<T, X> fmt::Debug for CallersWork<T, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallersWork")
    }
}

/// A release that its caller watches: what is left to do, and the answer, which the task that does it gives. One allocation for both.
pub(super) struct Watched {
    shared: Arc<CallersWork<(), ReleaseAnswer>>,
    work: Option<Detached<()>>,
}

impl Watched {
    /// `work` gets the duty to answer, and what it leaves in the lane if there is something left to do.
    pub(super) fn begin<F>(
        env: &Arc<dyn Env>,
        work: impl FnOnce(Receipt, Adoptable) -> Option<F>,
    ) -> Watched
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = CallersWork::new(env, ReleaseAnswer::default());
        let adoptable = Arc::downgrade(&shared) as Adoptable;
        let work = work(Receipt::of(shared.clone()), adoptable);
        let work = work.map(|work| shared.clone().begin(work));
        Watched { shared, work }
    }

    /// Whether another task does what is left to do.
    pub(super) fn is_done_elsewhere(&self) -> bool {
        self.work.is_none()
    }

    /// The answer; `None` if none will come.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<()>>> {
        if let Some(work) = &mut self.work
            && Pin::new(work).poll(cx).is_ready()
        {
            self.work = None;
        }
        // Looked at last: once it is there, what else is being told is no business of this caller.
        self.shared.more.poll(cx)
    }
}

impl HasReleaseAnswer for CallersWork<(), ReleaseAnswer> {
    fn answer(&self) -> &ReleaseAnswer {
        &self.more
    }
}
