//! From one local waiter to the next.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::{HOUR, ms, secs};
use crate::cancel::poll_once;
use crate::suites::times::STEADY;
use crate::suites::{Ground, Recorder, Section, eventually};

/// Those who wait in one process are served in the order in which they came.
pub async fn waiters_of_one_process_are_served_in_order(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let guard = mutex.lock().await.expect("it is free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let count = ground.crowd(90);
    for number in 0..count {
        let mut waiter = mutex.lock().into_future();
        poll_once(&mut waiter).await; // now it stands in the queue
        let order = order.clone();
        tasks.spawn(async move {
            let guard = waiter.await.expect("it gets free");
            order.lock().expect("no panic").push(number);
            guard.unlock().await.expect("it was held");
        });
    }
    guard.unlock().await.expect("it was held");
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(secs(30), all).await.expect("everybody gets in");
    let order = order.lock().expect("no panic").clone();
    assert_eq!(order, (0..count).collect::<Vec<_>>());
}

/// After a local hand-over, the store soon shows the owner who really is inside, with a life of its own.
pub async fn the_store_soon_shows_the_heir(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for _ in 0..5 {
        let guard = here.mutex(&name).lock().lease(secs(20)).await.expect("it is free");
        let mut waiter = here.mutex(&name).lock().lease(HOUR).into_future();
        poll_once(&mut waiter).await;
        let before = *guard.owner();
        guard.unlock().await.expect("it was held");
        let heir = waiter.await.expect("it gets free");
        assert_ne!(*heir.owner(), before);
        let shown = || async {
            let seen = elsewhere.mutex(&name).inspect().await.expect("the store answers");
            seen.depth_of(heir.stay()) == 1
                && seen.depth_of(&before) == 0
                && seen.ttl.is_some_and(|ttl| ttl > secs(3500))
        };
        eventually("the store shows the heir and its lease", shown).await;
        assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
        heir.unlock().await.expect("it was held");
        assert!(!elsewhere.mutex(&name).is_locked().await.expect("the store answers"));
    }
}

/// An heir that waited with a short lease gets the short lease, although its predecessor had a long one.
pub async fn an_heir_has_its_own_lease(ground: Ground) {
    let here = ground.open().await;
    let mutex = here.mutex(ground.name("k"));
    let guard = mutex.lock().lease(HOUR).await.expect("it is free");
    let mut waiter = mutex.lock().lease(ms(400)).into_future();
    poll_once(&mut waiter).await;
    guard.unlock().await.expect("it was held");
    let heir = waiter.await.expect("it gets free");
    assert!(heir.remaining() <= ms(400), "{:?}", heir.remaining());
    let lost = tokio::time::timeout(ms(400) + ground.slack(), heir.lost()).await;
    lost.expect("its lease ends");
    let free = || async { !mutex.is_locked().await.expect("the store answers") };
    eventually("the store lets it go as well", free).await;
}

/// An heir without a lease is kept by the watchdog, although its predecessor had a lease.
pub async fn an_heir_without_a_lease_is_renewed(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(STEADY).observer(seen.clone());
    let here = builder.connect().await.expect("the store can be opened");
    let name = ground.name("k");
    let mutex = here.mutex(&name);
    let guard = mutex.lock().lease(STEADY).await.expect("it is free");
    let mut waiter = mutex.lock().into_future();
    poll_once(&mut waiter).await;
    guard.unlock().await.expect("it was held");
    let heir = waiter.await.expect("it gets free");
    // For longer than a timeout.
    seen.renewed(&name, 4).await;
    assert!(!heir.is_lost());
    assert!(mutex.is_held_by(heir.owner()).await.expect("the store answers"));
    heir.unlock().await.expect("it was held");
}

/// One owner that waits twice gets in twice: the second time it re-enters.
pub async fn an_owner_that_waits_twice_gets_in_twice(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let me = here.owner();
    for holder in [&elsewhere, &here] {
        let guard = holder.mutex(&name).lock().await.expect("it is free");
        let mut first = here.mutex(&name).lock().owner(&me).into_future();
        let mut second = here.mutex(&name).lock().owner(&me).into_future();
        poll_once(&mut first).await;
        poll_once(&mut second).await;
        let both = tokio::spawn(async move { tokio::join!(first, second) });
        tokio::time::sleep(ms(20)).await;
        assert!(!both.is_finished());
        guard.unlock().await.expect("it was held");
        let both = tokio::time::timeout(secs(10), both).await.expect("both get in");
        let (first, second) = both.expect("no panic");
        let (first, second) = (first.expect("it gets free"), second.expect("it re-enters"));
        assert_eq!(here.mutex(&name).hold_count(&me).await.expect("the store answers"), 2);
        first.unlock().await.expect("it was held");
        assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
        second.unlock().await.expect("it was held");
    }
}

/// A waiter that leaves in the moment it is served passes the lock on to the next.
pub async fn a_waiter_that_leaves_passes_the_lock_on(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let section = Section::new();
    for _ in 0..ground.crowd(30) {
        let guard = mutex.lock().await.expect("it is free");
        let mut leaver = mutex.lock().into_future();
        let mut stayer = mutex.lock().into_future();
        poll_once(&mut leaver).await;
        poll_once(&mut stayer).await;
        let leaving = tokio::spawn(async move { drop(leaver) });
        guard.unlock().await.expect("it was held");
        let served = tokio::time::timeout(secs(10), stayer).await.expect("the next one is served");
        let served = served.expect("it gets free");
        section.visit().await;
        served.unlock().await.expect("it was held");
        leaving.await.expect("no panic");
    }
}
