//! How long a caller waits, and what came of it.

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::observe::Outcome;

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// One attempt.
    Once,
    /// As long as this.
    For(Duration),
    /// As long as it takes.
    Forever,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Once => f.write_str("one attempt"),
            Wait::For(wait) => write!(f, "{wait:?}"),
            Wait::Forever => f.write_str("any time"),
        }
    }
}

impl Outcome {
    /// Of a request that waits so long.
    pub(super) fn of<T>(answer: &Result<Option<T>>, wait: Wait) -> Outcome {
        match (answer, wait) {
            (Ok(Some(_)), _) => Outcome::Acquired,
            (Ok(None), Wait::Once) => Outcome::Busy,
            (Ok(None), _) => Outcome::TimedOut,
            (Err(_), _) => Outcome::Failed,
        }
    }
}
