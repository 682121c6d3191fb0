//! Asking several servers the same question.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};

/// After this time without an answer the next server is asked as well.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// What became of a question.
#[derive(Debug)]
pub(crate) struct Found<T> {
    /// The first good answer.
    pub(crate) good: Option<T>,
    /// Answers before it that are not.
    pub(crate) others: Vec<T>,
    pub(crate) troubles: Vec<Error>,
}

/// Asks one after the other until one gives a good answer. One that is slow is waited for beside the next.
pub(crate) async fn in_turn<T: Send + 'static>(
    env: &dyn Env,
    questions: Vec<BoxFuture<'static, Result<T>>>,
    is_good: impl Fn(&T) -> bool,
) -> Found<T> {
    let mut questions = questions.into_iter();
    let mut asked = JoinSet::new();
    let mut found = Found { good: None, others: Vec::new(), troubles: Vec::new() };
    loop {
        if asked.is_empty() {
            let Some(next) = questions.next() else { return found };
            asked.spawn(next);
        }
        let patience = env.sleep_until(env.now().after(PATIENCE));
        let answer = tokio::select! {
            answer = asked.join_next() => answer,
            () = patience => {
                if let Some(next) = questions.next() {
                    asked.spawn(next);
                }
                continue;
            }
        };
        match answer {
            Some(Ok(Ok(answer))) if is_good(&answer) => {
                found.good = Some(answer);
                return found;
            }
            Some(Ok(Ok(answer))) => found.others.push(answer),
            Some(Ok(Err(trouble))) => found.troubles.push(trouble),
            Some(Err(_)) | None => {}
        }
    }
}

/// What all of them said, if none of it was of use. Something that must be mended comes before something that may pass.
pub(crate) fn none(what: &str, mut troubles: Vec<Error>) -> Error {
    troubles.sort_by_key(Error::is_retryable);
    let kind = troubles.first().map_or(ErrorKind::Unavailable, Error::kind);
    let said: Vec<String> = troubles.iter().map(Error::to_string).collect();
    let kind = if kind == ErrorKind::Indeterminate { ErrorKind::Unavailable } else { kind };
    Error::new(kind, format!("{what}: {}", said.join("; ")))
}
