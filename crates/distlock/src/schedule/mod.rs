//! Scheduled jobs of many processes: each tick runs at most once, on one of them.

mod node;
mod ticks;

use std::fmt;
use std::future::Future;
use std::time::{Duration, SystemTime};

use crate::engine;
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Scope;
use crate::guard::nesting::Nesting;
use crate::locks::Locks;
use node::{Desk, Node, Turn};
use ticks::Ticks;

/// A job that several processes, the nodes, schedule; each tick runs at most once, on one of them. Made by [`Locks::schedule`].
///
/// Every node must have the same ticks: those of [`every`](Schedule::every) are counted from 1970, not from the start of the program.
///
/// # Guarantees
/// - **Each tick runs at most once**, on one node, while the store keeps its data. A [`Mutex`](crate::Mutex) with the schedule's name is held during a run, and a
///   [gate](Locks::fence_gate) of the same name remembers the last tick that was run; it stays in the store. With
///   [`retry_if_died`](Schedule::retry_if_died) a tick whose run was cut short runs again, so it may run more than once.
/// - **A tick may not run at all**: if its node dies, loses its lock or cannot reach the store, if a longer run coalesces it, or if
///   no node was running.
/// - **Clocks may differ** by less than a period: the node whose clock is ahead runs a tick, early by as much as it is ahead, and
///   the others find that it was run. If they differ by more, still none is run twice, but some are skipped when a node joins
///   whose clock is further ahead than all others. (If it is a year ahead, it runs a tick of next year, and nothing runs until
///   then: that is logged, and [`forget`](Schedule::forget) repairs it.)
/// - **A run that is longer than the period** delays the next one. The ticks that became due meanwhile are *coalesced*: only the
///   latest runs, once, when the run is over. Runs overlap only if the lock is taken away during a run, until its node notices.
/// - **A node that is late**, because it was busy or suspended, does not make up for the ticks that it missed: it claims the latest
///   tick, if no other node has run it. If all nodes were down, the ticks of that time are not run.
/// - **If the lock is lost** during a run, the job is dropped at its next await when the loss is noticed.
/// - **A function that acquires the schedule's lock** re-enters it if the job calls it: with `run`, or by `#[locked]`.
///
/// # If the node dies
/// The tick counts as run: it was marked before the job began. With [`retry_if_died`](Schedule::retry_if_died) it is marked when the job has
/// ended, and another node runs it again when the lease of the dead one has ended (30 s later, see
/// [`Builder::watchdog`](crate::Builder::watchdog)), unless the next tick is due by then: the two are coalesced.
///
/// # Cancel safety
/// Dropping the future of [`run`](Schedule::run) stops the schedule at once: a running job is dropped, and its lock released. To let it
/// finish, stop the schedule by [`until`](Schedule::until).
///
/// # Examples
/// ```no_run
/// # async fn report() {}
/// # async fn example() -> distlock::Result<()> {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// const HOUR: Duration = Duration::from_secs(3600);
/// let locks = Locks::connect("redis://127.0.0.1:6379").await?;
/// locks.schedule("nightly").every(24 * HOUR).offset(3 * HOUR) // at 03:00 UTC
///     .run(|tick| async move {
///         println!("the report of {:?}", tick.at());
///         report().await;
///     })
///     .await
/// # }
/// ```
#[must_use = "a schedule does nothing until it is run"]
pub struct Schedule {
    locks: Locks,
    name: String,
    times: Times,
    offset: Duration,
    retry: bool,
    until: Option<BoxFuture<'static, ()>>,
}

enum Times {
    None,
    Every(Duration),
    Next(ticks::Next),
}

impl Locks {
    /// Returns the schedule with this name: each of its ticks runs at most once, on one of the nodes that schedule it.
    pub fn schedule(&self, name: impl AsRef<str>) -> Schedule {
        let (locks, name) = (self.clone(), name.as_ref().to_owned());
        let (times, offset) = (Times::None, Duration::ZERO);
        Schedule { locks, name, times, offset, retry: false, until: None }
    }
}

impl Schedule {
    /// Sets a tick each `period`, counted from midnight of 1970-01-01 UTC: `every(24 h)` is midnight.
    pub fn every(self, period: Duration) -> Schedule {
        Schedule { times: Times::Every(period), ..self }
    }

    /// Shifts every tick of [`every`](Schedule::every) by `offset`.
    pub fn offset(self, offset: Duration) -> Schedule {
        Schedule { offset, ..self }
    }

    /// Sets ticks of your own: `next` returns the first tick after the time that it is passed; `None` if there is none. For crates that
    /// parse cron expressions. It must return the same on every node. It is called with an earlier time again if the clock is set back.
    ///
    /// ```
    /// # let locks = distlock::Locks::memory();
    /// use std::time::{Duration, SystemTime};
    ///
    /// // As it would be with the crate `croner`: |after| cron.find_next_occurrence(&after.into(), false).ok().map(Into::into)
    /// let next = |after: SystemTime| Some(after + Duration::from_secs(60));
    /// let schedule = locks.schedule("poll").at(next);
    /// ```
    pub fn at(
        self,
        next: impl FnMut(SystemTime) -> Option<SystemTime> + Send + 'static,
    ) -> Schedule {
        Schedule { times: Times::Next(Box::new(next)), ..self }
    }

    /// Sets ticks at these times, in ascending order. Those that have passed when the schedule is [run](Schedule::run) are skipped.
    pub fn times(
        self,
        times: impl IntoIterator<Item = SystemTime, IntoIter: Send + 'static>,
    ) -> Schedule {
        let (mut times, mut last) = (times.into_iter().fuse(), None);
        self.at(move |after| {
            // When the clock was set back it is called with an earlier time, and the tick that it returned last is still to come.
            last = last.filter(|time| *time > after).or_else(|| times.find(|time| *time > after));
            last
        })
    }

    /// Runs a tick again if its node died during the run, or lost its lock, unless a later tick is due by then. The job must
    /// tolerate two runs for one tick.
    pub fn retry_if_died(self) -> Schedule {
        Schedule { retry: true, ..self }
    }

    /// Stops the schedule when the future `stop` completes, such as `token.cancelled_owned()` of a `CancellationToken`. A running job is finished first.
    pub fn until(self, stop: impl Future<Output = ()> + Send + 'static) -> Schedule {
        Schedule { until: Some(Box::pin(stop)), ..self }
    }

    /// Forgets which tick was run last, and returns whether there was one. For a schedule that no longer exists, or after a clock was
    /// wrong.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn forget(&self) -> Result<bool> {
        self.locks.fence_gate(&self.name).forget().await
    }

    /// Runs `job` at each tick that this node claims, until there are no more ticks or [`until`](Schedule::until) stops it.
    ///
    /// While the store cannot be reached it retries; the ticks of that time are skipped. A `job` that panics ends the schedule
    /// of this node; its tick counts as that of a node that died.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    /// # rt.block_on(async {
    /// use std::time::{Duration, SystemTime};
    /// use distlock::{Locks, env::Virtual};
    ///
    /// let locks = Locks::builder().url("memory:jobs").env(Virtual::new()).connect().await?; // virtual time, for tests
    /// let soon = SystemTime::now() + Duration::from_secs(3600);
    /// let (mut here, mut there) = (0, 0);
    /// let (one, two) = tokio::join!( // two nodes
    ///     locks.schedule("report").times([soon]).run(|_| { here += 1; async {} }),
    ///     locks.schedule("report").times([soon]).run(|_| { there += 1; async {} }),
    /// );
    /// one.and(two)?;
    /// assert_eq!(here + there, 1);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `Config` if it has no ticks, `InvalidDuration` for a period below 1 ms or an offset beyond the range of the clock;
    /// `InvalidName`, `Conflict`, `Unsupported`, `Closed`: errors that no retry helps.
    pub async fn run<F: Future<Output = ()>>(self, mut job: impl FnMut(Tick) -> F) -> Result<()> {
        let mut node = self.node()?;
        while let Some(turn) = node.turn().await? {
            let tick = turn.tick();
            // As in `run`: a function that acquires the schedule's lock would wait for itself otherwise.
            let work = Nesting::of_task().scope(&[&turn.guard], async { job(tick).await });
            let done = turn.guard.while_held(work).await.is_ok();
            node.end(turn, done).await?;
        }
        Ok(())
    }

    /// [`run`](Schedule::run) on the calling thread; no runtime is needed. A job cannot be stopped when the lock is lost: it can check
    /// [`Tick::scope`].
    ///
    /// # Errors
    /// As [`run`](Schedule::run).
    pub fn run_blocking(self, mut job: impl FnMut(Tick)) -> Result<()> {
        let mut node = self.node()?;
        loop {
            let env = node.desk.env.clone();
            // The library's own thread waits, the caller's works.
            let (mut back, turn) = engine::block_on(
                &*env,
                Box::pin(async move {
                    let turn = node.turn().await?;
                    Ok((node, turn))
                }),
            )?;
            let Some(turn) = turn else { return Ok(()) };
            let work = || Nesting::of_thread().scope_blocking(&[&turn.guard], || job(turn.tick()));
            turn.guard.held_span().in_scope(work);
            node = engine::block_on(
                &*env,
                Box::pin(async move {
                    let done = !turn.guard.is_lost();
                    back.end(turn, done).await?;
                    Ok(back)
                }),
            )?;
        }
    }

    fn node(self) -> Result<Node> {
        let env = self.locks.engine().env.clone();
        let from = env.time_of_day();
        let ticks = match self.times {
            Times::Every(period) => Ticks::every(period, self.offset, from)?,
            Times::Next(next) => Ticks::new(next, from),
            Times::None => {
                let text =
                    format!("the schedule {:?} has no ticks: use `every` or `at`", self.name);
                return Err(Error::new(ErrorKind::Config, text));
            }
        };
        let (mutex, gate) = (self.locks.mutex(&self.name), self.locks.fence_gate(&self.name));
        let desk = Desk { mutex, gate, env, retry: self.retry };
        let stop = self.until.unwrap_or_else(|| Box::pin(std::future::pending()));
        Ok(Node { desk, ticks, stop: Some(stop) })
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("locks", &self.locks)
            .field("name", &self.name)
            .field("retry_if_died", &self.retry)
            .finish_non_exhaustive()
    }
}

/// One tick of a [`Schedule`], passed to the job of the node that runs it.
///
/// ```
/// use distlock::{Scope, Tick};
///
/// async fn report(tick: Tick) {
///     println!("the report of {:?}", tick.at());
///     if tick.scope().is_lost() {
///         return; // between two actions that cannot be undone
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Tick {
    at: SystemTime,
    scope: Scope,
}

impl Tick {
    /// Returns when the tick was due: the same time on every node, also if the tick runs again.
    pub fn at(&self) -> SystemTime {
        self.at
    }

    /// Returns the scope of the lock that is held during the run.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}

impl Turn {
    fn tick(&self) -> Tick {
        Tick { at: self.at, scope: Scope::of(&[&self.guard]) }
    }
}
