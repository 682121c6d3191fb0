//! Who gets in before whom.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::line::{Waiter, only_these_wait, waiting};
use crate::suites::{Ground, Section, eventually};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Redisson: testConcurrency_MultiInstance_Ordering. Among waiters of one process as among those of many.
pub async fn waiters_get_in_in_the_order_in_which_they_came(ground: Ground) {
    for round in 0..5 {
        let watch = ground.stopwatch();
        if get_in_in_order(&ground, &ground.name(&format!("k{round}"))).await {
            return;
        }
        // Whoever does not come within a second of its turn is passed over, if it cannot be called.
        assert!(watch.stalled() > ms(500), "somebody was passed over");
    }
    panic!("somebody was passed over every time");
}

async fn get_in_in_order(ground: &Ground, name: &str) -> bool {
    let (one, other) = (ground.open().await, ground.open().await);
    let first = one.fair(name).lock().await.expect("it is free");
    let mut line = VecDeque::new();
    for index in 0..16 {
        let apart = ground.open().await;
        let locks = [&one, &one, &other, &apart][index % 4];
        line.push_back(Waiter::join(locks, name).await);
    }
    let owners: Vec<_> = line.iter().map(|waiter| waiter.owner).collect();
    only_these_wait(&one, name, &owners).await;
    first.unlock().await.expect("it was held");
    let section = Section::new();
    while !line.is_empty() {
        eventually("somebody gets in", || async { line.iter().any(Waiter::is_in) }).await;
        let next = line.pop_front().expect("not empty");
        if !next.is_in() {
            for waiter in line.into_iter().chain([next]) {
                waiter.leaves();
            }
            return false;
        }
        let guard = next.enters().await;
        section.visit().await;
        guard.unlock().await.expect("it was held");
    }
    true
}

/// Redisson: testMultipleLocks.
pub async fn five_hundred_waiters_keep_their_order(ground: Ground) {
    let mut processes = Vec::new();
    for _ in 0..5 {
        processes.push(ground.open().await);
    }
    let name = ground.name("k");
    let first = processes[0].fair(&name).lock().await.expect("it is free");
    let mut line = Vec::new();
    for index in 0..500 {
        line.push(Waiter::join(&processes[index % 5], &name).await);
    }
    first.unlock().await.expect("it was held");
    for (index, waiter) in line.into_iter().enumerate() {
        let guard = waiter.enters().await;
        if index % 100 == 99 {
            let left = waiting(&processes[0], &name).await.len();
            assert_eq!(left, 499 - index);
        }
        match index % 2 {
            0 => drop(guard),
            _ => guard.unlock().await.expect("it was held"),
        }
    }
}

/// Redisson: testLeaseTimeout. Eight who come one after the other, none of whom lets go before its lease ends.
pub async fn whoever_waits_gets_in_as_each_lease_ends(ground: Ground) {
    // The first is inside until all stand in line, on a machine that stands still for seconds too.
    let (first, lease) = (ms(4000), ms(300));
    let locks = ground.open().await;
    let name = ground.name("k");
    let start = Instant::now();
    locks.fair(&name).lock().lease(first).await.expect("it is free").leak();
    let mut line = Vec::new();
    for index in 0..8 {
        let elsewhere = ground.open().await;
        let locks = [&locks, &elsewhere][index % 2];
        line.push(Waiter::join_with(locks, &name, lease).await);
    }
    for (index, waiter) in (1..).zip(line) {
        waiter.enters().await.leak();
        let (took, least) = (start.elapsed(), first + lease * (index - 1));
        // The holder's word for its lease and the store's may differ by the clocks' milliseconds.
        assert!(took + ms(5) * index >= least, "the {index}. is in after {took:?}");
        assert!(took < least + ms(5) * index + ground.slack(), "the {index}. after {took:?}");
    }
    sleep(lease).await;
}

/// A single try takes no place, and gets nothing while others are in line.
pub async fn a_single_try_overtakes_nobody(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    // Rounds in which the machine stood still do not count.
    let (mut rounds, mut good) = (0..50, 0);
    while good < 10 {
        let round = rounds.next().expect("a machine that does not stand still all the time");
        let watch = ground.stopwatch();
        let guard = here.fair(&name).lock().await.expect("it is free");
        let waiter = Waiter::join([&here, &elsewhere][round % 2], &name).await;
        assert!(here.fair(&name).try_lock().await.expect("the store answers").is_none());
        only_these_wait(&here, &name, &[waiter.owner]).await;
        guard.unlock().await.expect("it was held");
        let mut nobody = true;
        for locks in [&elsewhere, &here] {
            let jumped = locks.fair(&name).try_lock().await.expect("the store answers");
            if let Some(jumped) = jumped {
                // Whoever does not come within a second of its turn is passed over, if it cannot be called.
                assert!(watch.stalled() > ms(500), "round {round}");
                jumped.unlock().await.expect("it was held");
                nobody = false;
            }
        }
        good += usize::from(nobody);
        waiter.enters().await.unlock().await.expect("it was held");
    }
}

/// A hold is entered again whoever waits for it, and takes no place for that.
pub async fn re_entry_does_not_wait_in_line(ground: Ground) {
    let locks = ground.open().await;
    let (name, me) = (ground.name("k"), locks.owner());
    let outer = locks.fair(&name).lock().owner(&me).await.expect("it is free");
    let waiter = Waiter::join(&locks, &name).await;
    let inner = locks.fair(&name).lock().owner(&me).await.expect("it is its own");
    assert_eq!(locks.fair(&name).hold_count(&me).await.expect("the store answers"), 2);
    only_these_wait(&locks, &name, &[waiter.owner]).await;
    inner.unlock().await.expect("it was held");
    assert!(!waiter.is_in());
    outer.unlock().await.expect("it was held");
    waiter.enters().await.unlock().await.expect("it was held");
}

/// What is freed by force goes to the first in line, and the others keep their places.
pub async fn force_lets_the_first_in_line_in(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let lost = here.fair(&name).lock().await.expect("it is free");
    let first = Waiter::join(&elsewhere, &name).await;
    let second = Waiter::join(&here, &name).await;
    let since = Instant::now();
    assert!(elsewhere.fair(&name).force_unlock().await.expect("the store answers"));
    let guard = first.enters().await;
    let took = since.elapsed();
    assert!(took < ground.slack(), "in after {took:?}");
    only_these_wait(&here, &name, &[second.owner]).await;
    lost.unlock().await.expect_err("it was taken away");
    guard.unlock().await.expect("it was held");
    second.enters().await.unlock().await.expect("it was held");
}

/// A mutex of the same name excludes, in either direction.
pub async fn a_mutex_of_the_same_name_excludes(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let fair = here.fair(&name).lock().await.expect("it is free");
    assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
    fair.unlock().await.expect("it was held");
    let mutex = elsewhere.mutex(&name).lock().await.expect("it is free");
    assert!(here.fair(&name).try_lock().await.expect("the store answers").is_none());
    mutex.unlock().await.expect("it was held");
}
