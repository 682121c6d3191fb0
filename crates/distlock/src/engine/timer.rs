//! One timer for all lanes that rest: one for each would cost more than everything else that a waiter keeps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::shell::LaneCell;
use crate::env::{Env, Moment};

#[derive(Debug)]
pub(super) struct Timer {
    env: Arc<dyn Env>,
    times: Mutex<Times>,
    poke: Notify,
}

#[derive(Debug, Default)]
struct Times {
    due: BTreeMap<TimerKey, Arc<LaneCell>>,
    last: u64,
    running: bool,
    /// When the task looks next; one that is due earlier pokes it.
    looks_at: Option<Moment>,
}

/// When, and which of those at the same time.
pub(super) type TimerKey = (Moment, u64);

impl Timer {
    pub(super) fn new(env: Arc<dyn Env>) -> Arc<Timer> {
        Arc::new(Timer { env, times: Mutex::default(), poke: Notify::new() })
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the lane at that time.
    pub(super) fn set(self: &Arc<Timer>, at: Moment, lane: &Arc<LaneCell>) -> TimerKey {
        let mut times = self.times();
        times.last += 1;
        let key = (at, times.last);
        times.due.insert(key, lane.clone());
        let sooner = times.looks_at.is_some_and(|looks_at| at < looks_at);
        let start = !std::mem::replace(&mut times.running, true);
        drop(times);
        if start {
            self.env.spawn_background(Box::pin(keep_time(self.clone())));
        } else if sooner {
            self.poke.notify_one();
        }
        key
    }

    pub(super) fn cancel(&self, key: TimerKey) {
        // The task finds out when it looks next: locks that are taken in turns set and cancel all the time.
        let gone = self.times().due.remove(&key);
        drop(gone); // may be the last of its lane, which must not end under the lock
    }

    /// Takes one that is due, or says when the next one is; `None` if there is none, which ends the task.
    fn next(&self) -> Option<Result<Arc<LaneCell>, Moment>> {
        let mut times = self.times();
        times.looks_at = None;
        match times.due.first_entry() {
            Some(first) if first.key().0 <= self.env.now() => Some(Ok(first.remove())),
            Some(first) => {
                let at = first.key().0;
                times.looks_at = Some(at);
                Some(Err(at))
            }
            None => {
                times.running = false;
                None
            }
        }
    }
}

async fn keep_time(timer: Arc<Timer>) {
    while let Some(next) = timer.next() {
        match next {
            Ok(lane) => lane.time_has_come(),
            Err(at) => {
                tokio::select! {
                    biased;
                    () = timer.env.sleep_until(at) => {}
                    () = timer.poke.notified() => {}
                }
            }
        }
    }
}
