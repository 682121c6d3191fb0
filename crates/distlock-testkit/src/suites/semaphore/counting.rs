//! How many permits there are.

use distlock::ErrorKind;

use super::{HOUR, done, left, ms, secs};
use crate::suites::Ground;

/// Redisson: testTrySetPermits.
pub async fn the_number_is_set_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    assert!(mine.init(10).await.expect("the store answers"));
    assert_eq!((left(&mine).await, left(&theirs).await), (10, 10));
    assert!(!theirs.init(15).await.expect("the store answers"));
    assert_eq!(left(&mine).await, 10);
    done(&mine).await;
    assert!(!mine.delete().await.expect("the store answers"));
    assert!(theirs.init(15).await.expect("the store answers"));
    assert_eq!(left(&mine).await, 15);
    done(&mine).await;
}

/// Redisson: testAddPermits, testReducePermits.
pub async fn permits_are_added_and_taken_away(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    semaphore.init(10).await.expect("the store answers");
    assert_eq!(semaphore.add(5).await.expect("the store answers"), 15);
    assert_eq!(semaphore.add(-10).await.expect("the store answers"), 5);
    let five = semaphore.acquire(5).await.expect("five are left");
    // More than are left: they are missing until enough came back.
    assert_eq!(semaphore.add(-5).await.expect("the store answers"), -5);
    assert_eq!(left(&semaphore).await, -5);
    assert!(semaphore.try_acquire(1).await.expect("the store answers").is_none());
    five.release().await.expect("they were held");
    assert_eq!(left(&semaphore).await, 0);
    assert!(semaphore.try_acquire(1).await.expect("the store answers").is_none());
    assert_eq!(semaphore.add(1).await.expect("the store answers"), 1);
    semaphore.acquire(1).await.expect("one is left").release().await.expect("it was held");
    done(&semaphore).await;
}

/// Redisson: testDrainPermits.
pub async fn draining_takes_all_that_are_left(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    assert_eq!(semaphore.drain().await.expect("the store answers"), 0);
    semaphore.init(10).await.expect("the store answers");
    let three = semaphore.acquire(3).await.expect("ten are left");
    assert_eq!(semaphore.drain().await.expect("the store answers"), 7);
    assert_eq!(semaphore.drain().await.expect("the store answers"), 0);
    three.release().await.expect("they were held");
    assert_eq!(left(&semaphore).await, 3);
    assert_eq!(semaphore.release(7).await.expect("the store answers"), 10);
    done(&semaphore).await;
}

/// Redisson: testAcquireWithoutSetPermits, testReleaseWithoutPermits.
pub async fn a_release_makes_what_was_not_there(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    assert_eq!(left(&semaphore).await, 0);
    assert_eq!(semaphore.release(1).await.expect("the store answers"), 1);
    assert_eq!(semaphore.release(2).await.expect("the store answers"), 3);
    let three = semaphore.acquire(3).await.expect("three are left");
    assert_eq!(left(&semaphore).await, 0);
    three.release().await.expect("they were held");
    done(&semaphore).await;
}

/// Redisson: testReleaseIfExists.
pub async fn a_release_if_exists_makes_nothing(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    assert!(!semaphore.release_if_exists(1).await.expect("the store answers"));
    assert!(semaphore.init(2).await.expect("nothing was there"));
    assert!(semaphore.release_if_exists(3).await.expect("the store answers"));
    assert_eq!(left(&semaphore).await, 5);
    done(&semaphore).await;
}

/// R#4401: nobody waits in vain for a number that was never set, if the acquisition itself can set it. dv/redis-semaphore#64:
/// in one step, so that nobody can die half-way.
pub async fn the_first_to_acquire_can_say_how_many_there_are(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    assert!(mine.try_acquire(1).await.expect("the store answers").is_none(), "nobody has set it");
    let two = mine.clone().with_permits(3).acquire(2).await.expect("there are three now");
    assert_eq!(left(&theirs).await, 1);
    // Whoever comes later may believe in another number: it is set already.
    let more = theirs.clone().with_permits(100);
    assert!(more.try_acquire(2).await.expect("the store answers").is_none());
    let one = more.try_acquire(1).await.expect("the store answers").expect("one is left");
    drop((two, one));
    let all = mine.acquire(3).wait(secs(15)).await.expect("all three come back");
    all.release().await.expect("they were held");
    done(&mine).await;
}

/// R#4401: a wait that ran out says so if nobody has set the number.
pub async fn a_wait_timeout_says_why(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    let error = semaphore.acquire(1).wait(ms(30)).await.expect_err("nobody has set it");
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert_eq!(error.lock_kind().map(|kind| kind.as_str()), Some("semaphore"));
    assert!(error.to_string().contains("number of permits is not set"), "{error}");
    semaphore.init(5).await.expect("the store answers");
    let held = semaphore.acquire(3).await.expect("five are left");
    let error = semaphore.acquire(4).wait(ms(30)).await.expect_err("two are left");
    let text = error.to_string();
    assert!(text.contains("4 wanted, 2 left"), "{text}");
    assert!(text.contains(&held.stay().to_string()), "{text}");
    held.release().await.expect("they were held");
    done(&semaphore).await;
}

/// Redisson: testZero. There zero permits are had at once; here they are a mistake that is named.
pub async fn zero_permits_and_leases_are_refused(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s"));
    let zero = semaphore.acquire(0).await.expect_err("zero is no number of permits");
    assert_eq!(zero.kind(), ErrorKind::Config);
    assert!(zero.to_string().contains("zero permits"), "{zero}");
    assert_eq!(zero.lock_name(), Some(semaphore.name()));
    let zero = semaphore.with_permits(5).try_acquire(0).await;
    assert_eq!(zero.expect_err("zero is no number of permits").kind(), ErrorKind::Config);
    let semaphore = locks.semaphore(ground.name("s"));
    let leased = semaphore.acquire(1).lease(HOUR).await.expect_err("permits have no lease");
    assert_eq!(leased.kind(), ErrorKind::Unsupported);
    assert!(leased.to_string().contains("leased_semaphore"), "{leased}");
    let unnamed = locks.semaphore("").acquire(0).await.expect_err("no name");
    assert_eq!(unnamed.kind(), ErrorKind::InvalidName);
}

/// Permits go with the semaphore they were taken from.
pub async fn what_was_deleted_takes_its_permits_along(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(5).await.expect("the store answers");
    let two = mine.acquire(2).await.expect("five are left");
    done(&theirs).await;
    assert_eq!(left(&mine).await, 0);
    theirs.init(4).await.expect("nothing is there");
    let error = two.release().await.expect_err("they were taken from another one");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(left(&mine).await, 4, "nothing came back");
    done(&mine).await;
}

/// Something else under the name is not touched.
pub async fn a_name_in_other_use_is_a_conflict(ground: Ground) {
    let locks = ground.open().await;
    let (semaphore, mutex) = (locks.semaphore(ground.name("k")), locks.mutex(ground.name("k")));
    let guard = mutex.lock().await.expect("it is free");
    let errors = [
        semaphore.acquire(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.try_acquire(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.init(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.add(1).await.map(drop).expect_err("a mutex is there"),
        semaphore.available().await.map(drop).expect_err("a mutex is there"),
        semaphore.delete().await.map(drop).expect_err("a mutex is there"),
        semaphore.force_unlock().await.map(drop).expect_err("a mutex is there"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    guard.unlock().await.expect("it was held");
    semaphore.init(1).await.expect("it is free");
    assert_eq!(mutex.try_lock().await.expect_err("not free").kind(), ErrorKind::Conflict);
    done(&semaphore).await;
}
