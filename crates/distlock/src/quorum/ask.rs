//! Asking all at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::env::{BoxFuture, Env};

/// Runs all steps at once until what has been answered is `enough`, or everything is. What is left then, or when the caller
/// leaves, goes on by itself: a step that was begun must not be lost track of half-way.
pub(super) async fn ask<T: Send + 'static>(
    env: &Arc<dyn Env>,
    steps: Vec<BoxFuture<'static, T>>,
    enough: impl Fn(&[Option<T>]) -> bool,
) -> Vec<Option<T>> {
    let mut answers: Vec<Option<T>> = steps.iter().map(|_| None).collect();
    let mut asking = Asking { env: env.clone(), steps: steps.into_iter().map(Some).collect() };
    poll_fn(|cx| {
        asking.poll(cx, &mut answers);
        let done = asking.steps.iter().all(Option::is_none);
        if done || enough(&answers) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers
}

struct Asking<T: Send + 'static> {
    env: Arc<dyn Env>,
    steps: Vec<Option<BoxFuture<'static, T>>>,
}

impl<T: Send + 'static> Asking<T> {
    fn poll(&mut self, cx: &mut Context<'_>, answers: &mut [Option<T>]) {
        for (step, answer) in self.steps.iter_mut().zip(answers) {
            if let Some(work) = step
                && let Poll::Ready(done) = Pin::new(work).poll(cx)
            {
                *answer = Some(done);
                *step = None;
            }
        }
    }
}

impl<T: Send + 'static> Drop for Asking<T> {
    fn drop(&mut self) {
        for step in self.steps.drain(..).flatten() {
            self.env.spawn(Box::pin(async move { drop(step.await) }));
        }
    }
}
