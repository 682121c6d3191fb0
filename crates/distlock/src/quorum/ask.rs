//! Asking all at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::env::{BoxFuture, Env};
use crate::locks::config;

/// How long the last ones may take after the others have answered, when what they say might still matter: as long again a
/// few times over, and at least this. One that is frozen would keep everybody waiting until it counts as away.
const LAST_WORD: Duration = Duration::from_millis(50);

/// How far the answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    TooLittle,
    /// Not for much longer: this at most, if that is longer than the last ones may take anyway.
    Nearly(Duration),
    Enough,
}

impl From<bool> for Known {
    fn from(enough: bool) -> Known {
        if enough { Known::Enough } else { Known::TooLittle }
    }
}

/// Runs all steps at once until what has been answered is `enough`, or everything is.
///
/// What is left then, or when the caller leaves, goes on by itself: a step that was begun must not be lost track of half-way.
pub(super) async fn ask<T: Send + 'static>(
    env: &Arc<dyn Env>,
    steps: Vec<BoxFuture<'static, T>>,
    known: impl Fn(&[Option<T>]) -> Known,
) -> Asked<T> {
    let begun = env.now();
    let mut last_word: Option<BoxFuture<'static, ()>> = None;
    let answers = steps.iter().map(|_| None).collect();
    let left = Left { env: env.clone(), steps: steps.into_iter().map(Some).collect() };
    let mut asked = Asked { answers, left };
    poll_fn(|cx| {
        asked.poll(cx);
        let due = match known(&asked.answers) {
            _ if asked.is_complete() => return Poll::Ready(()),
            Known::Enough => return Poll::Ready(()),
            Known::TooLittle => return Poll::Pending,
            Known::Nearly(due) => due,
        };
        let last_word = last_word.get_or_insert_with(|| {
            let now = env.now();
            env.sleep_in_background(now.after((now.since(begun) * 3).max(LAST_WORD).max(due)))
        });
        last_word.as_mut().poll(cx)
    })
    .await;
    asked
}

/// What has been answered, and what has not been yet.
pub(super) struct Asked<T: Send + 'static> {
    pub(super) answers: Vec<Option<T>>,
    left: Left<T>,
}

impl<T: Send + 'static> Asked<T> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        for (step, answer) in self.left.steps.iter_mut().zip(&mut self.answers) {
            if let Some(work) = step
                && let Poll::Ready(done) = Pin::new(work).poll(cx)
            {
                *answer = Some(done);
                *step = None;
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.left.steps.iter().all(Option::is_none)
    }

    /// The answers so far; `late` gets those that are still to come, with the number of the step.
    pub(super) fn and_late(
        self,
        late: impl Fn(usize, T) + Send + Sync + 'static,
    ) -> Vec<Option<T>> {
        let Asked { answers, mut left } = self;
        left.go_on(Arc::new(late));
        answers
    }
}

/// Steps that were begun.
struct Left<T: Send + 'static> {
    env: Arc<dyn Env>,
    steps: Vec<Option<BoxFuture<'static, T>>>,
}

impl<T: Send + 'static> Left<T> {
    fn go_on(&mut self, late: Arc<dyn Fn(usize, T) + Send + Sync>) {
        for (at, step) in self.steps.drain(..).enumerate() {
            let Some(step) = step else { continue };
            let (env, late) = (self.env.clone(), late.clone());
            self.env.spawn(Box::pin(async move {
                // A step that waits for a connection of a runtime that nobody runs any more would wait for ever, and keep its
                // place in the line. Made here: a timer must not belong to that runtime either.
                let enough = env.sleep_until(env.now().after(config::COMMAND_TIMEOUT * 2));
                tokio::select! {
                    answer = step => late(at, answer),
                    () = enough => {}
                }
            }));
        }
    }
}

impl<T: Send + 'static> Drop for Left<T> {
    fn drop(&mut self) {
        self.go_on(Arc::new(|_, answer| drop(answer)));
    }
}
