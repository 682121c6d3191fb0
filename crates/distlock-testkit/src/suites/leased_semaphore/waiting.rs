//! Who waits gets in.

use std::future::IntoFuture;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{HOUR, counts, done, ms, secs};
use crate::suites::permits::{two, waiting::gets_in};
use crate::suites::{Ground, eventually};

crate::suites::permits::kept_by! {
    LeasedSemaphore, waiting on Ground:
    a_waiter_for_two_wakes_when_permits_are_added
    a_waiter_gets_in_when_a_permit_comes_back
    a_waiter_for_four_gets_in_when_four_are_back
    a_timed_wait_gets_them_or_gives_up_in_time
    permits_that_come_back_together_wake_as_many
    two_who_wait_for_two_both_get_in
    a_large_request_is_not_overtaken_here
    a_single_attempt_takes_what_is_there
    who_waits_behind_a_large_request_gets_in_when_it_leaves
    a_waiter_gets_in_once_the_number_is_set
    no_wake_up_is_lost
}

/// Given back by its id, from anywhere, a permit wakes a waiter as well.
pub async fn a_waiter_gets_in_when_a_permit_is_released_by_its_id(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(1).await.expect("the store answers");
    for (holder, waits) in [(&mine, &theirs), (&mine, &mine), (&theirs, &mine)] {
        for round in 0..4 {
            let one = holder.acquire(1).lease(HOUR).await.expect("one is left");
            let ids = one.ids();
            one.leak();
            let waiter = tokio::spawn(waits.acquire(1).lease(HOUR).into_future());
            tokio::time::sleep(ms(7 * round)).await;
            assert!(!waiter.is_finished(), "there was only one");
            theirs.release(&ids).await.expect("it is out");
            gets_in(&ground, waiter).await.release().await.expect("it was held");
        }
    }
    done(&mine).await;
}

/// A number that grows wakes those who wait.
pub async fn a_waiter_gets_in_when_there_are_more(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    let waiter = tokio::spawn(mine.acquire(2).into_future());
    tokio::time::sleep(ms(30)).await;
    assert!(theirs.init(1).await.expect("the store answers"));
    tokio::time::sleep(ms(30)).await;
    assert!(!waiter.is_finished(), "one is not two");
    assert_eq!(theirs.add(1).await.expect("the store answers"), 2);
    let two = gets_in(&ground, waiter).await;
    let waiter = tokio::spawn(mine.acquire(3).into_future());
    tokio::time::sleep(ms(30)).await;
    assert_eq!(theirs.set(5).await.expect("the store answers"), 3);
    let three = gets_in(&ground, waiter).await;
    drop((two, three));
    eventually("all are back", || async { counts(&mine).await == (5, 0) }).await;
    done(&mine).await;
}

/// Leases that end at different times let in one after the other, without any message.
pub async fn leases_that_end_let_in_one_after_the_other(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(3).await.expect("the store answers");
    let since = Instant::now();
    for lease in [250, 500, 750] {
        theirs.acquire(1).lease(ms(lease)).await.expect("left").leak();
    }
    let mut waiters = JoinSet::new();
    for _ in 0..3 {
        waiters.spawn(mine.acquire(1).into_future());
    }
    let mut got = Vec::new();
    for lease in [250, 500, 750] {
        let next = timeout(secs(10), waiters.join_next()).await.expect("a lease ends");
        got.push(next.expect("three of them").expect("no panic").expect("one is left"));
        let took = since.elapsed();
        assert!(took >= ms(lease - 100) && took < ms(lease) + ground.slack(), "{took:?}");
    }
    drop(got);
    eventually("all are back", || async { counts(&mine).await == (3, 0) }).await;
    done(&mine).await;
}
