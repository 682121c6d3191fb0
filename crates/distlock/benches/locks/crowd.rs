//! W6 and W7: what very many held locks and waiters cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::Locks;
use tokio::task::JoinSet;

use crate::Bench;
use crate::machine::{self, Worker, cpu, resident};
use crate::raw;
use crate::report::Target;

const LOCKS: usize = 10_000;
const AT_ONCE: usize = 256;
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn run(bench: &mut Bench) {
    if bench.wants("w6") {
        watchdog(bench).await;
    }
    if bench.wants("w7") {
        waiters(bench).await;
    }
}

/// Once, not in rounds: what it counts hardly varies.
async fn watchdog(bench: &mut Bench) {
    bench.clean().await;
    // Two renewals of each lock at least.
    let (timeout, time) = match bench.quick {
        true => (Duration::from_secs(3), Duration::from_secs(2)),
        false => (Duration::from_secs(30), Duration::from_secs(20)),
    };
    let millis = timeout.as_millis().to_string();
    let mut holder = Worker::start(&["hold", &bench.server.url(), &LOCKS.to_string(), &millis]);
    holder.line();
    bench.server.reset_stats().await;
    let (begun, before) = (Instant::now(), cpu(holder.pid()));
    tokio::time::sleep(time).await;
    let spent = (cpu(holder.pid()) - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    let commands = bench.server.calls("evalsha").await as f64 / begun.elapsed().as_secs_f64();
    holder.say("report");
    let lost: f64 = holder.line().parse().unwrap_or(f64::NAN);
    if lost != 0.0 {
        bench.report.broke(format!("w6: {lost} of {LOCKS} locks were lost"));
    }
    // As many times less often with the default.
    let scale = timeout.as_secs_f64() / 30.0;
    let report = &mut bench.report;
    report.add("w6.distlock.cpu_percent", spent * 100.0 * scale);
    report.add("w6.distlock.commands_per_s_per_1000", commands * 1000.0 / LOCKS as f64 * scale);
    report.add("w6.distlock.lost", lost);
    report.judge(
        "W6 10 000 locks kept, % of a core",
        "w6.distlock.cpu_percent",
        Target::Below(1.0),
    );
    report.judge(
        "W6 commands/s per 1000 locks",
        "w6.distlock.commands_per_s_per_1000",
        Target::Below(10.0),
    );
    report.judge("W6 locks lost", "w6.distlock.lost", Target::Below(0.0));
}

/// A process that holds very many locks: says `ready`, and how many it has lost when told anything.
pub(crate) async fn hold(url: &str, count: &str, watchdog_ms: &str) {
    let watchdog = Duration::from_millis(watchdog_ms.parse().expect("a number"));
    let locks = Locks::builder().url(url).watchdog(watchdog).connect().await;
    let locks = locks.expect("the server has just started");
    let mut held = Vec::new();
    let mut under_way = JoinSet::new();
    for number in 0..count.parse::<usize>().expect("a number") {
        if under_way.len() == AT_ONCE {
            held.extend(under_way.join_next().await);
        }
        let lock = locks.mutex(format!("held:{number}"));
        under_way.spawn(async move { lock.lock().await });
    }
    held.extend(under_way.join_all().await.into_iter().map(Ok));
    let held: Vec<_> =
        held.into_iter().map(|guard| guard.expect("no panic").expect("it is free")).collect();
    println!("ready");
    machine::told().await;
    println!("{}", held.iter().filter(|guard| guard.is_lost()).count());
}

async fn waiters(bench: &mut Bench) {
    bench.clean().await;
    let count = bench.pick(10_000, 100_000);
    let mut connection = raw::connect(&bench.server.url()).await;
    let acquire = raw::load(&mut connection, raw::ACQUIRE).await;
    for chunk in (0..count).collect::<Vec<_>>().chunks(1000) {
        let mut pipeline = redis::pipe();
        for number in chunk {
            let command =
                pipeline.cmd("EVALSHA").arg(&acquire).arg(1).arg(format!("wait:{number}"));
            command.arg(raw::owner()).arg(LONG.as_millis() as u64).arg(1).ignore();
        }
        let () = pipeline.query_async(&mut connection).await.expect("nobody else wants them");
    }
    let mut waiter = Worker::start(&["wait", &bench.server.url(), &count.to_string()]);
    waiter.line();
    let before = resident(waiter.pid());
    waiter.say("go");
    let begun = Instant::now();
    while bench.server.info_field("pubsub_channels").await != Some(count.to_string()) {
        if begun.elapsed() > LONG / 2 {
            return bench.report.broke(format!("w7: {count} waiters do not all listen"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let bytes = (resident(waiter.pid()) - before) as f64 / count as f64;
    bench.report.add("w7.distlock.bytes_per_waiter", bytes);
    bench.report.add("w7.distlock.listening_s", begun.elapsed().as_secs_f64());
    bench.report.judge(
        "W7 bytes per waiter",
        "w7.distlock.bytes_per_waiter",
        Target::Below(1024.0),
    );
}

/// A process with very many waiters, until it is killed.
pub(crate) async fn wait(url: &str, count: &str) {
    let locks = Arc::new(Locks::connect(url).await.expect("the server has just started"));
    println!("ready");
    machine::told().await;
    for number in 0..count.parse::<usize>().expect("a number") {
        let lock = locks.mutex(format!("wait:{number}"));
        tokio::spawn(async move { drop(lock.lock().await) });
    }
    std::future::pending::<()>().await;
}
