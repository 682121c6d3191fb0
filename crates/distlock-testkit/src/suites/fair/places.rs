//! Keeping a place in the queue, and giving it up.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::ErrorKind;
use tokio::time::{Instant, sleep, timeout};

use super::line::{Waiter, only_these_wait, waiting};
use crate::cancel::{Cut, poll_times};
use crate::suites::Ground;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const HOUR: Duration = Duration::from_secs(3600);

/// R#2278, R#3004: whoever lives keeps its place, however long it waits; its patience is for those who are not heard of.
pub async fn a_waiter_keeps_its_place_for_longer_than_its_patience(ground: Ground) {
    let builder = || ground.builder().fair_patience(ms(600));
    let here = builder().connect().await.expect("the store can be opened");
    let elsewhere = builder().connect().await.expect("the store can be opened");
    let name = ground.name("k");
    let guard = here.fair(&name).lock().lease(HOUR).await.expect("it is free");
    let mut line = vec![
        Waiter::join(&elsewhere, &name).await,
        Waiter::join(&here, &name).await,
        Waiter::join(&elsewhere, &name).await,
    ];
    for _ in 0..10 {
        sleep(ms(250)).await;
        // Every step drops those whose time is over.
        assert!(here.fair(&name).try_lock().await.expect("the store answers").is_none());
    }
    line.push(Waiter::join(&here, &name).await);
    let owners: Vec<_> = line.iter().map(|waiter| waiter.owner).collect();
    only_these_wait(&here, &name, &owners).await;
    guard.unlock().await.expect("it was held");
    for waiter in line {
        waiter.enters().await.unlock().await.expect("it was held");
    }
}

/// Redisson: testTryLockNonDelayed. Whoever ran out of time does not stand in the way of the next.
pub async fn a_wait_that_ran_out_delays_nobody(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for waiting in [&here, &elsewhere] {
        let guard = here.fair(&name).lock().lease(HOUR).await.expect("it is free");
        let none = waiting.fair(&name).try_lock().wait(ms(100)).await;
        assert!(none.expect("the store answers").is_none());
        let error = waiting.fair(&name).lock().wait(ms(50)).await.expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::WaitTimeout);
        guard.unlock().await.expect("it was held");
        // It may take a moment until the store has heard that the place is given up; but no longer.
        let since = ground.stopwatch();
        let next = elsewhere.fair(&name).lock().await.expect("it is free");
        let took = since.elapsed();
        assert!(took < ground.slack().min(ms(900)), "in after {took:?}");
        next.unlock().await.expect("it was held");
        let free = here.fair(&name).try_lock().await.expect("the store answers");
        free.expect("it is free").unlock().await.expect("it was held");
    }
}

/// R#5019, R#7223: whoever leaves, by its own will or because its time is over, leaves no place behind, and those behind it
/// move up.
pub async fn whoever_leaves_leaves_no_place_behind(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = here.fair(&name).lock().lease(HOUR).await.expect("it is free");
    let a = Waiter::join(&here, &name).await;
    let b = Waiter::join(&elsewhere, &name).await;
    let c = Waiter::join(&here, &name).await;
    let timed = elsewhere.fair(&name);
    let timed = tokio::spawn(timed.try_lock().wait(ms(5000)).into_future());
    let four = || async { waiting(&here, &name).await.len() == 4 };
    crate::suites::eventually("all wait", four).await;

    b.leaves();
    assert!(timed.await.expect("no panic").expect("the store answers").is_none());
    only_these_wait(&here, &name, &[a.owner, c.owner]).await;
    a.leaves();
    only_these_wait(&here, &name, &[c.owner]).await;
    let since = Instant::now();
    guard.unlock().await.expect("it was held");
    c.enters().await.unlock().await.expect("it was held");
    let took = since.elapsed();
    assert!(took < ground.slack(), "in after {took:?}");
    only_these_wait(&here, &name, &[]).await;
}

/// Whoever is called and leaves at that moment passes the call on.
pub async fn a_call_that_nobody_used_is_passed_on(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for round in 0..20 {
        let guard = here.fair(&name).lock().lease(HOUR).await.expect("it is free");
        let fickle = Waiter::join([&here, &elsewhere][round % 2], &name).await;
        let next = Waiter::join(&here, &name).await;
        let since = ground.stopwatch();
        let unlocking = tokio::spawn(guard.unlock());
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        fickle.leaves();
        unlocking.await.expect("no panic").expect("it was held");
        let next = next.enters().await;
        let took = since.elapsed();
        assert!(took < ground.slack().min(ms(900)), "round {round}: in after {took:?}");
        next.unlock().await.expect("it was held");
    }
}

/// Dropped at any poll, at any place in the line, a request leaves no place behind, and nobody behind it waits for it.
pub async fn a_request_dropped_at_any_poll_leaves_no_place(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for ahead in [false, true] {
        for polls in 0..60 {
            let guard = elsewhere.fair(&name).lock().lease(HOUR).await.expect("it is free");
            let before = match ahead {
                true => Some(Waiter::join(&elsewhere, &name).await),
                false => None,
            };
            let request = here.fair(&name).lock().lease(HOUR).into_future();
            let cut = poll_times(request, polls).await;
            assert!(!matches!(cut, Cut::Done(_)), "two are inside");
            let owners: Vec<_> = before.iter().map(|waiter| waiter.owner).collect();
            let next = elsewhere.fair(&name);
            let next = tokio::spawn(next.lock().lease(HOUR).into_future());
            guard.unlock().await.expect("it was held");
            if let Some(before) = before {
                assert_eq!(owners, [before.owner]);
                before.enters().await.unlock().await.expect("it was held");
            }
            let since = ground.stopwatch();
            let next = timeout(Duration::from_secs(20), next).await.expect("it gets free");
            next.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
            let took = since.elapsed();
            assert!(took < ground.slack().min(ms(900)), "after {polls} polls: in after {took:?}");
            only_these_wait(&here, &name, &[]).await;
            if matches!(cut, Cut::Asleep) {
                assert!(polls > 0, "nothing was swept");
                break;
            }
        }
    }
}

/// Closing ends every wait, and leaves no place behind.
pub async fn closing_ends_every_wait(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = elsewhere.fair(&name).lock().lease(HOUR).await.expect("it is free");
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(tokio::spawn(here.fair(&name).lock().into_future()));
    }
    let five = || async { waiting(&elsewhere, &name).await.len() == 5 };
    crate::suites::eventually("all wait", five).await;
    here.close().await;
    for wait in waits {
        let error = wait.await.expect("no panic").expect_err("it is closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    only_these_wait(&elsewhere, &name, &[]).await;
    guard.unlock().await.expect("it was held");
}
