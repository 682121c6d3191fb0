//! From writing to reading.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use distlock::ErrorKind;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{HOUR, may_read, may_write, ms, secs};
use crate::cancel::poll_once;
use crate::suites::times::STEADY;
use crate::suites::{Ground, Recorder};

/// A writer that reads on is a reader like any other.
pub async fn a_writer_that_reads_on_lets_readers_in_and_no_writer(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let writing = mine.write().await.expect("it is free");
    let owner = *writing.owner();
    let reading = writing.downgrade().await.expect("it is held");
    assert_eq!(*reading.owner(), owner);
    assert_eq!(theirs.read_hold_count(&owner).await.expect("the store answers"), 1);
    assert_eq!(theirs.write_hold_count(&owner).await.expect("the store answers"), 0);
    assert!(may_read(&theirs).await && may_read(&mine).await);
    assert!(!may_write(&theirs).await && !may_write(&mine).await);
    reading.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await);
}

/// Redisson tells nobody, so its readers sleep until the lease that they saw would have ended.
pub async fn readers_that_wait_come_in_at_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let writing = here.rw(&name).write().await.expect("it is free");
    let mut readers = JoinSet::new();
    for number in 0..10 {
        let locks = if number % 2 == 0 { &here } else { &elsewhere };
        let mut reader = locks.rw(&name).read().into_future();
        poll_once(&mut reader).await;
        readers.spawn(async move { reader.await.expect("it gets free").unlock().await });
    }
    tokio::time::sleep(ms(50)).await; // those who were refused listen by now
    let since = Instant::now();
    let reading = writing.downgrade().await.expect("it is held");
    while let Some(read) = timeout(secs(20), readers.join_next()).await.expect("they get in") {
        read.expect("no panic").expect("it was held");
    }
    // Far below the ten seconds after which those who wait look again by themselves.
    assert!(since.elapsed() < secs(1) + ground.slack(), "{:?}", since.elapsed());
    assert!(!reading.is_lost());
    reading.unlock().await.expect("it was held");
}

/// Between writing and reading nobody else can write, neither one that waits nor one that tries all the time.
pub async fn nobody_writes_in_between(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for _ in 0..ground.crowd(12) {
        let writing = here.rw(&name).write().await.expect("it is free");
        let mut waits = elsewhere.rw(&name).write().into_future();
        poll_once(&mut waits).await;
        let waits = tokio::spawn(waits);
        let over = Arc::new(AtomicBool::new(false));
        let (theirs, stop) = (elsewhere.rw(&name), over.clone());
        let tries = tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                assert!(!may_write(&theirs).await, "somebody else wrote in between");
                tokio::time::sleep(ms(1)).await;
            }
        });
        tokio::time::sleep(ms(5)).await;
        let reading = writing.downgrade().await.expect("it is held");
        tokio::time::sleep(ms(5)).await;
        assert!(!waits.is_finished(), "somebody else wrote in between");
        over.store(true, Ordering::SeqCst);
        tries.await.expect("no panic");
        reading.unlock().await.expect("it was held");
        let next = timeout(secs(10), waits).await.expect("it gets free").expect("no panic");
        next.expect("it gets free").unlock().await.expect("it was held");
    }
}

/// R#4217: what the watchdog kept as a write it keeps as a read; a lease stays a lease.
pub async fn a_read_is_kept_as_the_write_was(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(STEADY).observer(seen.clone());
    let here = builder.connect().await.expect("the store can be opened");
    let elsewhere = ground.open().await;
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let reading = mine.write().await.expect("it is free").downgrade().await.expect("it is held");
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(!reading.is_lost());
    assert!(!may_write(&theirs).await);
    reading.unlock().await.expect("it was held");

    let renewed = seen.count(mine.name(), "renewed");
    let (since, lease) = (Instant::now(), secs(3));
    let writing = mine.write().lease(lease).await.expect("it is free");
    let reading = writing.downgrade().await.expect("it is held");
    assert!(reading.remaining() <= lease);
    timeout(lease + ground.slack(), reading.lost()).await.expect("the lease ends");
    assert!(since.elapsed() >= lease * 9 / 10, "{:?}", since.elapsed());
    assert_eq!(seen.count(mine.name(), "renewed"), renewed);
    let next = theirs.write().wait(secs(10)).await.expect("the lease ends");
    next.unlock().await.expect("it was held");
}

/// Where the owner writes more than once, only this hold becomes a read.
pub async fn an_outer_write_stays_a_write(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let outer = mine.write().owner(&me).await.expect("it is free");
    let inner = mine.write().owner(&me).await.expect("it is mine");
    let reading = inner.downgrade().await.expect("it is held");
    assert_eq!(theirs.write_hold_count(outer.stay()).await.expect("the store answers"), 1);
    assert_eq!(reading.stay(), outer.stay());
    assert!(!may_read(&theirs).await);
    outer.unlock().await.expect("it was held");
    assert!(may_read(&theirs).await);
    reading.unlock().await.expect("it was held");
}

/// A write that was lost does not become a read: somebody else may have written since.
pub async fn a_lost_write_does_not_become_a_read(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    // Its lease is over.
    let writing = mine.write().lease(ms(100)).await.expect("it is free");
    writing.lost().await;
    assert_eq!(writing.downgrade().await.expect_err("it is lost").kind(), ErrorKind::Lost);
    // It was taken away by somebody elsewhere, so nobody here knows; the lock is free, or somebody else writes.
    for next in [false, true] {
        let writing = mine.write().lease(HOUR).await.expect("it gets free");
        assert!(theirs.force_unlock_write().await.expect("the store answers"));
        let theirs = match next {
            true => theirs.try_write().await.expect("the store answers"),
            false => None,
        };
        assert_eq!(writing.downgrade().await.expect_err("it is lost").kind(), ErrorKind::Lost);
        let left = mine.inspect().await.expect("the store answers").holders.len();
        assert_eq!(left, usize::from(next), "the read stayed, or the next writer did not");
        if let Some(theirs) = theirs {
            theirs.unlock().await.expect("it was held");
        }
    }
    assert!(may_write(&mine).await);
}
