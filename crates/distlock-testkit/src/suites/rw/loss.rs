//! Learning that a hold is gone, and taking it away.

use std::future::IntoFuture;

use distlock::ErrorKind;
use tokio::time::timeout;

use super::{HOUR, may_read, may_write, ms, secs};
use crate::suites::Ground;
use crate::suites::times::STEADY;

/// Redisson: testForceUnlock, testMultiRead. Force frees the half that it is told to, and is told so.
pub async fn force_of_the_wrong_half_does_nothing(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    assert!(!theirs.force_unlock_read().await.expect("the store answers"), "nothing to free");
    assert!(!theirs.force_unlock_write().await.expect("the store answers"), "nothing to free");

    let reading = mine.read().await.expect("it is free");
    assert!(!theirs.force_unlock_write().await.expect("the store answers"));
    assert!(!mine.force_unlock_write().await.expect("the store answers"));
    assert!(mine.is_read_locked().await.expect("the store answers") && !reading.is_lost());
    assert!(theirs.force_unlock_read().await.expect("the store answers"));
    assert!(!mine.is_locked().await.expect("the store answers"));
    assert_eq!(reading.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);

    let me = here.owner();
    let writing = mine.write().owner(&me).await.expect("it is free");
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    assert!(!theirs.force_unlock_read().await.expect("the store answers"));
    assert!(!mine.force_unlock_read().await.expect("the store answers"));
    assert!(!writing.is_lost() && !reading.is_lost());
    assert!(theirs.force_unlock_write().await.expect("the store answers"));
    assert!(!mine.is_locked().await.expect("the store answers"));
    assert_eq!(writing.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);
    assert_eq!(reading.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);
}

/// Holders of the same process learn of it at once, all of them, and the next ones are not touched by theirs.
pub async fn force_tells_the_holders_here(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(rw.read().lease(HOUR).await.expect("only readers are inside"));
    }
    assert!(rw.force_unlock_read().await.expect("the store answers"));
    for reader in &readers {
        timeout(secs(5), reader.lost()).await.expect("it is told");
        assert!(reader.is_lost());
    }
    let next = rw.try_write().await.expect("the store answers").expect("it is free");
    for stale in readers {
        assert_eq!(stale.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    }
    assert!(rw.is_held_by(next.owner()).await.expect("the store answers"));

    let reading = rw.read().owner(next.owner()).await.expect("the writer may read");
    assert!(rw.force_unlock_write().await.expect("the store answers"));
    for lost in [next.lost(), reading.lost()] {
        timeout(secs(5), lost).await.expect("it is told");
    }
    assert!(may_read(&rw).await);
}

/// A holder elsewhere learns of it when it renews.
pub async fn force_is_noticed_elsewhere_with_the_next_renewal(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let reading = mine.read().await.expect("it is free");
    assert!(theirs.force_unlock_read().await.expect("the store answers"));
    timeout(STEADY / 3 + ground.slack(), reading.lost()).await.expect("the renewal says no");
    let writing = mine.write().await.expect("it is free");
    assert!(theirs.force_unlock_write().await.expect("the store answers"));
    timeout(STEADY / 3 + ground.slack(), writing.lost()).await.expect("the renewal says no");
}

/// One reader that is gone is no reason for another to believe so, nor the other way round.
pub async fn a_reader_that_was_thrown_out_does_not_live_on_through_others(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let reading = mine.read().await.expect("it is free");
    assert!(theirs.force_unlock_read().await.expect("the store answers"));
    let next = theirs.read().lease(HOUR).await.expect("it is free");
    timeout(STEADY / 3 + ground.slack(), reading.lost()).await.expect("the renewal says no");
    assert_eq!(reading.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    let seen = theirs.inspect().await.expect("the store answers");
    assert_eq!(seen.depth_of(next.stay()), 1);
    assert_eq!(seen.holders.len(), 1);
    next.unlock().await.expect("it was held");
}

/// Whoever waits is woken by force.
pub async fn force_wakes_those_who_wait(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    for locks in [&here, &elsewhere] {
        let reading = mine.read().lease(HOUR).await.expect("it is free");
        let writer = tokio::spawn(locks.rw(ground.name("k")).write().into_future());
        tokio::time::sleep(ms(50)).await;
        assert!(!writer.is_finished());
        assert!(theirs.force_unlock_read().await.expect("the store answers"));
        let writing = timeout(secs(5), writer).await.expect("it is woken").expect("no panic");
        let writing = writing.expect("it gets free");
        let reader = tokio::spawn(locks.rw(ground.name("k")).read().into_future());
        tokio::time::sleep(ms(50)).await;
        assert!(!reader.is_finished());
        assert!(theirs.force_unlock_write().await.expect("the store answers"));
        let next = timeout(secs(5), reader).await.expect("it is woken").expect("no panic");
        next.expect("it gets free").unlock().await.expect("it was held");
        drop((reading, writing));
    }
    assert!(may_write(&mine).await);
}

/// Closing ends waits, and releases both halves.
pub async fn closing_releases_both_halves(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let writing = mine.write().owner(&me).await.expect("it is free");
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    let beside = here.rw(ground.name("other")).read().await.expect("it is free");
    let waits = tokio::spawn(mine.read().into_future());
    tokio::time::sleep(ms(20)).await;
    here.close().await;
    let refused = waits.await.expect("no panic").expect_err("it was closed");
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert!(writing.is_lost() && reading.is_lost() && beside.is_lost());
    assert!(may_write(&theirs).await);
    assert!(may_write(&elsewhere.rw(ground.name("other"))).await);
}
