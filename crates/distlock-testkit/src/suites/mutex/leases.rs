//! How long a hold lasts.

use std::time::Duration;

use distlock::ErrorKind;
use tokio::time::Instant;

use super::{HOUR, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, Recorder, eventually};

/// Redisson: testExpire.
pub async fn a_waiter_gets_in_when_the_lease_ends(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for waiting in [&elsewhere, &here] {
        let since = Instant::now();
        let first = here.mutex(&name).lock().lease(ms(600)).await.expect("it is free");
        let next = waiting.mutex(&name).lock().wait(secs(20)).await.expect("the lease ends");
        let took = since.elapsed();
        assert!(first.is_lost(), "two are inside");
        assert!(took >= ms(598) && took < ms(600) + ground.slack(), "in after {took:?}");
        let late = first.unlock().await.expect_err("its lease is over");
        assert_eq!(late.kind(), ErrorKind::Lost);
        let owner = *next.owner();
        assert!(here.mutex(&name).is_held_by(&owner).await.expect("the store answers"));
        assert!(!next.is_lost());
        next.unlock().await.expect("it was held");
    }
}

/// A holder stops believing before the store lets anybody else in.
pub async fn a_holder_learns_of_the_end_before_anybody_gets_in(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for _ in 0..3 {
        let first = here.mutex(&name).lock().lease(ms(250)).await.expect("it is free");
        loop {
            if let Some(next) = elsewhere.mutex(&name).try_lock().await.expect("the store answers")
            {
                assert!(first.is_lost(), "two are inside");
                next.unlock().await.expect("it was held");
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
        drop(first);
    }
}

/// A holder believes in less than it was given: clocks differ in rate, and timers are late.
pub async fn a_holder_believes_in_less_than_its_lease(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let lease = secs(100);
    let guard = here.mutex(&name).lock().lease(lease).await.expect("it is free");
    let margin = lease / 100 + ms(2);
    assert!(guard.remaining() <= lease - margin, "{:?}", guard.remaining());
    guard.extend(lease * 2).await.expect("it is held");
    let (believed, kept) = (guard.remaining(), elsewhere.mutex(&name).ttl().await);
    assert!(believed <= lease * 2 - margin * 2 + ms(2), "{believed:?}");
    assert!(kept.expect("the store answers").expect("it is held") > believed - ground.slack());
    guard.unlock().await.expect("it was held");
}

/// Redisson: testAutoExpire: a hold that nobody keeps alive is gone within the watchdog's timeout.
pub async fn what_nobody_renews_is_free_after_the_watchdogs_timeout(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(ms(800)).await, ground.open().await);
    let name = ground.name("k");
    let since = Instant::now();
    here.mutex(&name).lock().await.expect("it is free").leak();
    let next = elsewhere.mutex(&name).lock().wait(secs(20)).await.expect("nobody renews it");
    let took = since.elapsed();
    assert!(took >= ms(798) && took < ms(800) + ground.slack(), "in after {took:?}");
    next.unlock().await.expect("it was held");
}

/// Without a lease the watchdog keeps the lock for as long as the guard lives.
pub async fn the_watchdog_keeps_a_lock_without_a_lease(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(STEADY).observer(seen.clone());
    let locks = builder.connect().await.expect("the store can be opened");
    let elsewhere = ground.open().await;
    let name = ground.name("k");
    let since = Instant::now();
    let guard = locks.mutex(&name).lock().await.expect("it is free");
    while seen.count(&name, "renewed") < 4 {
        assert!(since.elapsed() < STEADY * 4 / 3 + 2 * ground.slack(), "nobody renews it");
        assert!(!guard.is_lost());
        assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
        let ttl: Duration =
            elsewhere.mutex(&name).ttl().await.expect("the store answers").expect("it is held");
        assert!(ttl <= STEADY, "{ttl:?}");
        tokio::time::sleep(ms(50)).await;
    }
    let took = since.elapsed();
    assert!(took > STEADY, "four renewals in {took:?}, no longer than a timeout");
    guard.unlock().await.expect("it was held");
}

/// After a release nothing is renewed, and nothing was made anew by a renewal.
pub async fn nothing_is_renewed_after_a_release(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(ms(100)).observer(seen.clone());
    let locks = builder.connect().await.expect("the store can be opened");
    let name = ground.name("k");
    for round in 0..20 {
        let guard = locks.mutex(&name).lock().await.expect("it is free");
        // Released around the moment of the first renewal.
        tokio::time::sleep(ms(24 + round % 20)).await;
        let locked = async || locks.mutex(&name).is_locked().await.expect("the store answers");
        match guard.unlock().await {
            Ok(()) => assert!(!locked().await),
            // On a machine that stands still for long enough even a watchdog is late; the store may be later.
            Err(_) => eventually("its lease ends", || async { !locked().await }).await,
        }
    }
    let renewed = seen.count(&name, "renewed");
    tokio::time::sleep(ms(250)).await;
    assert_eq!(seen.count(&name, "renewed"), renewed);
    assert!(!locks.mutex(&name).is_locked().await.expect("the store answers"));
}

/// A lease is what it says: the watchdog has no part in it.
pub async fn a_lease_switches_the_watchdog_off(ground: Ground) {
    // A reply may take a third of the watchdog's timeout: one that comes later is asked for again, which is one more attempt.
    let (watchdog, lease) = (secs(3), secs(4));
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(watchdog).observer(seen.clone());
    let locks = builder.connect().await.expect("the store can be opened");
    let name = ground.name("k");
    let since = Instant::now();
    let guard = locks.mutex(&name).lock().lease(lease).await.expect("it is free");
    guard.lost().await;
    let took = since.elapsed();
    assert!(took >= lease * 9 / 10 && took < lease + ground.slack(), "lost after {took:?}");
    let told = || async { seen.words(&name) == ["attempted", "acquired", "lost"] };
    eventually("observers are told of the loss, and of nothing else", told).await;
    assert_eq!(seen.count(&name, "renewed"), 0);
    let free = || async { !locks.mutex(&name).is_locked().await.expect("the store answers") };
    eventually("the store lets it go as well", free).await;
}

/// Redisson: testRemainTimeToLive.
pub async fn the_time_to_live_is_told(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(secs(40)).await, ground.open().await);
    let name = ground.name("k");
    let between = |ttl: Option<Duration>, most: Duration| {
        let ttl = ttl.expect("it is held");
        assert!(ttl <= most && ttl > most - ground.slack(), "{ttl:?}");
    };
    assert_eq!(here.mutex(&name).ttl().await.expect("the store answers"), None);
    let guard = here.mutex(&name).lock().lease(HOUR).await.expect("it is free");
    between(here.mutex(&name).ttl().await.expect("the store answers"), HOUR);
    between(elsewhere.mutex(&name).ttl().await.expect("the store answers"), HOUR);
    assert!(guard.remaining() <= HOUR && guard.remaining() > HOUR - secs(60));
    guard.unlock().await.expect("it was held");
    assert_eq!(elsewhere.mutex(&name).ttl().await.expect("the store answers"), None);
    let guard = here.mutex(&name).lock().await.expect("it is free");
    between(elsewhere.mutex(&name).ttl().await.expect("the store answers"), secs(40));
    guard.unlock().await.expect("it was held");
}

/// Extending lengthens.
pub async fn extending_lengthens_and_never_shortens(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let guard = mutex.lock().lease(secs(5)).await.expect("it is free");
    guard.extend(HOUR).await.expect("it is held");
    let nearly = HOUR - secs(60);
    assert!(mutex.ttl().await.expect("the store answers").expect("it is held") > nearly);
    assert!(guard.remaining() > nearly);
    guard.extend(ms(1)).await.expect("it is held");
    assert!(mutex.ttl().await.expect("the store answers").expect("it is held") > nearly);
    assert!(guard.remaining() > nearly);
    let bad = guard.extend(Duration::ZERO).await.expect_err("zero is no lease");
    assert_eq!(bad.kind(), ErrorKind::InvalidDuration);
    assert_eq!(bad.lock_name(), Some(mutex.name()));
    guard.unlock().await.expect("it was held");
}

/// Extending does not bring back what is lost, and does not touch the next holder.
pub async fn extending_after_the_end_says_lost(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = here.mutex(&name).lock().lease(ms(100)).await.expect("it is free");
    guard.lost().await;
    assert_eq!(guard.extend(HOUR).await.expect_err("it is lost").kind(), ErrorKind::Lost);
    let next = elsewhere.mutex(&name).lock().lease(secs(60)).await.expect("it gets free");
    assert_eq!(guard.extend(HOUR).await.expect_err("it is lost").kind(), ErrorKind::Lost);
    let seen = elsewhere.mutex(&name).inspect().await.expect("the store answers");
    assert_eq!(seen.depth_of(next.stay()), 1);
    assert!(seen.ttl.expect("it is held") <= secs(60));
    assert_eq!(guard.remaining(), Duration::ZERO);
    next.unlock().await.expect("it was held");
}

/// A leaked lock stays, unrenewed, until its lease ends or its owner is used to free it.
pub async fn a_leaked_lock_stays_until_somebody_frees_it(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(secs(60)).await, ground.open().await);
    let name = ground.name("k");
    let owner = here.mutex(&name).lock().await.expect("it is free").leak();
    assert!(elsewhere.mutex(&name).is_held_by(&owner).await.expect("the store answers"));
    assert!(here.mutex(&name).try_lock().await.expect("the store answers").is_none());
    // Anybody who knows the owner, not only the process that leaked it.
    elsewhere.mutex(&name).unlock(&owner).await.expect("that owner holds it");
    let again = elsewhere.mutex(&name).unlock(&owner).await.expect_err("it is free");
    assert_eq!(again.kind(), ErrorKind::NotHeld);
    assert!(here.mutex(&name).try_lock().await.expect("the store answers").is_some());
}
