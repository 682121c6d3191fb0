//! A simulated process: an environment whose tasks can be stalled or killed.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use distlock::env::{BoxFuture, Env, Moment, Virtual};

use super::plan::Millis;

/// Whether the tasks of a process run.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    /// Tasks that have not ended.
    alive: AtomicUsize,
}

#[derive(Debug, Default)]
struct GateState {
    stalled_until: Millis,
    is_dead: bool,
    stalled_for: Millis,
    parked: Vec<Waker>,
    panicked: Option<String>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No task runs until [`resume`](Gate::resume).
    pub(super) fn stall(&self, until: Millis, lasts: Millis) {
        let mut state = self.state();
        state.stalled_until = until;
        state.stalled_for += lasts;
    }

    pub(super) fn resume(&self) {
        let mut state = self.state();
        state.stalled_until = 0;
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        parked.into_iter().for_each(Waker::wake);
    }

    /// No task ever runs again. None is dropped either: a process that is killed runs no destructors.
    pub(super) fn kill(&self) {
        self.state().is_dead = true;
    }

    pub(super) fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    /// Until when no task runs; 0 if they do.
    pub(super) fn stalled_until(&self) -> Millis {
        self.state().stalled_until
    }

    /// For how long it was stalled altogether.
    pub(super) fn stalled_for(&self) -> Millis {
        self.state().stalled_for
    }

    pub(super) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    pub(super) fn take_panic(&self) -> Option<String> {
        self.state().panicked.take()
    }
}

/// A task of a process.
pub(super) struct Task {
    work: BoxFuture<'static, ()>,
    gate: Arc<Gate>,
}

impl Task {
    pub(super) fn new(work: BoxFuture<'static, ()>, gate: &Arc<Gate>) -> Task {
        gate.alive.fetch_add(1, Ordering::Relaxed);
        Task { work, gate: gate.clone() }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.gate.state();
        if state.is_dead {
            return Poll::Pending;
        }
        if state.stalled_until > 0 {
            state.parked.push(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        let work = self.work.as_mut();
        match catch_unwind(AssertUnwindSafe(|| work.poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
                self.gate.state().panicked = Some(text.unwrap_or_else(|| "a panic".into()));
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.gate.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The environment of the library in one process.
#[derive(Clone)]
pub(super) struct SimEnv {
    inner: Virtual,
    gate: Arc<Gate>,
}

impl SimEnv {
    pub(super) fn new(inner: Virtual, gate: Arc<Gate>) -> SimEnv {
        SimEnv { inner, gate }
    }
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEnv").finish_non_exhaustive()
    }
}

impl Env for SimEnv {
    fn now(&self) -> Moment {
        self.inner.now()
    }

    /// The same in every run.
    fn time_of_day(&self) -> SystemTime {
        let passed = self.inner.now().since(Moment::from_origin(Duration::ZERO));
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + passed
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        self.inner.sleep_until(at)
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.inner.spawn(Box::pin(Task::new(work, &self.gate)));
    }

    fn spawn_background(&self, work: BoxFuture<'static, ()>) {
        self.spawn(work);
    }

    fn spawn_watchdog(&self, work: BoxFuture<'static, ()>) {
        self.spawn(work);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
