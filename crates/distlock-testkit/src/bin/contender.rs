//! One of several processes that fight for one lock: `contender URL NAME COUNTER TASKS SECONDS SECTION_MS`.
//!
//! Says `ready`, starts when it is told `go`, and says `done` with its figures. Inside the lock every task reads a
//! number from the server, waits for the length of the section, and writes it back one higher, without any other
//! protection: two at once would lose an update.

use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::Stopwatch;
use redis::aio::MultiplexedConnection;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What one process does.
struct Plan {
    url: String,
    name: String,
    counter: String,
    tasks: usize,
    time: Duration,
    section: Duration,
}

/// What one task has seen.
#[derive(Default)]
struct Tally {
    acquired: u64,
    longest: Duration,
}

impl Plan {
    fn from_args() -> Option<Plan> {
        let mut args = std::env::args().skip(1);
        Some(Plan {
            url: args.next()?,
            name: args.next()?,
            counter: args.next()?,
            tasks: args.next()?.parse().ok()?,
            time: Duration::from_secs_f64(args.next()?.parse().ok()?),
            section: Duration::from_secs_f64(args.next()?.parse::<f64>().ok()? / 1000.0),
        })
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let plan = Plan::from_args().ok_or("contender URL NAME COUNTER TASKS SECONDS SECTION_MS")?;
    let plan = Arc::new(plan);
    let locks = Locks::connect(&plan.url).await?;
    // Without a limit: on a machine that does other things answers may come late.
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(None);
    let config = config.set_response_timeout(None);
    let plain = redis::Client::open(plan.url.as_str())?;
    let plain = plain.get_multiplexed_async_connection_with_config(&config).await?;
    println!("ready");
    tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;

    let holder_changes = Arc::new(HandOvers::default());
    let watch = Stopwatch::start();
    let end = Instant::now() + plan.time;
    let tasks: Vec<_> = (0..plan.tasks)
        .map(|task| {
            let (plan, locks, plain) = (plan.clone(), locks.clone(), plain.clone());
            let changes = holder_changes.clone();
            tokio::spawn(async move { contend(&plan, &locks, plain, end, &changes, task).await })
        })
        .collect();
    let mut tallies = Vec::new();
    for task in tasks {
        tallies.push(task.await??);
    }
    let stalled = watch.stalled();
    locks.close().await;
    let acquired: u64 = tallies.iter().map(|tally| tally.acquired).sum();
    let longest = tallies.iter().map(|tally| tally.longest).max().unwrap_or_default();
    let least = tallies.iter().map(|tally| tally.acquired).min().unwrap_or_default();
    let most = tallies.iter().map(|tally| tally.acquired).max().unwrap_or_default();
    println!(
        "done acquired={acquired} max_wait_us={} hand_overs={} task_min={least} task_max={most} stalled_us={}",
        longest.as_micros(),
        holder_changes.count.load(Ordering::Relaxed),
        stalled.as_micros(),
    );
    Ok(())
}

/// Counts how often the lock moved from one task of this process to another.
#[derive(Default)]
struct HandOvers {
    last: AtomicU64,
    count: AtomicU64,
}

async fn contend(
    plan: &Plan,
    locks: &Locks,
    mut plain: MultiplexedConnection,
    end: Instant,
    changes: &HandOvers,
    task: usize,
) -> Outcome<Tally> {
    let lock = locks.mutex(&plan.name);
    let mut tally = Tally::default();
    while Instant::now() < end {
        let asked = Instant::now();
        let guard = lock.lock().await?;
        tally.longest = tally.longest.max(asked.elapsed());
        tally.acquired += 1;
        if changes.last.swap(task as u64 + 1, Ordering::Relaxed) != task as u64 + 1 {
            changes.count.fetch_add(1, Ordering::Relaxed);
        }
        let before: Option<u64> =
            redis::cmd("GET").arg(&plan.counter).query_async(&mut plain).await?;
        if !plan.section.is_zero() {
            tokio::time::sleep(plan.section).await;
        }
        let after = before.unwrap_or(0) + 1;
        let () = redis::cmd("SET").arg(&plan.counter).arg(after).query_async(&mut plain).await?;
        guard.unlock().await?;
    }
    Ok(tally)
}
