//! Work that a caller may watch but not cancel.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::runtime::RuntimeFlavor::MultiThread;

use super::Engine;
use crate::config;
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
        let Some(work) = self.work.take() else { return };
        // Not on the caller's runtime: it may be shutting down, and would drop the work half-done. But the connection that
        // the work waits for lives there, and if nobody runs that runtime any more no answer ever comes. Then it is dropped
        // after all, and what it leaves undone is done anew from here.
        let env = self.env.clone();
        self.env.spawn_apart(Box::pin(async move {
            let enough = env.sleep_until(env.now().after(config::COMMAND_TIMEOUT * 2));
            tokio::select! {
                done = work => drop(done),
                () = enough => {}
            }
        }));
    }
}

/// Lets `work` run to its end beside the caller. Begun here and now if that may be, so that what it sends is sent before
/// the caller goes on.
pub(super) fn start(engine: &Engine, work: impl Future<Output = ()> + Send + 'static) {
    let mut work: BoxFuture<'static, ()> = Box::pin(work);
    // On a runtime without threads of its own nobody may be there to go on with what was begun on it; and nothing that
    // could panic should run while the thread panics already.
    let threads = || Handle::try_current().is_ok_and(|here| here.runtime_flavor() == MultiThread);
    let here = (engine.store.answers_at_once() || threads()) && !std::thread::panicking();
    if here && work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    engine.env.spawn(work);
}
