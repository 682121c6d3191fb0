//! The stores without a server.

use std::sync::Arc;
use std::time::Instant;

use distlock::Locks;

use crate::Bench;
use crate::report::Target;

const TASKS: usize = 8;

pub(crate) async fn run(bench: &mut Bench) {
    if bench.wants("memory") {
        for _ in 0..bench.rounds() {
            let locks = Locks::memory();
            let rate = alone(bench, &locks).await;
            bench.report.add("memory.one_task.pairs_per_s", rate);
            let contended = contended(bench, locks).await;
            bench.report.add("memory.contended.ns_per_pair", contended);
            let tokio = tokio_mutex(bench).await;
            bench.report.add("memory.tokio-mutex.ns_per_pair", tokio);
        }
        let report = &mut bench.report;
        report.judge(
            "memory: one task, pairs/s",
            "memory.one_task.pairs_per_s",
            Target::Above(1e6),
        );
        report.compare(
            "memory: 8 tasks on one key, ns per pair",
            "memory.contended.ns_per_pair",
            "memory.tokio-mutex.ns_per_pair",
            Target::AtMost(3.0),
        );
    }
    if bench.wants("file") {
        for _ in 0..bench.rounds() {
            let url = format!("file:{}", bench.server.dir().join("locks").display());
            let locks = Locks::connect(&url).await.expect("the directory can be made");
            let rate = alone(bench, &locks).await;
            bench.report.add("file.one_task.pairs_per_s", rate);
            locks.close().await;
        }
        bench.report.judge(
            "file: one task, pairs/s",
            "file.one_task.pairs_per_s",
            Target::Above(2e4),
        );
    }
}

async fn alone(bench: &mut Bench, locks: &Locks) -> f64 {
    let lock = locks.mutex("alone");
    let (begun, mut pairs) = (Instant::now(), 0);
    while begun.elapsed() < bench.turn() {
        // The clock is dear beside a pair.
        for _ in 0..32 {
            let done = match lock.lock().await {
                Ok(guard) => guard.unlock().await,
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                bench.report.broke(format!("alone: {error}"));
                return f64::NAN;
            }
            pairs += 1;
        }
    }
    f64::from(pairs) / begun.elapsed().as_secs_f64()
}

async fn contended(bench: &mut Bench, locks: Locks) -> f64 {
    let (begun, end) = (Instant::now(), Instant::now() + bench.turn());
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let lock = locks.mutex("contended");
            tokio::spawn(async move {
                let mut pairs = 0_u64;
                while Instant::now() < end {
                    lock.lock().await?.unlock().await?;
                    pairs += 1;
                }
                Ok::<u64, distlock::Error>(pairs)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        match task.await.expect("a contender does not panic") {
            Ok(pairs) => total += pairs,
            Err(error) => bench.report.broke(format!("memory: {error}")),
        }
    }
    begun.elapsed().as_secs_f64() * 1e9 / total as f64
}

async fn tokio_mutex(bench: &Bench) -> f64 {
    let (begun, end) = (Instant::now(), Instant::now() + bench.turn());
    let mutex = Arc::new(tokio::sync::Mutex::new(0_u64));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move {
                while Instant::now() < end {
                    *mutex.lock().await += 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a contender does not panic");
    }
    begun.elapsed().as_secs_f64() * 1e9 / *mutex.lock().await as f64
}
