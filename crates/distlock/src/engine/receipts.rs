//! The answer to a caller that waits for the result of a release.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::Result;

/// An answer to come. It may be part of something larger that is shared anyway, hence [`HasReleaseAnswer`].
#[derive(Debug, Default)]
pub(super) struct ReleaseAnswer(Mutex<AnswerState>);

#[derive(Debug)]
enum AnswerState {
    /// Who waits for it, once that is known.
    Open(Option<Waker>),
    /// `None`: no answer will come.
    Given(Option<Result<()>>),
}

impl Default for AnswerState {
    fn default() -> AnswerState {
        AnswerState::Open(None)
    }
}

impl ReleaseAnswer {
    /// The answer; `None` if none will come.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<()>>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            AnswerState::Given(answer) => Poll::Ready(answer.take()),
            AnswerState::Open(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn give(&self, answer: Option<Result<()>>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *state, AnswerState::Given(answer));
        drop(state);
        if let AnswerState::Open(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// What has an [`ReleaseAnswer`] in it.
pub(super) trait HasReleaseAnswer: fmt::Debug + Send + Sync {
    fn answer(&self) -> &ReleaseAnswer;
}

impl HasReleaseAnswer for ReleaseAnswer {
    fn answer(&self) -> &ReleaseAnswer {
        self
    }
}

/// The duty to answer. Dropped, it says that no answer will come.
#[derive(Debug)]
pub(super) struct Receipt(Option<Arc<dyn HasReleaseAnswer>>);

impl Receipt {
    pub(super) fn of(answers: Arc<dyn HasReleaseAnswer>) -> Receipt {
        Receipt(Some(answers))
    }

    /// `None`: no answer will come.
    pub(super) fn answer(mut self, answer: Option<Result<()>>) {
        if let Some(to) = self.0.take() {
            to.answer().give(answer);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(to) = self.0.take() {
            to.answer().give(None);
        }
    }
}
