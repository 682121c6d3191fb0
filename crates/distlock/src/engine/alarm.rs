//! One clock for all drivers that rest: a timer of its own for each would cost more than the rest of a waiter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::lane::Lane;
use super::lanes::LaneRef;
use crate::env::{Env, Moment};

#[derive(Debug)]
pub(super) struct Alarm {
    env: Arc<dyn Env>,
    bells: Mutex<Bells>,
    poke: Notify,
}

#[derive(Debug, Default)]
struct Bells {
    due: BTreeMap<Bell, Arc<Lane>>,
    last: u64,
    running: bool,
    /// When the task looks next; one that is due earlier pokes it.
    looks_at: Option<Moment>,
}

/// When, and which of those at the same time.
pub(super) type Bell = (Moment, u64);

impl Alarm {
    pub(super) fn new(env: Arc<dyn Env>) -> Arc<Alarm> {
        Arc::new(Alarm { env, bells: Mutex::default(), poke: Notify::new() })
    }

    fn bells(&self) -> MutexGuard<'_, Bells> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nudges the lane at that time.
    pub(super) fn set(self: &Arc<Alarm>, at: Moment, lane: &LaneRef) -> Bell {
        let mut bells = self.bells();
        bells.last += 1;
        let bell = (at, bells.last);
        bells.due.insert(bell, lane.lane());
        let sooner = bells.looks_at.is_some_and(|looks_at| at < looks_at);
        let start = !std::mem::replace(&mut bells.running, true);
        drop(bells);
        if start {
            self.env.spawn_background(Box::pin(ring(self.clone())));
        } else if sooner {
            self.poke.notify_one();
        }
        bell
    }

    pub(super) fn cancel(&self, bell: Bell) {
        // The task finds out when it looks next: locks that are taken in turns set and cancel all the time.
        self.bells().due.remove(&bell);
    }

    /// Takes one that is due, or says when the next one is; `None` if there is none, which ends the task.
    fn next(&self) -> Option<Result<Arc<Lane>, Moment>> {
        let mut bells = self.bells();
        bells.looks_at = None;
        match bells.due.first_entry() {
            Some(first) if first.key().0 <= self.env.now() => Some(Ok(first.remove())),
            Some(first) => {
                let at = first.key().0;
                bells.looks_at = Some(at);
                Some(Err(at))
            }
            None => {
                bells.running = false;
                None
            }
        }
    }
}

async fn ring(alarm: Arc<Alarm>) {
    while let Some(next) = alarm.next() {
        match next {
            Ok(lane) => lane.nudge(),
            Err(at) => {
                tokio::select! {
                    () = alarm.env.sleep_until(at) => {}
                    () = alarm.poke.notified() => {}
                }
            }
        }
    }
}
