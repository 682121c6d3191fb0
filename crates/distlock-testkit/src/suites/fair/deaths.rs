//! Waiters that die: they cost the living seconds, not minutes. R#1104, R#2883, R#3254, R#3730, R#4323, R#4661, R#4929, R#5503.

use std::time::Duration;

use distlock::Locks;

use super::line::Waiter;
use super::wire::Queue;
use crate::suites::eventually;
use crate::{Proxy, Server, Stopwatch, Worker, assert_clean, worker};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// A process that has asked for the lock.
async fn process(server: &Server, watchdog_ms: u64) -> Worker {
    let mut worker = worker("worker").start().await;
    worker.wait_for("ready").await;
    worker.send(&format!("connect {} {watchdog_ms}", server.url()));
    worker.wait_for("connected").await;
    worker.send("fair k");
    worker
}

/// A process that waits in line.
async fn process_in_line(server: &Server, queue: &Queue<'_>, watchdog_ms: u64) -> Worker {
    let before = queue.len().await;
    let worker = process(server, watchdog_ms).await;
    eventually("it is in line", || async { queue.len().await == before + 1 }).await;
    queue.listen(before + 1).await;
    worker
}

/// R#1353, R#6514: neither five seconds for each of the dead nor five minutes.
pub async fn five_killed_processes_cost_the_next_a_second(server: Server) {
    let locks = open(&server).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let mut processes = Vec::new();
    for _ in 0..5 {
        processes.push(process_in_line(&server, &queue, 30_000).await);
    }
    let next = Waiter::join(&locks, "k").await;
    queue.listen(6).await;
    processes.iter_mut().for_each(Worker::kill);
    queue.listen(1).await;
    let since = Stopwatch::start();
    guard.unlock().await.expect("it was held");
    let guard = next.enters().await;
    let took = since.elapsed();
    println!("{:?}: in {took:?} after the release, behind five who were killed", server.flavor());
    assert!(took < secs(5), "in after {took:?}");
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// It is called, and then it dies.
pub async fn whoever_is_killed_when_its_turn_comes_costs_two_or_three(server: Server) {
    let locks = open(&server).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let mut killed = process_in_line(&server, &queue, 30_000).await;
    let next = Waiter::join(&locks, "k").await;
    queue.listen(2).await;
    // It is called, but can no longer come.
    killed.stop();
    let since = Stopwatch::start();
    guard.unlock().await.expect("it was held");
    killed.kill();
    let guard = next.enters().await;
    let took = since.elapsed();
    println!("{:?}: in {took:?} after the release, behind one killed at its turn", server.flavor());
    assert!(took < secs(8), "in after {took:?}");
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// The holder dies together with those who are first in line: the next comes in seconds after the lease.
pub async fn a_holder_that_dies_with_the_first_in_line_costs_its_lease_and_seconds(server: Server) {
    let locks = open(&server).await;
    let queue = Queue::of(&server, "k");
    let mut processes = vec![process(&server, 8000).await];
    eventually("it holds the lock", || async { server.exists("k").await }).await;
    for _ in 0..2 {
        processes.push(process_in_line(&server, &queue, 8000).await);
    }
    assert_eq!(queue.len().await, 2);
    let next = Waiter::join(&locks, "k").await;
    processes.iter_mut().for_each(Worker::kill);
    let since = Stopwatch::start();
    let guard = next.enters().await;
    let took = since.elapsed();
    println!("{:?}: in {took:?} after a holder with a lease of 8 s was killed", server.flavor());
    assert!(took < secs(8 + 4), "in after {took:?}");
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// R#6150: what dead clients left in the queue long ago, the next who comes clears away.
pub async fn what_the_dead_left_is_cleared_away(server: Server) {
    let locks = open(&server).await;
    let queue = Queue::of(&server, "k");
    // Java's accumulate: the tenth would keep its place for fifty minutes.
    for index in 0..10 {
        queue.add_dead(&format!("dead-{index}"), 300_000).await;
    }
    assert!(locks.fair("k").try_lock().await.expect("the store answers").is_none());
    let since = Stopwatch::start();
    let guard = locks.fair("k").lock().await.expect("it gets free");
    let took = since.elapsed();
    assert!(took < secs(6), "in after {took:?}");
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// A waiter that the network has cut off, without the server noticing, costs seconds; it is in line again when it is back.
pub async fn a_waiter_that_is_cut_off_costs_seconds(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let locks = open(&server).await;
    let far = Locks::connect(&proxy.url()).await.expect("the server answers");
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let cut_off = Waiter::join(&far, "k").await;
    let next = Waiter::join(&locks, "k").await;
    queue.listen(2).await;
    proxy.blackhole(true);
    let since = Stopwatch::start();
    guard.unlock().await.expect("it was held");
    let guard = next.enters().await;
    let took = since.elapsed();
    println!("{:?}: in {took:?} after the release, behind one who is cut off", server.flavor());
    assert!(took < secs(12), "in after {took:?}");
    assert!(!cut_off.is_in());
    proxy.heal().await;
    proxy.reset_all().await;
    let back = || async { queue.owners().await == [cut_off.owner.to_string()] };
    eventually("it is in line again", back).await;
    guard.unlock().await.expect("it was held");
    cut_off.enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}
