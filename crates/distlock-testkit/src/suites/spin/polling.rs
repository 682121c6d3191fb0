//! How often it asks.

use std::time::Duration;

use distlock::Backoff;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::suites::{Ground, Recorder, Site};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// How often a waiter asked in a second, and how long that second was.
async fn attempts(ground: &Ground, backoff: Backoff) -> (usize, Duration) {
    let seen = Recorder::new();
    let builder = ground.builder().observer(seen.clone());
    let here = builder.connect().await.expect("the store can be opened");
    let elsewhere = ground.open().await;
    let name = ground.name("k");
    let guard = elsewhere.spin(&name).lock().await.expect("it is free");
    let lock = here.spin(&name).backoff(backoff);
    let since = Instant::now();
    assert!(lock.try_lock().wait(ms(1000)).await.expect("the store answers").is_none());
    let asked = (seen.count(&name, "attempted"), since.elapsed());
    guard.unlock().await.expect("it was held");
    asked
}

/// On a machine that does other things, pauses get longer, not shorter; but so does the wait.
fn assert_between(ground: &Ground, attempts: (usize, Duration), fewest: usize, most: usize) {
    let (attempts, took) = attempts;
    let fewest = if ground.site() == Site::Virtual { fewest } else { 1 };
    let most = (most as f64 * took.as_secs_f64().max(1.0)) as usize;
    assert!((fewest..=most).contains(&attempts), "{attempts} attempts in {took:?}");
}

/// Redisson: LockOptionsTest: 10, 30, 90, 100, 100 … with jitter.
pub async fn pauses_grow_up_to_the_longest(ground: Ground) {
    let growing = Backoff::exponential(ms(10), ms(100), 3);
    assert_between(&ground, attempts(&ground, growing).await, 12, 15);
}

/// Redisson: LockOptionsTest: always 30.
pub async fn a_constant_pause_stays_the_same(ground: Ground) {
    let steady = Backoff::constant(ms(30));
    assert_between(&ground, attempts(&ground, steady).await, 31, 36);
}

/// Redisson's: 1 ms, doubled up to 128 ms.
pub async fn the_default_doubles_up_to_an_eighth_of_a_second(ground: Ground) {
    assert_between(&ground, attempts(&ground, Backoff::default()).await, 13, 17);
}

/// A waiter is late by a pause at most, and its first pauses are short.
pub async fn a_waiter_is_late_by_a_pause_at_most(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for held in [ms(5), ms(70), ms(400)] {
        let guard = here.spin(&name).lock().await.expect("it is free");
        let lock = elsewhere.spin(&name).backoff(Backoff::constant(ms(64)));
        let waiter =
            tokio::spawn(async move { lock.lock().await.map(|guard| (guard, Instant::now())) });
        tokio::time::sleep(held).await;
        guard.unlock().await.expect("it was held");
        let since = Instant::now();
        let (guard, got_in) = waiter.await.expect("no panic").expect("it gets free");
        let late = got_in.saturating_duration_since(since);
        assert!(late <= ms(64) + ground.slack(), "in after {late:?}");
        guard.unlock().await.expect("it was held");
    }
}

/// However many wait in one process, one of them asks.
pub async fn a_crowd_asks_as_often_as_one(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().observer(seen.clone());
    let here = builder.connect().await.expect("the store can be opened");
    let elsewhere = ground.open().await;
    let name = ground.name("k");
    let guard = elsewhere.spin(&name).lock().await.expect("it is free");
    let since = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..40 {
        let lock = here.spin(&name).backoff(Backoff::constant(ms(50)));
        tasks.spawn(async move { lock.lock().await.expect("it gets free").unlock().await });
    }
    tokio::time::sleep(ms(1000)).await;
    let asked = seen.count(&name, "attempted");
    let most = 5 + (20.0 * since.elapsed().as_secs_f64()).ceil() as usize;
    assert!(asked <= most, "{asked} attempts in {:?}", since.elapsed());
    guard.unlock().await.expect("it was held");
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic").expect("it was held");
    }
}
