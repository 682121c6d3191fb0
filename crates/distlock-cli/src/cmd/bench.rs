//! `distlock bench`: what locks cost in this store, measured from here.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::duration::show;
use crate::exit::{Exit, Failure};
use crate::lock::{Ask, Lock};
use crate::plan::{Bench, Setup};
use crate::print::{self, Paint};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::times::Times;

/// How many clients share the tasks, each with a connection of its own, like so many services.
const CLIENTS: u32 = 4;

/// How long a waiter has until it surely waits, before the lock is freed for it.
const SETTLE: Duration = Duration::from_millis(20);

/// Of more than these no figure gets any better, and memory is not for ever.
const ENOUGH: usize = 1_000_000;

pub(super) async fn bench(plan: Bench) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|cause| Failure::System("catch signals", cause))?;
    let mut clients = Vec::new();
    // A wake-up takes two clients.
    for _ in 0..plan.tasks.clamp(2, CLIENTS) {
        let lock = Lock::open(&plan.store, &plan.lock, &Setup::default()).await?;
        clients.push(Arc::new(lock));
    }
    let report = tokio::select! {
        report = measure(&plan, &clients) => Some(report),
        signal = signals.recv() => {
            super::clean(&clients).await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
    };
    super::clean(&clients).await;
    if let Some(report) = report {
        let report = report?;
        print::out(&if plan.json { report.json(&plan) } else { report.text(&plan) })?;
    }
    Ok(Exit::Done)
}

struct Report {
    clients: usize,
    alone: Alone,
    crowd: Crowd,
    wakes: Times,
}

/// Without contention.
struct Alone {
    locks: Times,
    unlocks: Times,
    took: Duration,
}

/// With contention.
struct Crowd {
    waits: Times,
    took: Duration,
}

async fn measure(plan: &Bench, clients: &[Arc<Lock>]) -> Result<Report, Failure> {
    let mut progress = Progress::new(plan.json);
    let part = plan.time / 3;
    progress.say("measuring one task alone");
    let alone = alone(&clients[0], part).await?;
    progress.say("measuring all tasks at once");
    let crowd = crowd(clients, plan.tasks, part).await?;
    progress.say("measuring how soon a release wakes a waiter");
    let wakes = wake(&clients[0], &clients[1], part).await?;
    drop(progress);
    Ok(Report { clients: clients.len(), alone, crowd, wakes })
}

async fn alone(lock: &Lock, time: Duration) -> Result<Alone, Failure> {
    // The first one loads scripts and wakes threads.
    lock.acquire(&Ask::default()).await?.unlock().await?;
    let (mut locks, mut unlocks) = (Vec::new(), Vec::new());
    let began = Instant::now();
    loop {
        let asked = Instant::now();
        let held = lock.acquire(&Ask::default()).await?;
        let had = Instant::now();
        held.unlock().await?;
        locks.push(had - asked);
        unlocks.push(had.elapsed());
        if began.elapsed() >= time || locks.len() == ENOUGH {
            let took = began.elapsed();
            return Ok(Alone { locks: locks.into(), unlocks: unlocks.into(), took });
        }
    }
}

async fn crowd(clients: &[Arc<Lock>], tasks: u32, time: Duration) -> Result<Crowd, Failure> {
    let began = Instant::now();
    let mut crowd = JoinSet::new();
    for number in 0..tasks as usize {
        let lock = clients[number % clients.len()].clone();
        let enough = ENOUGH / tasks as usize;
        crowd.spawn(async move {
            let mut waits = Vec::new();
            // Once at least: a task may come to run when the time is over.
            loop {
                let asked = Instant::now();
                let held = lock.acquire(&Ask::default()).await?;
                waits.push(asked.elapsed());
                held.unlock().await?;
                if began.elapsed() >= time || waits.len() >= enough {
                    return Ok::<_, distlock::Error>(waits);
                }
            }
        });
    }
    let mut waits = Vec::new();
    while let Some(task) = crowd.join_next().await {
        let task = task.map_err(|cause| Failure::System("run a task", cause.into()))?;
        waits.extend(task?);
    }
    Ok(Crowd { waits: waits.into(), took: began.elapsed() })
}

/// How long it takes from one's letting go to the other's being inside.
async fn wake(one: &Lock, other: &Arc<Lock>, time: Duration) -> Result<Times, Failure> {
    let began = Instant::now();
    let mut wakes = Vec::new();
    loop {
        let held = one.acquire(&Ask::default()).await?;
        let waiter = other.clone();
        let waiter = tokio::spawn(async move {
            let held = waiter.acquire(&Ask::default()).await?;
            let woke = Instant::now();
            held.unlock().await?;
            Ok::<_, distlock::Error>(woke)
        });
        sleep(SETTLE).await;
        let freed = Instant::now();
        held.unlock().await?;
        let woke = waiter.await.map_err(|cause| Failure::System("run a task", cause.into()))?;
        wakes.push(woke?.saturating_duration_since(freed));
        if began.elapsed() >= time {
            return Ok(wakes.into());
        }
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    (count as f64 / took.as_secs_f64().max(1e-9)).round()
}

impl Report {
    fn json(&self, plan: &Bench) -> String {
        let pairs = |times: &Times, took: Duration| -> Value {
            json!({
                "pairs": times.len(),
                "seconds": took.as_micros() as f64 / 1e6,
                "pairs_per_second": per_second(times.len(), took),
            })
        };
        let mut alone = pairs(&self.alone.locks, self.alone.took);
        alone["lock_ms"] = self.alone.locks.json();
        alone["unlock_ms"] = self.alone.unlocks.json();
        let mut crowd = pairs(&self.crowd.waits, self.crowd.took);
        crowd["wait_ms"] = self.crowd.waits.json();
        let report = json!({
            "store": plan.store.place(),
            "kind": plan.lock.kind.word(),
            "tasks": plan.tasks,
            "clients": self.clients,
            "uncontended": alone,
            "contended": crowd,
            "wake_up": { "samples": self.wakes.len(), "ms": self.wakes.json() },
        });
        format!("{report}\n")
    }

    fn text(&self, plan: &Bench) -> String {
        let paint = Paint::stdout();
        let times = |times: &Times| {
            let [half, nearly, all] =
                [0.5, 0.99, 1.0].map(|share| times.share(share).map(show).unwrap_or_default());
            format!("p50 {half}, p99 {nearly}, longest {all}")
        };
        let rate = |times: &Times, took| format!("{} pairs/s", per_second(times.len(), took));
        let rows = [
            vec![
                "uncontended".to_owned(),
                rate(&self.alone.locks, self.alone.took),
                format!("lock {}", times(&self.alone.locks)),
            ],
            vec![String::new(), String::new(), format!("unlock {}", times(&self.alone.unlocks))],
            vec![
                format!("{} tasks", plan.tasks),
                rate(&self.crowd.waits, self.crowd.took),
                format!("wait {}", times(&self.crowd.waits)),
            ],
            vec!["wake-up".to_owned(), format!("{} seen", self.wakes.len()), times(&self.wakes)],
        ];
        let head = format!(
            "{} in {}, {} clients",
            plan.lock.kind.word(),
            plan.store.place(),
            self.clients
        );
        format!("{}\n{}", paint.head(&head), print::table(&rows))
    }
}
