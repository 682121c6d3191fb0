//! Work that a caller may watch but not cancel.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::env::{BoxFuture, Env};

/// Runs inside the caller's future while that is polled, which costs nothing; if the caller leaves, the rest runs to its
/// end where no caller can end it. What nobody takes is dropped there: an unclaimed hold lets go.
pub(crate) struct Detached<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    env: Arc<dyn Env>,
}

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new(
        env: &Arc<dyn Env>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Detached<T> {
        Detached { work: Some(Box::pin(work)), env: env.clone() }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = self.work.as_mut() else {
            return Poll::Pending; // polled again after its end: there is nothing more to give
        };
        let answer = work.as_mut().poll(cx);
        if answer.is_ready() {
            self.work = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Not on the caller's runtime: it may be shutting down, and would drop the work half-done.
            self.env.spawn_apart(Box::pin(async move { drop(work.await) }));
        }
    }
}

/// Starts `work` here and now, so that what it sends is sent before the caller goes on, and lets it finish beside the
/// caller.
pub(super) fn start(env: &Arc<dyn Env>, work: impl Future<Output = ()> + Send + 'static) {
    let mut work: BoxFuture<'static, ()> = Box::pin(work);
    // Stores may need a runtime around them, and nothing that could panic should run while the thread panics already.
    let here = tokio::runtime::Handle::try_current().is_ok() && !std::thread::panicking();
    if here && work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    env.spawn(work);
}
