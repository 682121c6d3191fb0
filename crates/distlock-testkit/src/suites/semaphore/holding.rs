//! Who has permits, and how they come back.

use distlock::{ErrorKind, Owner, State};
use tokio::time::timeout;

use super::{HOUR, done, left, ms, secs};
use crate::suites::{Ground, eventually};

/// Redisson: testReleaseAcquire.
pub async fn permits_come_back_when_their_guard_goes(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(5).await.expect("the store answers");
    let three = mine.acquire(3).await.expect("five are left");
    assert_eq!((three.count(), three.ids().len(), three.state()), (3, 0, State::Held));
    assert_eq!(left(&theirs).await, 2);
    let two = theirs.try_acquire(2).await.expect("the store answers").expect("two are left");
    assert_eq!(left(&mine).await, 0);
    assert!(mine.try_acquire(1).await.expect("the store answers").is_none());
    three.release().await.expect("they were held");
    assert_eq!(left(&theirs).await, 3);
    drop(two);
    eventually("they come back", || async { left(&mine).await == 5 }).await;
    done(&mine).await;
}

/// A drop cannot wait, but the next attempt here does.
pub async fn dropping_and_trying_again_succeeds(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s")).with_permits(2);
    for round in 0..ground.crowd(60) {
        let both = semaphore.try_acquire(2).await.expect("the store answers");
        drop(both.unwrap_or_else(|| panic!("refused in round {round}")));
    }
    assert_eq!(left(&semaphore).await, 2, "a question comes after the drop");
    done(&semaphore).await;
}

/// A guard that outlives everybody's patience still has its permits: they have no lease.
pub async fn permits_stay_for_as_long_as_their_guard(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(ms(900)).await, ground.open().await);
    let semaphore = here.semaphore(ground.name("s")).with_permits(1);
    let theirs = elsewhere.semaphore(ground.name("s"));
    let one = semaphore.acquire(1).await.expect("one is left");
    assert!(one.remaining() > HOUR);
    tokio::time::sleep(ms(1200)).await;
    // With so short a timeout a late answer is a missing one, for a moment.
    eventually("it is held", || async { one.state() == State::Held }).await;
    assert_eq!(left(&theirs).await, 0);
    one.release().await.expect("it was held");
    done(&theirs).await;
}

/// Every acquisition counts for itself, whoever asks.
pub async fn nobody_re_enters_a_semaphore(ground: Ground) {
    let locks = ground.open().await;
    let semaphore = locks.semaphore(ground.name("s")).with_permits(3);
    let me = locks.owner();
    let one = semaphore.acquire(1).owner(&me).await.expect("three are left");
    let two = semaphore.acquire(1).owner(&me).await.expect("two are left");
    assert_ne!(one.owner(), two.owner());
    let three = Owner::scope(async { semaphore.acquire(1).await }).await.expect("one is left");
    assert_eq!(left(&semaphore).await, 0);
    let refused = Owner::scope(async { semaphore.try_acquire(1).owner(&me).await }).await;
    assert!(refused.expect("the store answers").is_none());
    drop((one, two, three));
    eventually("they come back", || async { left(&semaphore).await == 3 }).await;
    done(&semaphore).await;
}

/// R#5066: whatever is done twice, no permit comes back twice.
pub async fn a_double_release_makes_no_permits(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(3).await.expect("the store answers");
    let two = mine.acquire(2).await.expect("three are left");
    let owner = *two.owner();
    let refused = mine.unlock(&owner).await.expect_err("its guard is here");
    assert_eq!(refused.kind(), ErrorKind::NotHeld);
    theirs.unlock(&owner).await.expect("they are out");
    assert_eq!(left(&mine).await, 3);
    assert_eq!(two.release().await.expect_err("somebody did that").kind(), ErrorKind::Lost);
    for semaphore in [&mine, &theirs] {
        let again = semaphore.unlock(&owner).await.expect_err("they are back");
        assert_eq!(again.kind(), ErrorKind::NotHeld);
    }
    assert_eq!(left(&mine).await, 3);
    done(&mine).await;
}

/// R#4462, R#2045, R#2213, R#2933: permits of somebody who is gone are not lost for good: it is known who has them.
pub async fn what_nobody_will_give_back_can_be_given_back(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(5).await.expect("the store answers");
    let gone = mine.acquire(2).await.expect("five are left").leak();
    let kept = mine.acquire(1).await.expect("three are left");
    let seen = theirs.inspect().await.expect("the store answers");
    assert_eq!((seen.count, seen.holders.len()), (Some(2), 2));
    assert_eq!((seen.depth_of(&gone), seen.depth_of(kept.owner())), (2, 1));
    theirs.unlock(&gone).await.expect("they are out");
    assert_eq!(left(&mine).await, 4);
    assert_eq!(theirs.inspect().await.expect("the store answers").holders.len(), 1);
    kept.release().await.expect("it was held");
    done(&mine).await;
}

/// Force gives back what everybody has; those here learn of it.
pub async fn force_gives_everything_back(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(5).await.expect("the store answers");
    let guards = [mine.acquire(2).await.expect("left"), mine.acquire(1).await.expect("left")];
    let other = theirs.acquire(2).await.expect("two are left");
    assert!(mine.force_unlock().await.expect("the store answers"));
    assert_eq!(left(&theirs).await, 5);
    for guard in guards {
        timeout(secs(5), guard.lost()).await.expect("it is told");
        assert_eq!(guard.release().await.expect_err("taken away").kind(), ErrorKind::Lost);
    }
    assert_eq!(other.release().await.expect_err("taken away").kind(), ErrorKind::Lost);
    assert_eq!(left(&mine).await, 5);
    assert!(!mine.force_unlock().await.expect("the store answers"));
    done(&mine).await;
}

/// Closing gives back what is out and ends the waits.
pub async fn closing_gives_permits_back(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.semaphore(ground.name("s")), elsewhere.semaphore(ground.name("s")));
    mine.init(3).await.expect("the store answers");
    let guards = [mine.acquire(1).await.expect("left"), mine.acquire(2).await.expect("left")];
    let waiter = tokio::spawn(mine.acquire(1).into_future());
    tokio::time::sleep(ms(40)).await;
    timeout(secs(5), here.close()).await.expect("closing is quick");
    let ended = timeout(secs(5), waiter).await.expect("its wait ends").expect("no panic");
    assert_eq!(ended.expect_err("it is closed").kind(), ErrorKind::Closed);
    assert_eq!(left(&theirs).await, 3);
    assert!(guards.iter().all(|guard| guard.is_lost()));
    done(&theirs).await;
}
