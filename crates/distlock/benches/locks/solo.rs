//! W1 and W2: locks that nobody else wants.

use std::sync::Arc;
use std::time::Instant;

use crate::Bench;
use crate::client::{Client, Outcome, Who};
use crate::machine::cpu;
use crate::raw::Blocking;
use crate::report::{Target, percentile};

const TASKS: usize = 64;

pub(crate) async fn run(bench: &mut Bench) {
    if bench.wants("w1") {
        one_task(bench).await;
    }
    if bench.wants("w2") {
        many_tasks(bench).await;
    }
}

async fn one_task(bench: &mut Bench) {
    for _ in 0..bench.rounds() {
        bench.clean().await;
        let (addr, turn) = (bench.server.addr(), bench.turn());
        let latencies = tokio::task::spawn_blocking(move || {
            let mut blocking = Blocking::connect(addr);
            timed(turn, || blocking.pair("w1"))
        });
        note(bench, "w1.blocking", latencies.await.expect("the limit does not panic"));
        for who in Who::UNCONTENDED {
            bench.clean().await;
            let client = Client::connect(who, &bench.server.url()).await;
            match pairs(&client, "w1", bench).await {
                Ok(latencies) => note(bench, &format!("w1.{}", who.key()), latencies),
                Err(error) => bench.report.broke(format!("w1 {}: {error}", who.key())),
            }
            client.close().await;
        }
    }
    let report = &mut bench.report;
    report.compare(
        "W1 one task, pair p50 µs",
        "w1.distlock.p50_us",
        "w1.raw.p50_us",
        Target::AtMost(1.15),
    );
    report.compare("W1 one task, pair p99 µs", "w1.distlock.p99_us", "w1.raw.p99_us", Target::None);
    report.compare(
        "W1 beside a blocking socket",
        "w1.distlock.p50_us",
        "w1.blocking.p50_us",
        Target::None,
    );
    report.compare(
        "W1 beside Redisson's algorithm",
        "w1.distlock.p50_us",
        "w1.redisson-alg.p50_us",
        Target::None,
    );
}

fn timed(turn: std::time::Duration, mut pair: impl FnMut()) -> Vec<f64> {
    let end = Instant::now() + turn;
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let since = Instant::now();
        pair();
        latencies.push(since.elapsed().as_secs_f64() * 1e6);
    }
    latencies
}

async fn pairs(client: &Client, name: &str, bench: &Bench) -> Outcome<Vec<f64>> {
    let name: Arc<str> = name.into();
    let end = Instant::now() + bench.turn();
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let since = Instant::now();
        client.lock(&name).await?.unlock().await?;
        latencies.push(since.elapsed().as_secs_f64() * 1e6);
    }
    Ok(latencies)
}

fn note(bench: &mut Bench, key: &str, mut latencies: Vec<f64>) {
    let seconds = latencies.iter().sum::<f64>() / 1e6;
    bench.report.add(format!("{key}.p50_us"), percentile(&mut latencies, 0.5));
    bench.report.add(format!("{key}.p99_us"), percentile(&mut latencies, 0.99));
    bench.report.add(format!("{key}.pairs_per_s"), latencies.len() as f64 / seconds);
}

async fn many_tasks(bench: &mut Bench) {
    for _ in 0..bench.rounds() {
        for who in Who::UNCONTENDED {
            bench.clean().await;
            let client = Client::connect(who, &bench.server.url()).await;
            let (begun, cpu_before) = (Instant::now(), cpu(std::process::id()));
            let end = begun + bench.turn();
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| tokio::spawn(distinct(client.clone(), format!("w2:{task}"), end)))
                .collect();
            let mut total = 0;
            for task in tasks {
                match task.await.expect("a contender does not panic") {
                    Ok(pairs) => total += pairs,
                    Err(error) => bench.report.broke(format!("w2 {}: {error}", who.key())),
                }
            }
            let key = format!("w2.{}", who.key());
            let spent = cpu(std::process::id()) - cpu_before;
            let rate = total as f64 / begun.elapsed().as_secs_f64();
            bench.report.add(format!("{key}.pairs_per_s"), rate);
            let each = spent.as_secs_f64() * 1e6 / total as f64;
            bench.report.add(format!("{key}.client_cpu_us_per_pair"), each);
            client.close().await;
        }
    }
    let report = &mut bench.report;
    report.compare(
        "W2 64 tasks, distinct keys, pairs/s",
        "w2.distlock.pairs_per_s",
        "w2.raw.pairs_per_s",
        Target::AtLeast(0.85),
    );
    report.compare(
        "W2 beside Redisson's algorithm",
        "w2.distlock.pairs_per_s",
        "w2.redisson-alg.pairs_per_s",
        Target::AtLeast(1.0),
    );
    report.compare(
        "W2 client CPU µs per pair",
        "w2.distlock.client_cpu_us_per_pair",
        "w2.raw.client_cpu_us_per_pair",
        Target::AtMost(1.3),
    );
}

async fn distinct(client: Client, name: String, end: Instant) -> Outcome<u64> {
    let name: Arc<str> = name.into();
    let mut pairs = 0;
    while Instant::now() < end {
        client.lock(&name).await?.unlock().await?;
        pairs += 1;
    }
    Ok(pairs)
}
