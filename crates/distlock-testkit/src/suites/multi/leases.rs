//! How long all of them last.

use std::future::IntoFuture;
use std::sync::Arc;

use distlock::State;
use tokio::time::{Instant, timeout};

use super::{Field, HOUR, ms, secs};
use crate::suites::eventually;
use crate::suites::times::STEADY;

/// A lease is every member's: at its end the guard is lost, before anybody else gets in, and all are free.
pub async fn a_lease_ends_for_all(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let guard = Arc::new(here.all().lock().lease(ms(400)).await.expect("all are free"));
    let (waiting, before) = (elsewhere.all().lock().into_future(), guard.clone());
    let waiter = tokio::spawn(async move {
        let next = waiting.await.expect("all are free");
        assert!(before.is_lost(), "somebody came in before the holder knew");
        next
    });
    timeout(ms(400) + field.slack(), guard.lost()).await.expect("the lease ends");
    assert_eq!(guard.state(), State::Lost);
    assert_eq!(guard.remaining(), ms(0));
    let next = timeout(secs(1) + field.slack(), waiter).await.expect("all are free");
    let next = next.expect("no panic");
    let guard = Arc::into_inner(guard).expect("the waiter is done with it");
    assert!(guard.unlock().await.is_err(), "a lost lock was unlocked");
    assert!(!next.is_lost());
    next.unlock().await.expect("all were held");
}

/// Redisson: testRenewExpiration (FasterMultiLock): without a lease the watchdog keeps every member.
pub async fn the_watchdog_keeps_all(field: Field) {
    let (here, elsewhere) = (field.process_with_watchdog(STEADY).await, field.process().await);
    let guard = here.all().lock().await.expect("all are free");
    let since = Instant::now();
    // For longer than the watchdog's timeout.
    while since.elapsed() < STEADY * 7 / 6 {
        assert_eq!(elsewhere.held().await, vec![true; field.size()], "after {:?}", since.elapsed());
        assert!(!guard.is_lost());
        tokio::time::sleep(ms(100)).await;
    }
    guard.unlock().await.expect("all were held");
}

/// A lease switches the watchdog off for all.
pub async fn a_lease_switches_the_watchdog_off(field: Field) {
    let here = field.process_with_watchdog(secs(1)).await;
    let guard = here.all().lock().lease(ms(500)).await.expect("all are free");
    timeout(ms(500) + field.slack(), guard.lost()).await.expect("the lease ends");
    let free = || async { here.held().await == vec![false; field.size()] };
    eventually("all are free at the end of the lease", free).await;
}

/// An extension is every member's, and never shortens.
pub async fn extending_lengthens_all(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let guard = here.all().lock().lease(secs(20)).await.expect("all are free");
    assert!(guard.remaining() <= secs(20) && guard.remaining() > secs(10));
    guard.extend(HOUR).await.expect("all are held");
    guard.extend(secs(1)).await.expect("all are held");
    for at in 0..field.size() {
        let left = elsewhere.member(at).ttl().await.expect("the store answers");
        assert!(left.expect("it is held") > HOUR / 2, "member {at}");
    }
    assert!(guard.remaining() > HOUR / 2);
    guard.unlock().await.expect("all were held");
}

/// What is leaked stays, unrenewed, until somebody frees it.
pub async fn a_leaked_guard_leaves_all_of_them_locked(field: Field) {
    let here = field.process().await;
    let owner = here.all().lock().await.expect("all are free").leak();
    assert_eq!(here.held().await, vec![true; field.size()]);
    for at in 0..field.size() {
        here.member(at).unlock(&owner).await.expect("it is the leaked one's");
    }
    assert_eq!(here.held().await, vec![false; field.size()]);
}
