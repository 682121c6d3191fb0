//! How long holds last.

use std::future::IntoFuture;

use distlock::ErrorKind;
use tokio::time::{Instant, timeout};

use super::{HOUR, may_read, may_write, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, Site, eventually};

/// Redisson: testReadLockExpiration, testReadLockLeaseTimeoutDiffThreadsRRW, testExpireRead. A writer enters when the last of
/// the readers' leases ends, and not before.
pub async fn a_writer_enters_when_the_last_readers_lease_ends(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for (reads, writes) in [(&here, &elsewhere), (&here, &here)] {
        let since = Instant::now();
        let long = reads.rw(&name).read().lease(ms(900)).await.expect("it is free");
        let short = elsewhere.rw(&name).read().lease(ms(300)).await.expect("readers are inside");
        let writing = writes.rw(&name).write().wait(secs(20)).await.expect("the leases end");
        let took = since.elapsed();
        assert!(long.is_lost() && short.is_lost(), "a writer beside a reader");
        assert!(took >= ms(898) && took < ms(900) + ground.slack(), "in after {took:?}");
        for late in [long, short] {
            let late = late.unlock().await.expect_err("its lease is over");
            assert_eq!(late.kind(), ErrorKind::Lost);
        }
        assert!(!writing.is_lost());
        writing.unlock().await.expect("it was held");
    }
}

/// Redisson: testReadLockLeaseTimeoutDiffThreadsWRR, testExpireWrite. Readers enter when the writer's lease ends.
pub async fn readers_enter_when_the_writers_lease_ends(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let since = Instant::now();
    let writing = here.rw(&name).write().lease(ms(600)).await.expect("it is free");
    let (one, two) = tokio::join!(
        here.rw(&name).read().wait(secs(20)).into_future(),
        elsewhere.rw(&name).read().wait(secs(20)).into_future(),
    );
    let took = since.elapsed();
    let readers = [one.expect("the lease ends"), two.expect("the lease ends")];
    assert!(writing.is_lost(), "a reader beside a writer");
    assert!(took >= ms(598) && took < ms(600) + ground.slack(), "in after {took:?}");
    assert_eq!(writing.unlock().await.expect_err("it is over").kind(), ErrorKind::Lost);
    for reader in readers {
        reader.unlock().await.expect("it was held");
    }
}

/// Redisson: testWriteLockExpiration. A second, shorter write lease neither shortens the first nor adds to it.
pub async fn a_second_write_lease_adds_nothing(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let since = Instant::now();
    let outer = mine.write().owner(&me).lease(ms(3000)).await.expect("it is free");
    let inner = mine.write().owner(&me).lease(ms(2900)).await.expect("it is mine");
    let ttl = theirs.ttl().await.expect("the store answers").expect("it is held");
    assert!(ttl <= ms(3000), "{ttl:?}");
    let next = theirs.write().wait(secs(20)).await.expect("the lease ends");
    let took = since.elapsed();
    assert!(outer.is_lost() && inner.is_lost(), "two writers");
    assert!(took >= ms(2998) && took < ms(3000) + ground.slack(), "in after {took:?}");
    next.unlock().await.expect("it was held");
}

/// Redisson: testReadLockLeaseTimeout. A second read released after the first expired: nothing is left for a writer to wait for.
pub async fn a_read_that_expired_before_another_ended_is_in_nobodys_way(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    let first = rw.read().lease(ms(400)).await.expect("it is free");
    tokio::time::sleep(ms(300)).await;
    let second = rw.read().lease(HOUR).await.expect("only readers are inside");
    tokio::time::sleep(ms(200)).await;
    assert!(first.is_lost() && !second.is_lost());
    assert!(!may_write(&rw).await);
    second.unlock().await.expect("it was held");
    assert!(may_write(&rw).await);
    assert_eq!(first.unlock().await.expect_err("it is over").kind(), ErrorKind::Lost);
}

/// R#2144, R#1110, R#891: a reader that comes with a short lease, or leaves, does not end another's.
pub async fn a_short_read_never_ends_another(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let watched = mine.read().await.expect("it is free");
    let long = theirs.read().lease(HOUR).await.expect("only readers are inside");
    let short = theirs.read().lease(ms(150)).await.expect("only readers are inside");
    let brief = mine.read().lease(STEADY * 2 / 3).await.expect("only readers are inside");
    brief.unlock().await.expect("it was held");
    short.lost().await;
    let two = || async { mine.inspect().await.expect("the store answers").holders.len() == 2 };
    eventually("the store lets the short one go as well, and no other", two).await;
    assert!(!watched.is_lost() && !long.is_lost());
    assert!(!may_write(&theirs).await);
    // And when the long one leaves, the other is renewed as before.
    long.unlock().await.expect("it was held");
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(!watched.is_lost());
    assert!(!may_write(&theirs).await);
    watched.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await);
}

/// Redisson: testAutoExpire, in each half: what nobody keeps alive is free within the watchdog's timeout.
pub async fn what_nobody_renews_is_free_after_the_watchdogs_timeout(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(ms(800)).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    for writes in [false, true] {
        let since = Instant::now();
        match writes {
            true => mine.write().await.expect("it is free").leak(),
            false => mine.read().await.expect("it is free").leak(),
        };
        let next = theirs.write().wait(secs(20)).await.expect("nobody renews it");
        let took = since.elapsed();
        assert!(took >= ms(798) && took < ms(800) + ground.slack(), "in after {took:?}");
        next.unlock().await.expect("it was held");
    }
}

/// Redisson: testMultiInstanceReadLockZombieCleanup. R#7098: a reader that died keeps a writer out for as long as its own lease,
/// however long others stayed and whatever they renewed.
pub async fn a_dead_reader_keeps_a_writer_out_no_longer_than_its_lease(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let since = Instant::now();
    theirs.read().lease(ms(600)).await.expect("it is free").leak();
    let long = theirs.read().lease(HOUR).await.expect("only readers are inside");
    let watched = mine.read().await.expect("only readers are inside");
    long.unlock().await.expect("it was held");
    tokio::time::sleep(ms(700)).await;
    let seen = theirs.inspect().await.expect("the store answers");
    assert_eq!(seen.holders.len(), 1, "the dead one is still there: {seen:?}");
    watched.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await, "free after {:?}", since.elapsed());

    // While it lives, it is respected.
    let since = Instant::now();
    theirs.read().lease(ms(600)).await.expect("it is free").leak();
    mine.read().lease(HOUR).await.expect("readers").unlock().await.expect("it was held");
    let writing = mine.write().wait(secs(20)).await.expect("its lease ends");
    let took = since.elapsed();
    assert!(took >= ms(598) && took < ms(600) + ground.slack(), "in after {took:?}");
    writing.unlock().await.expect("it was held");
}

/// Redisson: testReadWriteTTL. The time to live of neither half comes near its end while the guards live.
pub async fn both_halves_are_renewed_in_time(ground: Ground) {
    // As Redisson does it where time costs nothing; else a third, with room for a machine that stands still for seconds.
    let (watchdog, least, all) = match ground.site() {
        Site::Virtual => (secs(30), secs(19), secs(50)),
        _ => (secs(9), secs(1), secs(15)),
    };
    let (here, elsewhere) = (ground.open_with_watchdog(watchdog).await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let writing = mine.write().owner(&me).await.expect("it is free");
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    let enough = async |until: Instant| {
        while Instant::now() < until {
            let ttl = theirs.ttl().await.expect("the store answers").expect("it is held");
            assert!(ttl > least && ttl <= watchdog, "{ttl:?}");
            assert!(!may_write(&theirs).await);
            tokio::time::sleep(all / 50).await;
        }
    };
    enough(Instant::now() + all / 2).await;
    assert!(!writing.is_lost() && !reading.is_lost());
    writing.unlock().await.expect("it was held");
    enough(Instant::now() + all / 2).await;
    assert!(!reading.is_lost());
    reading.unlock().await.expect("it was held");
}

/// Nothing of a release is renewed later, and nothing is made anew by a renewal.
pub async fn nothing_is_renewed_after_a_release(ground: Ground) {
    let locks = ground.open_with_watchdog(ms(150)).await;
    let rw = locks.rw(ground.name("k"));
    for round in 0..12 {
        let reading = rw.read().await.expect("it is free");
        // Released around the moment of the first renewal.
        tokio::time::sleep(ms(40 + 2 * round)).await;
        let locked = async || rw.is_locked().await.expect("the store answers");
        match reading.unlock().await {
            Ok(()) => assert!(!locked().await),
            // On a machine that stands still for long enough even a watchdog is late; the store may be later.
            Err(_) => eventually("its lease ends", || async { !locked().await }).await,
        }
    }
    tokio::time::sleep(ms(250)).await;
    assert!(!rw.is_locked().await.expect("the store answers"));
}

/// A lease can be made longer, in each half, and what others have stays as it is.
pub async fn extending_lengthens_and_never_shortens(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let nearly = HOUR - secs(60);
    let reading = mine.read().lease(secs(5)).await.expect("it is free");
    let other = theirs.read().lease(ms(400)).await.expect("only readers are inside");
    for lease in [HOUR, ms(1)] {
        reading.extend(lease).await.expect("it is held");
        assert!(theirs.ttl().await.expect("the store answers").expect("it is held") > nearly);
        assert!(reading.remaining() > nearly);
    }
    timeout(ms(400) + ground.slack(), other.lost()).await.expect("its lease is its own");
    let gone = || async { theirs.inspect().await.expect("the store answers").holders.len() == 1 };
    eventually("the store lets the other go", gone).await;
    reading.unlock().await.expect("it was held");

    let writing = mine.write().lease(secs(5)).await.expect("it is free");
    writing.extend(HOUR).await.expect("it is held");
    assert!(theirs.ttl().await.expect("the store answers").expect("it is held") > nearly);
    writing.unlock().await.expect("it was held");
    assert!(may_read(&theirs).await);
}
