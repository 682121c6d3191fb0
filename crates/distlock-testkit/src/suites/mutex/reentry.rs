//! The same owner again.

use std::time::Duration;

use distlock::{Locks, Owner};

use super::{HOUR, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, Recorder, eventually};

/// Redisson: testReentrancy.
pub async fn the_same_owner_enters_again(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let mutex = here.mutex(&name);
    let me = here.owner();
    let outer = mutex.try_lock().owner(&me).await.expect("the store answers").expect("it is free");
    let inner = mutex.try_lock().owner(&me).await.expect("the store answers").expect("it is mine");
    assert_eq!((outer.owner(), inner.owner()), (&me, &me));
    inner.unlock().await.expect("it was held");
    assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
    assert!(mutex.try_lock().await.expect("the store answers").is_none(), "another owner here");
    outer.unlock().await.expect("it was held");
    assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_some());
}

/// Redisson: testGetHoldCount: 0, 1, 2, 1, 0.
pub async fn holds_are_counted(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let (me, other) = (here.owner(), here.owner());
    // By the owner's name in its own process, by the id of its stay in every other.
    let count = async |stay: &Owner, expected: u32| {
        for (locks, who) in [(&here, &me), (&elsewhere, stay)] {
            let mutex = locks.mutex(&name);
            assert_eq!(mutex.hold_count(who).await.expect("the store answers"), expected);
            assert_eq!(mutex.hold_count(&other).await.expect("the store answers"), 0);
        }
    };
    count(&me, 0).await;
    let outer = here.mutex(&name).lock().owner(&me).await.expect("it is free");
    let stay = *outer.stay();
    count(&stay, 1).await;
    let inner = here.mutex(&name).lock().owner(outer.owner()).await.expect("it is mine");
    assert_eq!(*inner.stay(), stay);
    count(&stay, 2).await;
    inner.unlock().await.expect("it was held");
    count(&stay, 1).await;
    outer.unlock().await.expect("it was held");
    count(&stay, 0).await;
}

/// Guards of one owner may go in any order, dropped or unlocked; the last one frees the lock.
pub async fn guards_of_one_owner_go_in_any_order(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let mutex = here.mutex(&name);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for unlocked in [0, 1, 3, 7, 4] {
            let me = here.owner();
            let mut guards = Vec::new();
            for _ in 0..3 {
                guards.push(Some(mutex.lock().owner(&me).await.expect("it is mine")));
            }
            for (gone, at) in order.into_iter().enumerate() {
                assert_eq!(
                    mutex.hold_count(&me).await.expect("the store answers"),
                    3 - gone as u32
                );
                let refused = elsewhere.mutex(&name).try_lock().await.expect("the store answers");
                assert!(refused.is_none(), "{order:?}: in after {gone} of 3 went");
                let guard = guards[at].take().expect("each goes once");
                match unlocked >> at & 1 {
                    0 => drop(guard),
                    _ => guard.unlock().await.expect("it was held"),
                }
            }
            assert_eq!(mutex.hold_count(&me).await.expect("the store answers"), 0);
        }
    }
}

/// A short lease inside a long one leaves the long one as it is.
pub async fn a_reentry_never_shortens_the_outer_hold(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let me = locks.owner();
    let outer = mutex.lock().owner(&me).lease(HOUR).await.expect("it is free");
    let inner = mutex.lock().owner(&me).lease(ms(100)).await.expect("it is mine");
    let nearly = HOUR - secs(60);
    assert!(mutex.ttl().await.expect("the store answers").expect("it is held") > nearly);
    assert!(inner.remaining() > nearly && outer.remaining() > nearly);
    tokio::time::sleep(ms(250)).await;
    assert!(!inner.is_lost() && !outer.is_lost());
    inner.unlock().await.expect("it was held");
    assert!(mutex.ttl().await.expect("the store answers").expect("it is held") > nearly);
    outer.unlock().await.expect("it was held");
}

/// A long lease inside a short one lasts, also when the outer guard goes first.
pub async fn a_longer_inner_lease_outlives_the_outer_guard(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    for outer_first in [true, false] {
        let me = locks.owner();
        let outer = mutex.lock().owner(&me).lease(secs(3)).await.expect("it is free");
        let inner = mutex.lock().owner(&me).lease(HOUR).await.expect("it is mine");
        let (first, second) = if outer_first { (outer, inner) } else { (inner, outer) };
        first.unlock().await.expect("it was held");
        tokio::time::sleep(secs(3) + ms(200)).await;
        assert!(!second.is_lost(), "outer first: {outer_first}");
        assert_eq!(mutex.hold_count(&me).await.expect("the store answers"), 1);
        second.unlock().await.expect("it was held");
    }
}

/// The watchdog works for as long as one guard wants it, and not longer.
pub async fn the_watchdog_stays_for_the_guards_that_want_it(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(STEADY).observer(seen.clone());
    let locks = builder.connect().await.expect("the store can be opened");
    let name = ground.name("k");
    let mutex = locks.mutex(&name);
    let me = locks.owner();
    let leased = mutex.lock().owner(&me).lease(STEADY).await.expect("it is free");
    let watched = mutex.lock().owner(&me).await.expect("it is mine");
    // For longer than a timeout.
    seen.renewed(&name, 4).await;
    assert!(!leased.is_lost() && !watched.is_lost(), "one of two guards wants the watchdog");
    watched.unlock().await.expect("it was held");
    let so_far = seen.count(&name, "renewed");
    let lost = tokio::time::timeout(STEADY + ground.slack(), leased.lost()).await;
    lost.expect("nobody renews it any more");
    // One may have been on its way.
    assert!(seen.count(&name, "renewed") <= so_far + 1);
    let error = leased.unlock().await.expect_err("it was lost");
    assert_eq!(error.kind(), distlock::ErrorKind::Lost);
}

/// Redisson: testRemainTimeToLive2: three 10 s holds, two unlocks, and the time to live is what it was.
pub async fn an_inner_unlock_leaves_the_time_to_live(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let me = locks.owner();
    let lock = || async { mutex.lock().owner(&me).lease(secs(10)).await.expect("it is mine") };
    let (_one, two, three) = (lock().await, lock().await, lock().await);
    three.unlock().await.expect("it was held");
    two.unlock().await.expect("it was held");
    let ttl: Duration = mutex.ttl().await.expect("the store answers").expect("it is held");
    assert!(ttl > secs(10) - ground.slack() && ttl <= secs(10), "{ttl:?}");
}

async fn nested(locks: &Locks, name: &str, depth: u32) {
    let guard = locks.mutex(name).lock().wait(secs(5)).await.expect("a scope re-enters");
    if depth > 1 {
        Box::pin(nested(locks, name, depth - 1)).await;
    }
    assert!(locks.mutex(name).hold_count(guard.owner()).await.expect("the store answers") > 0);
    guard.unlock().await.expect("it was held");
}

/// A scope is one owner through all the functions it calls; another scope is another.
pub async fn a_scope_re_enters_through_nested_functions(ground: Ground) {
    let locks = ground.open().await;
    let name = ground.name("k");
    Owner::scope(nested(&locks, &name, 4)).await;
    assert!(!locks.mutex(&name).is_locked().await.expect("the store answers"));

    let try_it = || async { locks.mutex(&name).try_lock().await.expect("the store answers") };
    Owner::scope(async {
        let _mine = try_it().await.expect("it is free");
        assert!(Owner::scope(try_it()).await.is_none(), "a scope inside is another owner");
        assert!(try_it().await.is_some());
        let stranger =
            tokio::spawn(locks.mutex(&name).try_lock().owner(&locks.owner()).into_future());
        assert!(stranger.await.expect("no panic").expect("the store answers").is_none());
        let outside = tokio::spawn({
            let mutex = locks.mutex(&name);
            async move { mutex.try_lock().await.expect("the store answers").is_none() }
        });
        assert!(outside.await.expect("no panic"), "a spawned task is outside the scope");
    })
    .await;
    let free = || async { !locks.mutex(&name).is_locked().await.expect("the store answers") };
    eventually("everything is released", free).await;
}

/// What was lost is begun anew, not counted on.
pub async fn an_owner_that_lost_it_begins_anew(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let me = locks.owner();
    let stale = mutex.lock().owner(&me).lease(ms(100)).await.expect("it is free");
    stale.lost().await;
    let fresh = mutex.lock().owner(&me).lease(HOUR).await.expect("its lease is over");
    assert_eq!(mutex.hold_count(&me).await.expect("the store answers"), 1);
    assert!(stale.is_lost() && !fresh.is_lost());
    let error = stale.unlock().await.expect_err("it was lost");
    assert_eq!(error.kind(), distlock::ErrorKind::Lost);
    assert_eq!(
        mutex.hold_count(&me).await.expect("the store answers"),
        1,
        "the late unlock did nothing"
    );
    assert!(!fresh.is_lost());
    fresh.unlock().await.expect("it was held");
}
