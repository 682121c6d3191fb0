//! Permits by their ids.

use std::time::Duration;

use distlock::{ErrorKind, PermitId};

use super::{HOUR, counts, done, is_out, ms, secs};
use crate::suites::{Ground, eventually};

fn unknown() -> PermitId {
    PermitId::from_bytes([0xa5; 16])
}

/// Redisson: testBlockingAcquire, testBlockingAcquireMany, testTryAcquire, testTryAcquireMany, testAcquireAsyncMany.
pub async fn every_permit_has_an_id_of_its_own(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(8).await.expect("the store answers");
    let three = mine.acquire(3).await.expect("left");
    let two = mine.try_acquire(2).lease(HOUR).await.expect("the store answers").expect("left");
    let other = theirs.acquire(3).lease(HOUR).await.expect("left");
    assert!(mine.try_acquire(1).await.expect("the store answers").is_none());
    let mut ids: Vec<PermitId> = [&three, &two, &other].iter().flat_map(|g| g.ids()).collect();
    for id in &ids {
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse::<PermitId>().expect("hexadecimal"), *id);
        assert!(is_out(&theirs, *id).await, "everybody knows it");
    }
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), three.count(), three.ids().len()), (8, 3, 3));
    let seen = theirs.inspect().await.expect("the store answers");
    let mut holders: Vec<String> = seen.holders.into_iter().map(|holder| holder.owner).collect();
    holders.sort();
    assert_eq!(holders, ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    drop((three, two, other));
    eventually("all are back", || async { counts(&mine).await == (8, 0) }).await;
    done(&mine).await;
}

/// Redisson: testRelease, testReleaseAsyncMany. Parts of them, from anywhere; and R#5066: none of them twice.
pub async fn permits_are_released_by_their_ids_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(10).await.expect("the store answers");
    let guard = mine.acquire(8).lease(HOUR).await.expect("left");
    let ids = guard.ids();
    guard.leak();
    assert_eq!(counts(&theirs).await, (2, 8));
    for (part, left) in [(&ids[..1], 3), (&ids[1..3], 5), (&ids[3..], 10)] {
        theirs.release(part).await.expect("they are out");
        assert_eq!(counts(&mine).await, (left, 10 - left));
        for again in [part, &ids[..1]] {
            let error = mine.release(again).await.expect_err("they are back");
            assert_eq!(error.kind(), ErrorKind::NotHeld);
        }
        assert_eq!(counts(&mine).await, (left, 10 - left), "nothing came back twice");
    }
    done(&mine).await;
}

/// A guard some of whose permits were given back by somebody else has lost them; letting go of it gives back the rest.
pub async fn a_guard_gives_back_what_is_left_of_it(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(5).await.expect("the store answers");
    let guard = mine.acquire(3).lease(HOUR).await.expect("left");
    theirs.release(&guard.ids()[..1]).await.expect("it is out");
    assert_eq!(counts(&mine).await, (3, 2));
    assert_eq!(guard.release().await.expect_err("one was gone").kind(), ErrorKind::Lost);
    assert_eq!(counts(&mine).await, (5, 0));
    done(&mine).await;
}

/// Redisson: testNotExistent, testReleaseWithoutPermits.
pub async fn an_unknown_permit_cannot_be_released(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    for set in [false, true] {
        if set {
            semaphore.init(2).await.expect("the store answers");
        }
        let error = semaphore.release(&[unknown()]).await.expect_err("nobody has it");
        assert_eq!(error.kind(), ErrorKind::NotHeld);
        assert_eq!(error.lock_kind().map(|kind| kind.as_str()), Some("leased_semaphore"));
        assert_eq!(semaphore.remaining(unknown()).await.expect("the store answers"), None);
        let error = semaphore.extend(unknown(), HOUR).await.expect_err("nobody has it");
        assert_eq!(error.kind(), ErrorKind::NotHeld);
    }
    assert_eq!(counts(&semaphore).await, (2, 0));
    done(&semaphore).await;
    let text = "not an id".parse::<PermitId>().expect_err("no hexadecimal digits");
    assert_eq!(text.kind(), ErrorKind::Config);
}

/// R#4086. Redisson: testReleaseExpired, which there gives the permit back and says that it failed.
pub async fn an_expired_permit_cannot_be_released(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    semaphore.init(1).await.expect("the store answers");
    let brief = semaphore.acquire(1).lease(ms(100)).await.expect("left");
    let id = brief.ids()[0];
    eventually("it has expired", || async { !is_out(&semaphore, id).await }).await;
    for _ in 0..2 {
        let error = semaphore.release(&[id]).await.expect_err("it has expired");
        assert_eq!(error.kind(), ErrorKind::NotHeld);
    }
    let error = semaphore.extend(id, HOUR).await.expect_err("it has expired");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(brief.release().await.expect_err("it has expired").kind(), ErrorKind::Lost);
    assert_eq!(counts(&semaphore).await, (1, 0), "it came back once");
    // Neither after somebody else has it.
    let next = semaphore.acquire(1).lease(HOUR).await.expect("it came back");
    assert!(semaphore.release(&[id]).await.is_err());
    assert_eq!(counts(&semaphore).await, (0, 1));
    next.release().await.expect("it was held");
    done(&semaphore).await;
}

/// R#6343. Redisson: testReleaseManyNotExistOrExpired, testTryReleaseManyExpired, testReleaseManyExpiredDoesNotThrow.
pub async fn a_list_is_released_as_a_whole_or_not_at_all(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    semaphore.init(10).await.expect("the store answers");
    let guard = semaphore.acquire(3).lease(HOUR).await.expect("left");
    let good = guard.ids();
    guard.leak();
    let brief = semaphore.acquire(1).lease(ms(100)).await.expect("left");
    let expired = brief.ids()[0];
    brief.leak();
    eventually("it has expired", || async { !is_out(&semaphore, expired).await }).await;
    for bad in [unknown(), expired] {
        for at in 0..=good.len() {
            let mut list = good.clone();
            list.insert(at, bad);
            let error = semaphore.release(&list).await.expect_err("one of them is bad");
            assert_eq!(error.kind(), ErrorKind::NotHeld);
            assert_eq!(counts(&semaphore).await, (7, 3), "none was released");
        }
    }
    // The same one twice is one.
    let mut list = good.clone();
    list.extend(&good);
    semaphore.release(&list).await.expect("all of them are out");
    assert_eq!(counts(&semaphore).await, (10, 0));
    done(&semaphore).await;
}

/// R#1395. Redisson: testUpdateLeaseTime, testGetLeaseTime.
pub async fn a_permit_can_be_given_another_lease(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(2).await.expect("the store answers");
    let guard = mine.acquire(2).lease(secs(60)).await.expect("left");
    let ids = guard.ids();
    guard.leak();
    let left = async |id| theirs.remaining(id).await.expect("the store answers");
    let around = |left: Option<Duration>, whole: Duration| {
        let left = left.expect("it is out");
        assert!(left <= whole && left > whole - secs(30), "{left:?} of {whole:?}");
    };
    around(left(ids[0]).await, secs(60));
    theirs.extend(ids[0], HOUR).await.expect("it is out");
    around(left(ids[0]).await, HOUR);
    around(left(ids[1]).await, secs(60));
    // Shorter, too; and then it ends.
    theirs.extend(ids[0], ms(50)).await.expect("it is out");
    eventually("it has expired", || async { !is_out(&mine, ids[0]).await }).await;
    assert_eq!(counts(&mine).await, (1, 1));
    for bad in [Duration::ZERO, Duration::MAX] {
        let error = theirs.extend(ids[1], bad).await.expect_err("no such lease");
        assert_eq!(error.kind(), ErrorKind::InvalidDuration);
    }
    mine.release(&ids[1..]).await.expect("it is out");
    done(&mine).await;
}
