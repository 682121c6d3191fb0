//! One node of a schedule: waits for a tick, and finds out which node runs it.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::ticks::Ticks;
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::kinds::{Mutex, StoredFenceGate};
use crate::locks::config;

/// How long a node sleeps at most before it reads the time of day again, which may have been set.
pub(super) const LOOK: Duration = Duration::from_secs(30);
/// Between two requests to a store that does not reply.
const PAUSE: Duration = Duration::from_millis(500);
/// A tick this far ahead was run by a node whose clock is wrong.
const AHEAD: Duration = Duration::from_secs(24 * 3600);

/// Until when there is something to do.
pub(super) struct Node {
    pub(super) desk: Desk,
    pub(super) ticks: Ticks,
    /// `None` once it is stopped.
    pub(super) stop: Option<BoxFuture<'static, ()>>,
}

/// Where a node finds out whose a tick is.
pub(super) struct Desk {
    pub(super) mutex: Mutex,
    pub(super) gate: StoredFenceGate,
    pub(super) env: Arc<dyn Env>,
    pub(super) retry: bool,
}

/// A tick that is this node's to run.
pub(super) struct Turn {
    pub(super) at: SystemTime,
    pub(super) guard: Guard,
}

/// What the gate is shown. It lets in what is not below the highest that it was shown, so of the two numbers of a tick the
/// lower is refused once the higher was shown: that is the mark.
fn unmarked(tick: SystemTime) -> u64 {
    let millis = tick.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(millis).unwrap_or(u64::MAX / 4).saturating_mul(2).saturating_add(1)
}

fn marked(tick: SystemTime) -> u64 {
    unmarked(tick).saturating_add(1)
}

impl Node {
    /// Waits for a tick that this node runs. `None` when there are no more, or it is stopped.
    pub(super) async fn turn(&mut self) -> Result<Option<Turn>> {
        let Node { desk, ticks, stop } = self;
        loop {
            let Some(Some(tick)) = unless_stopped(stop, desk.due(ticks)).await else {
                return Ok(None);
            };
            let guard = match unless_stopped(stop, desk.enter(ticks.peek())).await {
                Some(Ok(Some(guard))) => guard,
                Some(Ok(None)) => continue, // coalesced
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            };
            // A node that is stopped from here on runs it nevertheless: it may be marked already, and then no other node would.
            if let Some(turn) = desk.claim(ticks, tick, guard).await? {
                return Ok(Some(turn));
            }
        }
    }

    /// The run is over. Done, if it was not stopped.
    pub(super) async fn end(&mut self, turn: Turn, done: bool) -> Result<()> {
        let Node { desk, ticks, .. } = self;
        if !done {
            tracing::warn!(target: "distlock", name = desk.mutex.name(), "the lock of a scheduled job was lost during the run");
            if desk.retry {
                ticks.again(turn.at);
            }
        } else if desk.retry && !desk.show(&turn.guard, marked(turn.at)).await? {
            tracing::warn!(target: "distlock", name = desk.mutex.name(), "a scheduled job has ended, but its tick was not marked: another node may run it again");
        }
        if let Err(error) = turn.guard.unlock().await {
            tracing::warn!(target: "distlock", %error, "cannot release the lock of the schedule");
        }
        Ok(())
    }
}

impl Desk {
    /// Waits for the next tick; `None` if there is none.
    async fn due(&self, ticks: &mut Ticks) -> Option<SystemTime> {
        loop {
            let now = self.env.time_of_day();
            ticks.set_back(now);
            if let Some(tick) = ticks.latest(now) {
                return Some(tick);
            }
            let left = ticks.peek()?.duration_since(now).unwrap_or_default();
            self.sleep(left.min(LOOK)).await;
        }
    }

    /// Waits for the node that runs or claims a tick, until the `next` one is due: `None` then.
    async fn enter(&self, next: Option<SystemTime>) -> Result<Option<Guard>> {
        loop {
            let left = match next {
                Some(next) => next.duration_since(self.env.time_of_day()).unwrap_or_default(),
                None => config::LONGEST,
            };
            match self.mutex.try_lock().wait(left).await {
                Err(error) if error.is_retryable() => {
                    self.tell(&error);
                    if left.is_zero() {
                        self.sleep(PAUSE).await;
                        return Ok(None);
                    }
                    self.sleep(PAUSE.min(left)).await;
                }
                entered => return entered,
            }
        }
    }

    /// The tick, if it has not been run. Or a later one, if that is due by now.
    async fn claim(
        &self,
        ticks: &mut Ticks,
        tick: SystemTime,
        guard: Guard,
    ) -> Result<Option<Turn>> {
        let tick = ticks.latest(self.env.time_of_day()).unwrap_or(tick);
        let mine = self.show(&guard, unmarked(tick)).await?
            && (self.retry || self.show(&guard, marked(tick)).await?)
            // Held until here: no other node was between the two.
            && !guard.is_lost();
        if mine {
            return Ok(Some(Turn { at: tick, guard }));
        }
        if self.retry && guard.is_lost() {
            ticks.again(tick);
        }
        // Whatever comes of it: the lease ends.
        let _ = guard.unlock().await;
        Ok(None)
    }

    /// Whether the gate admits this. Sent until there is a reply, as long as the lock is held: sending it twice does no harm.
    async fn show(&self, guard: &Guard, token: u64) -> Result<bool> {
        loop {
            match self.gate.show(token).await {
                Ok(None) => return Ok(true),
                Ok(Some(highest)) => {
                    let now = marked(self.env.time_of_day() + AHEAD);
                    if highest > now {
                        let (name, ahead) =
                            (self.mutex.name(), Duration::from_millis((highest - now) / 2));
                        tracing::error!(target: "distlock", name, ?ahead, "no tick is run until then: the clock of a node was wrong; correct it, then call Schedule::forget");
                    }
                    return Ok(false);
                }
                Err(error) if error.is_retryable() && guard.is_lost() => {
                    self.tell(&error);
                    return Ok(false);
                }
                Err(error) if error.is_retryable() => {
                    self.tell(&error);
                    self.sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn tell(&self, error: &Error) {
        tracing::warn!(target: "distlock", name = self.mutex.name(), %error, "the schedule got no reply from its store; retrying");
    }

    async fn sleep(&self, long: Duration) {
        self.env.sleep_until(self.env.now().after(long)).await;
    }
}

/// What `work` gives, unless it is time to stop.
async fn unless_stopped<T>(
    stop: &mut Option<BoxFuture<'static, ()>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|cx| {
        let told = stop.as_mut().is_none_or(|stop| stop.as_mut().poll(cx).is_ready());
        if told {
            *stop = None;
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}
