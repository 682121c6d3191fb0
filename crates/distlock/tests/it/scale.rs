//! Very many locks and waiters. One at a time: each wants the machine for itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use distlock_testkit::suites::eventually;
use distlock_testkit::{Server, Worker, assert_clean, worker};
use tokio::sync::{Mutex, MutexGuard};

const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at something that counts up.
const LOOK: Duration = Duration::from_millis(50);
/// What a waiter may cost its process. Measured: 1750 to 1790 bytes on a busy machine, of which about 130 are the id of the stay beside
/// that of its owner, and what is kept so that work which nobody polls can be adopted; resident memory varies by some hundred.
const WAITER_BYTES: u64 = 2048;
/// Several times what a turn takes on a machine that is as fast as usual.
const TURN: Duration = Duration::from_micros(500);

async fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::const_new(());
    MACHINE.lock().await
}

async fn crowd(server: &Server, watchdog: Duration) -> Worker {
    let crowd = worker("crowd").arg(server.url()).arg(watchdog.as_millis().to_string());
    // What waiters cost is asked here, not how many threads have an arena of the allocator's for themselves.
    let mut crowd = crowd.env("MALLOC_ARENA_MAX", "1").start().await;
    crowd.wait_for("ready").await;
    crowd
}

async fn ask(crowd: &mut Worker, command: &str, answer: &str) -> String {
    crowd.send(command);
    crowd.wait_for_within(answer, PATIENCE).await
}

async fn report(crowd: &mut Worker) -> HashMap<String, u64> {
    let report = ask(crowd, "report", "asked=").await;
    let pairs = report.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a count"))).collect()
}

async fn memory(crowd: &mut Worker) -> u64 {
    let memory = ask(crowd, "memory", "memory").await;
    let bytes = memory.strip_prefix("memory ").and_then(|bytes| bytes.parse().ok());
    bytes.expect("a number of bytes")
}

/// Waits until that many waiters have had the lock and none has failed.
async fn all_served(crowd: &mut Worker, count: u64) {
    let since = Instant::now();
    loop {
        let seen = report(crowd).await;
        assert_eq!(seen["failed"], 0, "a waiter failed: {seen:?}");
        if seen["served"] == count {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "not all {count} waiters were served: {seen:?}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn all_asked(crowd: &mut Worker, count: u64) {
    let since = Instant::now();
    while report(crowd).await["asked"] < count {
        assert!(since.elapsed() < PATIENCE, "not all {count} waiters have begun to wait");
        tokio::time::sleep(LOOK).await;
    }
}

async fn subscribed(server: &Server, channels: u64) {
    let since = Instant::now();
    loop {
        let seen = server.info_field("pubsub_channels").await;
        let seen: u64 = seen.and_then(|seen| seen.parse().ok()).expect("a count");
        if seen == channels {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{seen} subscriptions instead of {channels}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Connections with at least one subscription.
async fn listeners(server: &Server) -> usize {
    let clients = server.clients().await;
    clients.iter().filter(|line| !line.contains(" sub=0 ")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_held_locks_are_all_kept() {
    const LOCKS: u64 = 10_000;
    let _alone = alone().await;
    let time = match std::env::var_os("DISTLOCK_LONG") {
        Some(_) => Duration::from_secs(120),
        None => Duration::from_secs(15),
    };
    let server = Server::redis().await;
    let mut holder = crowd(&server, Duration::from_secs(9)).await;
    ask(&mut holder, &format!("hold keep: {LOCKS}"), "held").await;
    server.reset_stats().await;
    tokio::time::sleep(time).await;
    let renewals = server.calls("evalsha").await;
    let seen = report(&mut holder).await;
    println!(
        "{LOCKS} locks kept for {time:?} with {renewals} renewal commands, {:.2} per second and 1000 locks",
        renewals as f64 / time.as_secs_f64() / (LOCKS as f64 / 1000.0)
    );
    assert_eq!((seen["lost"], seen["held"]), (0, LOCKS), "locks were lost: {seen:?}");
    let kept: u64 = server.ask(&["DBSIZE"]).await;
    assert_eq!(kept, LOCKS);
    ask(&mut holder, "release", "released").await;
    ask(&mut holder, "quit", "closed").await;
    assert_clean(&server, "keep:").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_waiters_cost_little_and_are_all_served() {
    const WAITERS: u64 = 100_000;
    let _alone = alone().await;
    let server = Server::redis().await;
    let long = Duration::from_secs(300); // so many take their time on a busy machine
    let mut holder = crowd(&server, long).await;
    ask(&mut holder, &format!("hold many: {WAITERS}"), "held").await;
    let mut waiters = crowd(&server, long).await;
    let before = memory(&mut waiters).await;
    ask(&mut waiters, &format!("wait many: {WAITERS}"), "waiting").await;
    subscribed(&server, WAITERS).await;
    let bytes = (memory(&mut waiters).await - before) / WAITERS;
    println!("{bytes} bytes per waiter, {WAITERS} names");
    let one = || async { listeners(&server).await == 1 };
    eventually("one connection has the subscriptions", one).await;
    ask(&mut holder, "release", "released").await;
    all_served(&mut waiters, WAITERS).await;
    subscribed(&server, 0).await;
    ask(&mut waiters, "quit", "closed").await;
    ask(&mut holder, "quit", "closed").await;
    assert_clean(&server, "many:").await;
    assert!(bytes < WAITER_BYTES, "{bytes} bytes per waiter: at most {WAITER_BYTES}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiters_on_one_name_cost_little_and_are_all_served() {
    const WAITERS: u64 = 10_000;
    let _alone = alone().await;
    let server = Server::redis().await;
    let long = Duration::from_secs(300); // so many take their time on a busy machine
    let mut holder = crowd(&server, long).await;
    ask(&mut holder, "hold one: 1", "held").await;
    let mut waiters = crowd(&server, long).await;
    let before = memory(&mut waiters).await;
    ask(&mut waiters, &format!("wait-one one:0 {WAITERS}"), "waiting").await;
    all_asked(&mut waiters, WAITERS).await;
    subscribed(&server, 1).await;
    let bytes = (memory(&mut waiters).await - before) / WAITERS;
    println!("{bytes} bytes per waiter, one name");
    let one = || async { listeners(&server).await == 1 };
    eventually("one connection has the subscriptions", one).await;
    server.reset_stats().await;
    let since = Instant::now();
    ask(&mut holder, "release", "released").await;
    all_served(&mut waiters, WAITERS).await;
    let took = since.elapsed();
    let commands = server.calls("evalsha").await as f64 / WAITERS as f64;
    println!("{commands:.2} commands per waiter served, {took:?} for all");
    subscribed(&server, 0).await;
    ask(&mut waiters, "quit", "closed").await;
    ask(&mut holder, "quit", "closed").await;
    assert_clean(&server, "one:").await;
    assert!(bytes < WAITER_BYTES, "{bytes} bytes per waiter: at most {WAITER_BYTES}");
    // A burst ends after a time, so on a machine that is many times slower than usual every burst is a single turn: to ask, to be
    // told and to ask again, to make sure, to let go.
    let limit = if took < TURN * WAITERS as u32 { 1.0 } else { 4.0 };
    assert!(commands <= limit, "{commands:.2} commands per waiter: the wake-up is a stampede");
}
