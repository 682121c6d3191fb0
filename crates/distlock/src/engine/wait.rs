//! How long a caller waits, and what came of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Engine;
use super::lanes::LaneRef;
use super::waiters::LaneState;
use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
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

/// Waits for a turn to ask.
pub(super) async fn crowded(
    engine: Arc<Engine>,
    askers: Arc<Semaphore>,
    patience: Moment,
) -> Result<OwnedSemaphorePermit> {
    let full = || Error::new(ErrorKind::Unavailable, "too many ask for locks at once");
    let turn = askers.acquire_owned();
    if patience == Moment::NEVER {
        return turn.await.map_err(|_| full());
    }
    tokio::select! {
        turn = turn => turn.map_err(|_| full()),
        () = engine.env.sleep_until(patience) => Err(full()),
    }
}

/// Waits until a step that is on its way has arrived.
pub(super) async fn settle(
    engine: Arc<Engine>,
    lane: LaneRef,
    until: fn(&LaneState) -> bool,
    patience: Moment,
) -> Result<()> {
    let text = "an earlier release of this lock is still on its way to the store";
    // Both, if there are two: one may have moved on while the other was awaited, which is found out by looking again.
    let settled = async {
        lane.until(until).await;
        lane.count().until(|state| state.releasing == 0).await;
    };
    tokio::select! {
        () = settled => Ok(()),
        () = engine.env.sleep_until(patience) => Err(Error::new(ErrorKind::Unavailable, text)),
    }
}
