//! Nodes in virtual time, with clocks that are wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use distlock::Locks;
use distlock::env::{BoxFuture, Env, Moment, Virtual};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::schedule::Runs;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// Surroundings in which the time of day is wrong.
#[derive(Clone, Debug)]
struct Skewed {
    inner: Virtual,
    ahead: Clock,
    behind: Duration,
}

/// How far ahead it is, which may be mended.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<Mutex<Duration>>);

impl Clock {
    pub(crate) fn set(&self, ahead: Duration) {
        *self.0.lock().unwrap() = ahead;
    }
}

impl Env for Skewed {
    fn now(&self) -> Moment {
        self.inner.now()
    }

    fn time_of_day(&self) -> SystemTime {
        self.inner.time_of_day() + *self.ahead.0.lock().unwrap() - self.behind
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        self.inner.sleep_until(at)
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.inner.spawn(work);
    }

    fn spawn_background(&self, work: BoxFuture<'static, ()>) {
        self.inner.spawn_background(work);
    }

    fn spawn_watchdog(&self, work: BoxFuture<'static, ()>) {
        self.inner.spawn_watchdog(work);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

/// Nodes on one table in memory, each with the time of day as it sees it.
pub(crate) struct Fleet {
    env: Virtual,
    name: String,
    pub(crate) runs: Runs,
    nodes: JoinSet<distlock::Result<()>>,
    /// The ticks, the first of which comes in an hour.
    pub(crate) ticks: Vec<SystemTime>,
}

impl Fleet {
    pub(crate) fn new(ticks: u32) -> Fleet {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("memory:schedule-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let env = Virtual::new();
        // Whole seconds, as `every` has them.
        let now = env.time_of_day().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let first = SystemTime::UNIX_EPOCH + Duration::from_secs(now + 3600);
        let ticks = (0..ticks).map(|number| first + number * PERIOD).collect();
        Fleet { env, name, runs: Runs::default(), nodes: JoinSet::new(), ticks }
    }

    pub(crate) async fn locks(&self, ahead: Duration, behind: Duration) -> Locks {
        self.skewed(Clock(Arc::new(Mutex::new(ahead))), behind).await
    }

    /// Locks of a node whose clock will be mended.
    pub(crate) async fn with_clock(&self, ahead: Duration) -> (Locks, Clock) {
        let clock = Clock(Arc::new(Mutex::new(ahead)));
        (self.skewed(clock.clone(), Duration::ZERO).await, clock)
    }

    async fn skewed(&self, ahead: Clock, behind: Duration) -> Locks {
        let env = Skewed { inner: self.env.clone(), ahead, behind };
        Locks::builder().url(&self.name).env(env).connect().await.unwrap()
    }

    /// A node whose job takes this long.
    pub(crate) async fn node(&mut self, ahead: Duration, behind: Duration, takes: Duration) {
        let locks = self.locks(ahead, behind).await;
        let (runs, ticks, node) = (self.runs.clone(), self.ticks.clone(), self.nodes.len());
        self.nodes.spawn(async move {
            let job = |tick: distlock::Tick| {
                runs.note(&tick, node);
                async move { sleep(takes).await }
            };
            locks.schedule("job").times(ticks).run(job).await
        });
    }

    pub(crate) async fn end(&mut self) {
        while let Some(node) = self.nodes.join_next().await {
            node.unwrap().unwrap();
        }
    }
}
