//! How many permits there are.

use distlock::ErrorKind;

use super::{HOUR, counts, done, ms, secs};
use crate::suites::{Ground, eventually};

/// Redisson: testTrySetPermits.
pub async fn the_number_is_set_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    assert!(mine.init(10).await.expect("the store answers"));
    assert!(!theirs.init(15).await.expect("the store answers"));
    assert_eq!(counts(&theirs).await, (10, 0));
    done(&mine).await;
    assert!(theirs.init(15).await.expect("the store answers"));
    assert_eq!(counts(&mine).await, (15, 0));
    done(&mine).await;
}

/// Redisson: testSetPermits. Up and down while some are out; below what is out, some are missing.
pub async fn the_number_can_be_set_at_any_time(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    assert_eq!(semaphore.set(15).await.expect("the store answers"), 15);
    assert_eq!(counts(&semaphore).await, (15, 0));
    let two = semaphore.acquire(2).lease(HOUR).await.expect("left");
    for _ in 0..2 {
        assert_eq!(semaphore.set(20).await.expect("the store answers"), 18);
    }
    assert_eq!(semaphore.set(5).await.expect("the store answers"), 3);
    assert_eq!(semaphore.set(1).await.expect("the store answers"), -1);
    assert_eq!(counts(&semaphore).await, (-1, 2));
    assert!(semaphore.try_acquire(1).await.expect("the store answers").is_none());
    two.release().await.expect("they were held");
    assert_eq!(counts(&semaphore).await, (1, 0));
    done(&semaphore).await;
}

/// Redisson: testAddPermits.
pub async fn permits_are_added_and_taken_away(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    semaphore.init(10).await.expect("the store answers");
    assert_eq!(semaphore.add(5).await.expect("the store answers"), 15);
    assert_eq!(semaphore.add(-10).await.expect("the store answers"), 5);
    let five = semaphore.acquire(5).lease(HOUR).await.expect("five are left");
    assert_eq!(semaphore.add(-5).await.expect("the store answers"), -5);
    assert_eq!(counts(&semaphore).await, (-5, 5));
    five.release().await.expect("they were held");
    assert_eq!(counts(&semaphore).await, (0, 0));
    done(&semaphore).await;
}

/// Redisson: testAvailablePermits, testAcquiredPermits, testGetPermits.
pub async fn what_has_expired_is_counted_as_left(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    assert_eq!(counts(&semaphore).await, (0, 0));
    semaphore.init(8).await.expect("the store answers");
    let long = semaphore.acquire(2).lease(HOUR).await.expect("left");
    let brief = semaphore.acquire(3).lease(secs(3)).await.expect("left");
    assert_eq!(counts(&semaphore).await, (3, 5));
    eventually("three have expired", || async { counts(&semaphore).await == (6, 2) }).await;
    assert!(brief.is_lost());
    let seen = semaphore.inspect().await.expect("the store answers");
    assert_eq!((seen.count, seen.holders.len()), (Some(6), 2));
    // All of them can be had, once.
    let six = semaphore.try_acquire(6).lease(HOUR).await.expect("the store answers");
    assert_eq!(counts(&semaphore).await, (0, 8));
    assert!(semaphore.try_acquire(1).await.expect("the store answers").is_none());
    drop((long, six, brief));
    eventually("all are back", || async { counts(&semaphore).await == (8, 0) }).await;
    done(&semaphore).await;
}

/// Asking writes nothing: what has expired is taken back by whoever acquires next.
pub async fn questions_leave_no_trace(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s"));
    assert_eq!(counts(&semaphore).await, (0, 0));
    assert_eq!(semaphore.inspect().await.expect("the store answers").count, None);
    assert!(!semaphore.force_unlock().await.expect("the store answers"));
    assert!(!semaphore.delete().await.expect("the store answers"));
    let Some(server) = ground.server() else { return };
    semaphore.init(2).await.expect("the store answers");
    let brief = semaphore.acquire(1).lease(ms(500)).await.expect("left");
    let id = brief.ids()[0];
    brief.leak();
    let gone = || async { semaphore.remaining(id).await.expect("the store answers").is_none() };
    eventually("it has expired", gone).await;
    assert_eq!(counts(&semaphore).await, (2, 0));
    assert_eq!(semaphore.inspect().await.expect("the store answers").count, Some(2));
    assert_eq!(server.ask::<String>(&["GET", semaphore.name()]).await, "1");
    done(&semaphore).await;
}

/// R#4401: the first acquisition says how many there are, in one step.
pub async fn the_first_to_acquire_can_say_how_many_there_are(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    let error = mine.acquire(1).wait(ms(30)).await.expect_err("nobody has set it");
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert!(error.to_string().contains("number of permits is not set"), "{error}");
    let two = mine.clone().with_permits(3).acquire(2).await.expect("there are three now");
    assert_eq!(counts(&theirs).await, (1, 2));
    let one = theirs.with_permits(100).try_acquire(1).await.expect("the store answers");
    assert!(mine.try_acquire(1).await.expect("the store answers").is_none());
    drop((two, one));
    eventually("all are back", || async { counts(&mine).await == (3, 0) }).await;
    done(&mine).await;
}

/// Numbers that are none are refused before anything is sent.
pub async fn zero_permits_and_too_many_are_refused(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.leased_semaphore(ground.name("s")).with_permits(5);
    for count in [0, 10_001, u32::MAX] {
        let refused = semaphore.try_acquire(count).await.expect_err("no such number");
        assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
        assert_eq!(refused.lock_name(), Some(semaphore.name()));
    }
    let refused = semaphore.acquire(1).lease(secs(0)).await.expect_err("no such lease");
    assert_eq!(refused.kind(), ErrorKind::InvalidDuration);
    assert_eq!(semaphore.release(&[]).await.expect_err("nothing").kind(), ErrorKind::Config);
    assert!(!semaphore.delete().await.expect("the store answers"), "nothing was made");
    let many = locks.leased_semaphore(ground.name("s")).with_permits(10_000);
    let all = many.acquire(10_000).lease(HOUR).await.expect("as many as there are");
    assert_eq!(all.ids().len(), 10_000);
    all.release().await.expect("they were held");
    assert_eq!(counts(&many).await, (10_000, 0));
    done(&many).await;
}

/// Something else under the name is not touched.
pub async fn a_name_in_other_use_is_a_conflict(ground: Ground) {
    let locks = ground.open().await;
    let name = ground.name("k");
    let (semaphore, mutex) = (locks.leased_semaphore(&name), locks.mutex(&name));
    let guard = mutex.lock().await.expect("it is free");
    let errors = [
        semaphore.acquire(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.init(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.set(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.available().await.map(drop).expect_err("a mutex is there"),
        semaphore.acquired().await.map(drop).expect_err("a mutex is there"),
        semaphore.delete().await.map(drop).expect_err("a mutex is there"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    guard.unlock().await.expect("it was held");
}
