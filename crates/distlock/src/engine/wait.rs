//! How long a caller waits, and what came of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Engine;
use super::lanes::LaneRef;
use super::waiters::LaneState;
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
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

/// Callers who ask the store by themselves; more than so many at once only get in each other's way.
#[derive(Debug)]
pub(super) struct Askers {
    turns: Arc<Semaphore>,
    /// How many turns have ended.
    ended: AtomicU64,
    is_supervised: AtomicBool,
}

/// A caller's turn to ask.
#[derive(Debug)]
pub(super) struct AskersTurn {
    askers: Arc<Askers>,
    _turn: OwnedSemaphorePermit,
}

impl Drop for AskersTurn {
    fn drop(&mut self) {
        self.askers.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Askers {
    pub(super) fn new(at_once: usize) -> Arc<Askers> {
        let (ended, is_supervised) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Askers { turns: Arc::new(Semaphore::new(at_once)), ended, is_supervised })
    }

    pub(super) fn try_turn(self: &Arc<Askers>) -> Option<AskersTurn> {
        let turn = self.turns.clone().try_acquire_owned().ok()?;
        Some(AskersTurn { askers: self.clone(), _turn: turn })
    }
}

/// Waits for a turn to ask.
pub(super) async fn crowded(
    engine: Arc<Engine>,
    askers: Arc<Askers>,
    patience: Moment,
) -> Result<AskersTurn> {
    let full = || {
        Error::new(
            ErrorKind::Unavailable,
            "too many requests for locks are in flight at once: retry later",
        )
    };
    if !askers.is_supervised.swap(true, Ordering::AcqRel) {
        engine
            .env
            .spawn_background(Box::pin(supervise(engine.env.clone(), Arc::downgrade(&askers))));
    }
    let turn = askers.turns.clone().acquire_owned();
    let turn = match patience {
        Moment::NEVER => turn.await,
        patience => tokio::select! {
            turn = turn => turn,
            () = engine.env.sleep_until(patience) => return Err(full()),
        },
    };
    turn.map(|turn| AskersTurn { askers, _turn: turn }).map_err(|_| full())
}

/// While there is a crowd: if no turn ends for as long as an answer may take, those who have them are not polled any more. They must
/// not keep the others from asking, so there are more turns then. One task for a crowd: a timer each would cost more than waiting.
async fn supervise(env: Arc<dyn Env>, askers: Weak<Askers>) {
    let ended = || askers.upgrade().map(|askers| askers.ended.load(Ordering::Relaxed));
    loop {
        let before = ended();
        env.sleep_in_background(env.now().after(config::REPLY_TIMEOUT * 2)).await;
        let Some(askers) = askers.upgrade() else { return };
        if askers.turns.available_permits() > 0 {
            askers.is_supervised.store(false, Ordering::Release);
            // A crowd that has just begun takes this task for its own.
            let begun = askers.turns.available_permits() == 0;
            if !begun || askers.is_supervised.swap(true, Ordering::AcqRel) {
                return;
            }
        } else if ended() == before {
            askers.turns.add_permits(config::ASKERS);
        }
    }
}

/// Waits until a step that is on its way has arrived.
pub(super) async fn settle(
    engine: Arc<Engine>,
    lane: LaneRef,
    until: fn(&LaneState) -> bool,
    patience: Moment,
) -> Result<()> {
    let text = "the store has not confirmed an earlier release of this lock yet: retry later";
    // Both, if there are two: one may have moved on while the other was awaited, which is found out by looking again.
    let settled = async {
        lane.until(until).await;
        lane.count().until(|state| state.releasing == 0).await;
    };
    let adopted = async {
        engine.env.sleep_until(engine.env.now().after(config::ADOPT_AFTER)).await;
        engine.adopt(&lane.name);
        std::future::pending::<()>().await
    };
    tokio::select! {
        () = settled => Ok(()),
        () = adopted => Ok(()),
        () = engine.env.sleep_until(patience) => Err(Error::new(ErrorKind::Unavailable, text)),
    }
}
