//! Times in the queue stay what they should be: no more than the lease and one patience for each place.

use std::time::Duration;

use distlock::Locks;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::line::Waiter;
use super::wire::Queue;
use crate::suites::eventually;
use crate::{Server, assert_clean};

const LEASE: Duration = Duration::from_secs(30);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn open(server: &Server, patience: Duration) -> Locks {
    let builder = Locks::builder().url(server.url()).fair_patience(patience);
    builder.connect().await.expect("the server answers")
}

/// Nobody's time is later than the lease and one patience for each place.
async fn assert_bounded(queue: &Queue<'_>, patience: Duration) {
    let times = queue.times().await;
    for (place, time) in (1..).zip(&times) {
        let bound = (LEASE + place * patience).as_secs_f64();
        assert!(*time <= bound + 0.01, "the {place}. has {time} s of at most {bound}: {times:?}");
    }
}

/// They are these, within what a test takes on a machine that does other things; places are further apart.
async fn assert_times(queue: &Queue<'_>, expected: &[f64]) {
    let times = queue.times().await;
    let close = times.len() == expected.len()
        && times
            .iter()
            .zip(expected)
            .all(|(time, expected)| (expected - 10.0..=*expected + 0.01).contains(time));
    assert!(close, "{times:?} and not {expected:?}");
}

/// They are no later than these, unless somebody's time may have ended since.
async fn assert_no_later(queue: &Queue<'_>, latest: &[f64], since: Instant) {
    let times = queue.times().await;
    let none = times.len() == latest.len()
        && times.iter().zip(latest).all(|(time, latest)| *time > 0.0 && time <= latest);
    let in_time = since.elapsed() < ms(900);
    assert!(none || !in_time, "{times:?}, at most {latest:?}");
}

/// Redisson: testWaitTimeoutDrift. Waiters that fail again and again.
pub async fn waits_that_run_out_push_nobodys_time(server: Server) {
    let patience = ms(300);
    let locks = open(&server, patience).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().lease(LEASE).await.expect("it is free");
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let lock = locks.fair("k");
        tasks.spawn(async move {
            for _ in 0..12 {
                let none = lock.try_lock().wait(patience).await.expect("the store answers");
                assert!(none.is_none());
            }
        });
    }
    while !tasks.is_empty() {
        assert_bounded(&queue, patience).await;
        while let Some(ended) = tasks.try_join_next() {
            ended.expect("no panic");
        }
    }
    eventually("all have left", || async { queue.len().await == 0 }).await;
    // One more, which is killed before it can clear up: whoever comes now takes it from there.
    queue.add_dead("killed", 300).await;
    let last = Waiter::join(&locks, "k").await;
    assert_bounded(&queue, patience).await;
    guard.unlock().await.expect("it was held");
    last.enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// Redisson: testLockAcquiredTimeoutDrift. Waiters that succeed again and again, in a queue that is never empty.
pub async fn acquisitions_push_nobodys_time(server: Server) {
    let patience = Duration::from_secs(300);
    let locks = open(&server, patience).await;
    let queue = Queue::of(&server, "k");
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let lock = locks.fair("k");
        tasks.spawn(async move {
            for _ in 0..25 {
                let guard = lock.lock().lease(LEASE).await.expect("it gets free");
                tokio::time::sleep(ms(5)).await;
                guard.unlock().await.expect("it was held");
            }
        });
    }
    while !tasks.is_empty() {
        assert_bounded(&queue, patience).await;
        while let Some(ended) = tasks.try_join_next() {
            ended.expect("no panic");
        }
    }
    assert_clean(&server, "").await;
}

/// Redisson: testFirstThreadDeathTimeoutDrift. Those who are first in line die, again and again, in a queue that is never
/// empty.
pub async fn deaths_push_nobodys_time(server: Server) {
    let patience = Duration::from_secs(300);
    let locks = open(&server, patience).await;
    let queue = Queue::of(&server, "k");
    let mut guard = locks.fair("k").lock().lease(LEASE).await.expect("it is free");
    queue.add_dead("dead-0", 300_000).await;
    let mut next = Waiter::join_with(&locks, "k", LEASE).await;
    for round in 1..=3 {
        queue.add_dead(&format!("dead-{round}"), 300_000).await;
        let after = Waiter::join_with(&locks, "k", LEASE).await;
        assert_bounded(&queue, patience).await;
        queue.listen(2).await;
        guard.unlock().await.expect("it was held");
        guard = next.enters().await;
        next = after;
        assert_bounded(&queue, patience).await;
        assert_eq!(queue.len().await, 2);
    }
    guard.unlock().await.expect("it was held");
    next.enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// Redisson: testAcquireFailedTimeoutDrift_Descrete, testLockAcquiredTimeoutDrift_Descrete,
/// testLockAcquiredBooleanTimeoutDrift_Descrete. What leaving, entering and trying once do to the others' times.
pub async fn whoever_leaves_or_enters_brings_the_others_closer(server: Server) {
    let locks = open(&server, Duration::from_secs(50)).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().lease(LEASE).await.expect("it is free");
    let mut line = Vec::new();
    for _ in 0..4 {
        line.push(Waiter::join_with(&locks, "k", LEASE).await);
    }
    assert_times(&queue, &[80.0, 130.0, 180.0, 230.0]).await;
    line.remove(1).leaves();
    eventually("it has left", || async { queue.len().await == 3 }).await;
    assert_times(&queue, &[80.0, 130.0, 180.0]).await;
    for _ in 0..3 {
        assert!(locks.fair("k").try_lock().await.expect("the store answers").is_none());
    }
    assert_times(&queue, &[80.0, 130.0, 180.0]).await;
    queue.listen(3).await;
    guard.unlock().await.expect("it was held");
    let guard = line.remove(0).enters().await;
    assert_times(&queue, &[80.0, 130.0]).await;
    line.remove(0).leaves();
    eventually("it has left", || async { queue.len().await == 1 }).await;
    assert_times(&queue, &[80.0]).await;
    guard.unlock().await.expect("it was held");
    line.remove(0).enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// Redisson: testAbandonedTimeoutDrift_Descrete. What those who are found dead do to the others' times.
pub async fn the_dead_bring_the_others_closer(server: Server) {
    let locks = open(&server, Duration::from_secs(300)).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().lease(LEASE).await.expect("it is free");
    queue.add_dead("one", 300_000).await;
    queue.add_dead("two", 300_000).await;
    let next = Waiter::join_with(&locks, "k", LEASE).await;
    let last = Waiter::join(&locks, "k").await;
    assert_times(&queue, &[330.0, 630.0, 930.0, 1230.0]).await;
    queue.listen(2).await;
    let since = Instant::now();
    guard.unlock().await.expect("it was held");
    // All keep their times for as long as the first of the dead may come after all; it would take off what is its own.
    assert_no_later(&queue, &[1.0, 630.0, 930.0, 1230.0], since).await;
    let guard = next.enters().await;
    assert_times(&queue, &[330.0]).await;
    guard.unlock().await.expect("it was held");
    last.enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}
