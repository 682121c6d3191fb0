//! How long permits stay out.

use distlock::{ErrorKind, State};
use tokio::time::{Instant, timeout};

use super::{HOUR, counts, done, is_out, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, eventually};

/// Redisson: testExpire, testExpireTryAcquire.
pub async fn a_waiter_gets_in_when_a_lease_ends(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(1).await.expect("the store answers");
    for waits in [&mine, &theirs] {
        let since = Instant::now();
        let first = mine.acquire(1).lease(ms(500)).await.expect("left");
        let old = first.ids();
        let next = waits.try_acquire(1).wait(secs(20)).lease(HOUR).await;
        let next = next.expect("the store answers").expect("the lease ends");
        let took = since.elapsed();
        assert!(took >= ms(495) && took < ms(500) + ground.slack(), "after {took:?}");
        assert_eq!(mine.release(&old).await.expect_err("expired").kind(), ErrorKind::NotHeld);
        assert_eq!(first.release().await.expect_err("expired").kind(), ErrorKind::Lost);
        assert_eq!(counts(&mine).await, (0, 1));
        next.release().await.expect("it was held");
    }
    done(&mine).await;
}

/// The holder knows first.
pub async fn a_holder_learns_of_the_end_before_anybody_gets_in(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(2).await.expect("the store answers");
    for _ in 0..3 {
        let first = mine.acquire(2).lease(ms(200)).await.expect("left");
        let next = theirs.acquire(1).lease(HOUR).await.expect("the lease ends");
        assert!(first.is_lost(), "somebody came in while {first:?} believed in its permits");
        timeout(secs(5), first.lost()).await.expect("it is told");
        next.release().await.expect("it was held");
    }
    done(&mine).await;
}

/// R#4462 and its like: without a lease the watchdog keeps the permits, and nobody else.
pub async fn the_watchdog_keeps_permits_without_a_lease(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(5).await.expect("the store answers");
    let kept = mine.acquire(2).await.expect("left");
    let brief = mine.acquire(2).lease(ms(600)).await.expect("left");
    let other = mine.acquire(1).await.expect("left");
    let end = Instant::now() + STEADY * 7 / 6;
    while Instant::now() < end {
        tokio::time::sleep(ms(100)).await;
        assert!(!kept.is_lost() && !other.is_lost());
        let left = theirs.remaining(kept.ids()[1]).await.expect("the store answers");
        assert!(left.is_some_and(|left| left <= STEADY), "{left:?}");
    }
    assert!(brief.is_lost(), "a lease switches the watchdog off");
    assert_eq!(counts(&theirs).await, (2, 3));
    kept.release().await.expect("they were held");
    other.release().await.expect("it was held");
    // Nothing is renewed after a release: one more would have come by now.
    tokio::time::sleep(STEADY / 2).await;
    assert_eq!(counts(&theirs).await, (5, 0));
    done(&mine).await;
}

/// What nobody renews any more comes back within the watchdog's timeout.
pub async fn leaked_permits_come_back_after_the_watchdogs_timeout(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(ms(900)).await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    theirs.init(2).await.expect("the store answers");
    let since = Instant::now();
    mine.acquire(2).await.expect("left").leak();
    let next = timeout(secs(20), theirs.acquire(2).into_future()).await;
    let next = next.expect("they come back").expect("they come back");
    assert!(since.elapsed() < ms(900) + ground.slack(), "after {:?}", since.elapsed());
    next.release().await.expect("they were held");
    done(&theirs).await;
}

/// A guard can be extended like any other.
pub async fn a_guard_can_be_extended(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s")).with_permits(3);
    let guard = semaphore.acquire(2).lease(secs(3)).await.expect("left");
    guard.extend(HOUR).await.expect("it is held");
    assert!(guard.remaining() > secs(3000));
    for id in guard.ids() {
        let left = semaphore.remaining(id).await.expect("the store answers").expect("it is out");
        assert!(left > secs(3000) && left <= HOUR, "{left:?}");
    }
    tokio::time::sleep(secs(3) + ms(200)).await;
    assert_eq!((guard.state(), counts(&semaphore).await), (State::Held, (1, 2)));
    guard.release().await.expect("it was held");
    done(&semaphore).await;
}

/// Permits that somebody takes away are lost, and their guard learns of it.
pub async fn a_guard_whose_permits_are_taken_away_is_told(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(secs(3)).await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(4).await.expect("the store answers");
    // Here by force, at once; elsewhere when it is renewed; and so if only one of several is gone.
    let guard = mine.acquire(2).await.expect("left");
    assert!(mine.force_unlock().await.expect("the store answers"));
    assert!(guard.is_lost(), "it is told at once");
    timeout(secs(5), guard.lost()).await.expect("it is told");
    let guard = mine.acquire(2).await.expect("left");
    assert!(theirs.force_unlock().await.expect("the store answers"));
    timeout(secs(10), guard.lost()).await.expect("it is told with the next renewal");
    let guard = mine.acquire(3).await.expect("left");
    theirs.release(&guard.ids()[2..]).await.expect("it is out");
    timeout(secs(10), guard.lost()).await.expect("it is told with the next renewal");
    let gone = || async { !is_out(&theirs, guard.ids()[0]).await };
    eventually("the rest of a lost hold comes back by itself", gone).await;
    assert_eq!(counts(&mine).await, (4, 0));
    done(&mine).await;
}

/// Permits go with the semaphore they were taken from.
pub async fn what_was_deleted_takes_its_permits_along(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(secs(3)).await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(4).await.expect("the store answers");
    let guard = mine.acquire(2).await.expect("left");
    done(&theirs).await;
    timeout(secs(10), guard.lost()).await.expect("it is told with the next renewal");
    theirs.init(3).await.expect("the store answers");
    assert_eq!(mine.release(&guard.ids()).await.expect_err("gone").kind(), ErrorKind::NotHeld);
    drop(guard);
    assert_eq!(counts(&mine).await, (3, 0));
    done(&mine).await;
}
