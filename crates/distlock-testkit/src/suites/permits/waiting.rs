//! Who waits gets in.

use std::future::IntoFuture;

use distlock::{Permits, Result};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::{Kind, Room, all_back, counts, done, two, two_sides};
use crate::suites::times::{NO_LOOKING, ms, secs};
use crate::suites::{Ground, Recorder, eventually, everybody};

pub(crate) async fn gets_in(ground: &Ground, waiter: JoinHandle<Result<Permits>>) -> Permits {
    let got = timeout(ground.slack(), waiter).await.expect("it is woken");
    got.expect("no panic").expect("permits are left")
}

/// Redisson: testAcquireAfterAddPermits.
pub(crate) async fn a_waiter_for_two_wakes_when_permits_are_added<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    for adds in [[&mine, &mine], [&theirs, &theirs], [&mine, &theirs]] {
        mine.init(0).await.expect("the store answers");
        let waiter = tokio::spawn(mine.acquire(2).into_future());
        tokio::time::sleep(ms(20)).await;
        assert_eq!(adds[0].add(1).await.expect("the store answers"), 1);
        tokio::time::sleep(ms(20)).await;
        assert!(!waiter.is_finished(), "one is not two");
        assert_eq!(adds[1].add(1).await.expect("the store answers"), 2);
        let both = gets_in(&ground, waiter).await;
        assert_eq!(counts(&mine).await, (0, 2));
        both.release().await.expect("they were held");
        done(&mine).await;
    }
}

/// Redisson: testBlockingAcquire, testAcquire. A permit that comes back wakes a waiter, long before any lease ends.
pub(crate) async fn a_waiter_gets_in_when_a_permit_comes_back<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(1).await.expect("the store answers");
    for (holder, waits) in [(&mine, &theirs), (&mine, &mine), (&theirs, &mine)] {
        for round in 0..4 {
            let one = holder.acquire(1).await.expect("one is left");
            let waiter = tokio::spawn(waits.acquire(1).into_future());
            // Given back early, late, and while the waiter subscribes.
            tokio::time::sleep(ms(7 * round)).await;
            assert!(!waiter.is_finished(), "there was only one");
            drop(one);
            gets_in(&ground, waiter).await.release().await.expect("it was held");
        }
    }
    done(&mine).await;
}

/// Redisson: testBlockingNAcquire.
pub(crate) async fn a_waiter_for_four_gets_in_when_four_are_back<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(5).await.expect("the store answers");
    let three = mine.acquire(3).await.expect("five are left");
    let (one, other) = (mine.acquire(1).await, mine.acquire(1).await);
    let waiter = tokio::spawn(theirs.acquire(4).into_future());
    tokio::time::sleep(ms(20)).await;
    three.release().await.expect("they were held");
    tokio::time::sleep(ms(20)).await;
    assert!(!waiter.is_finished(), "three are not four");
    one.expect("one was left").release().await.expect("it was held");
    let four = gets_in(&ground, waiter).await;
    assert_eq!(counts(&mine).await, (0, 5));
    drop((four, other));
    all_back(&mine, 5).await;
    done(&mine).await;
}

/// Redisson: testTryNAcquire.
pub(crate) async fn a_timed_wait_gets_them_or_gives_up_in_time<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(5).await.expect("the store answers");
    let four = mine.try_acquire(4).await.expect("the store answers").expect("five are left");
    for semaphore in [&mine, &theirs] {
        let since = Instant::now();
        let refused = semaphore.try_acquire(4).wait(ms(300)).await.expect("the store answers");
        assert!(refused.is_none());
        let took = since.elapsed();
        assert!(took >= ms(300) && took < ms(300) + ground.slack(), "waited for {took:?}");
    }
    let waiter = tokio::spawn(theirs.try_acquire(4).wait(secs(20)).into_future());
    tokio::time::sleep(ms(20)).await;
    four.release().await.expect("they were held");
    let got = timeout(ground.slack(), waiter).await.expect("it is woken").expect("no panic");
    drop(got.expect("the store answers").expect("four are left"));
    all_back(&mine, 5).await;
    done(&mine).await;
}

/// R#5349, R#6664: when several permits come back at once, as many waiters get in, whoever they belong to.
pub(crate) async fn permits_that_come_back_together_wake_as_many<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(6).await.expect("the store answers");
    let all = mine.acquire(6).await.expect("six are left");
    let mut waiters = JoinSet::new();
    for semaphore in [&mine, &theirs, &mine, &theirs, &theirs, &mine] {
        waiters.spawn(semaphore.acquire(1).into_future());
    }
    tokio::time::sleep(ms(40)).await;
    all.release().await.expect("they were held");
    let every = async {
        let mut got = Vec::new();
        while let Some(one) = waiters.join_next().await {
            got.push(one.expect("no panic").expect("permits are left"));
        }
        got
    };
    let got = timeout(ground.slack(), every).await.expect("everybody is woken");
    assert_eq!(counts(&mine).await, (0, 6));
    drop(got);
    all_back(&mine, 6).await;
    done(&mine).await;
}

/// R#6664. Redisson: testConcurrencyMultiPermits, testConcurrencyMultiPermits2. Of two who wait for two each, both get in, one
/// after the other, when one and one come back.
pub(crate) async fn two_who_wait_for_two_both_get_in<S: Kind>(ground: Ground) {
    let (here, elsewhere) = two_sides::<S>(&ground).await;
    for (one, other) in [(&here, &elsewhere), (&here, &here)] {
        one.init(2).await.expect("the store answers");
        let held = [one.acquire(1).await.expect("left"), one.acquire(1).await.expect("left")];
        let mut waiters = JoinSet::new();
        for semaphore in [one, other] {
            let waiting = semaphore.acquire(2).into_future();
            waiters.spawn(async move { waiting.await?.release().await });
        }
        tokio::time::sleep(ms(40)).await;
        for guard in held {
            guard.release().await.expect("it was held");
        }
        for _ in 0..2 {
            let ended = timeout(ground.slack(), waiters.join_next()).await.expect("it is woken");
            ended.expect("two of them").expect("no panic").expect("in and out");
        }
        assert_eq!(counts(one).await, (2, 0));
        done(one).await;
    }
}

/// Waiters of one process are served in order: small requests do not starve a large one before them.
pub(crate) async fn a_large_request_is_not_overtaken_here<S: Kind>(ground: Ground) {
    let (seen, name) = (Recorder::new(), ground.name("s"));
    let builder = ground.builder().watchdog(NO_LOOKING).observer(seen.clone());
    let semaphore = S::of(&builder.connect().await.expect("the store can be opened"), &name);
    semaphore.init(3).await.expect("the store answers");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(semaphore.acquire(1).await.expect("one is left"));
    }
    let before = seen.count(&name, "attempted");
    let large = tokio::spawn(semaphore.acquire(3).into_future());
    // It asks, and once more when it has its place.
    let waits = || async { seen.count(&name, "attempted") >= before + 2 };
    eventually("the large one waits", waits).await;
    let small = tokio::spawn(semaphore.acquire(1).into_future());
    tokio::time::sleep(ms(40)).await;
    for guard in held {
        guard.release().await.expect("it was held");
        tokio::time::sleep(ms(10)).await;
    }
    let all = gets_in(&ground, large).await;
    assert!(!small.is_finished(), "it came later");
    drop(all);
    gets_in(&ground, small).await.release().await.expect("it was held");
    done(&semaphore).await;
}

/// A single attempt takes what is there, whoever waits for more.
pub(crate) async fn a_single_attempt_takes_what_is_there<S: Kind>(ground: Ground) {
    let (semaphore, _) = two_sides::<S>(&ground).await;
    semaphore.init(2).await.expect("the store answers");
    let one = semaphore.acquire(1).await.expect("two are left");
    let large = tokio::spawn(semaphore.acquire(2).into_future());
    tokio::time::sleep(ms(40)).await;
    let quick = semaphore.try_acquire(1).await.expect("the store answers").expect("one is left");
    drop((one, quick));
    gets_in(&ground, large).await.release().await.expect("they were held");
    done(&semaphore).await;
}

/// Whoever waits behind a large request gets in when that leaves, and does not have to look by itself.
pub(crate) async fn who_waits_behind_a_large_request_gets_in_when_it_leaves<S: Kind>(
    ground: Ground,
) {
    let (semaphore, _) = two_sides::<S>(&ground).await;
    semaphore.init(2).await.expect("the store answers");
    let one = semaphore.acquire(1).await.expect("two are left");
    for way in 0..2 {
        let large = match way {
            0 => tokio::spawn(semaphore.acquire(2).wait(ms(100)).into_future()),
            _ => tokio::spawn(semaphore.acquire(2).into_future()),
        };
        tokio::time::sleep(ms(40)).await;
        let small = tokio::spawn(semaphore.acquire(1).into_future());
        tokio::time::sleep(ms(40)).await;
        if way == 1 {
            large.abort();
        }
        assert!(large.await.map_or(true, |ended| ended.is_err()));
        gets_in(&ground, small).await.release().await.expect("it was held");
    }
    one.release().await.expect("it was held");
    done(&semaphore).await;
}

/// Whoever waits for a number that nobody has set yet gets in once somebody does.
pub(crate) async fn a_waiter_gets_in_once_the_number_is_set<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    let waiter = tokio::spawn(mine.acquire(2).into_future());
    tokio::time::sleep(ms(40)).await;
    assert!(theirs.init(3).await.expect("the store answers"));
    gets_in(&ground, waiter).await.release().await.expect("they were held");
    done(&mine).await;
    // Also if that is an acquisition.
    let waiter = tokio::spawn(mine.acquire(2).into_future());
    tokio::time::sleep(ms(40)).await;
    let one = theirs.clone().with_permits(3).acquire(1).await.expect("three are left");
    gets_in(&ground, waiter).await.release().await.expect("they were held");
    one.release().await.expect("it was held");
    done(&mine).await;
}

/// No wake-up is lost, whatever the sizes: nobody here looks by itself, and everybody gets in.
pub(crate) async fn no_wake_up_is_lost<S: Kind>(ground: Ground) {
    let rounds = ground.crowd(40) as u32;
    let room = Room::with(5);
    let mut tasks = JoinSet::new();
    let processes = [two(&ground).await, two(&ground).await];
    let name = ground.name("s");
    for (number, locks) in processes.iter().flat_map(|(one, other)| [one, other]).enumerate() {
        for task in 0..4_u32 {
            let semaphore = S::of(locks, &name).with_permits(5);
            let (room, number) = (room.clone(), number as u32);
            tasks.spawn(async move {
                for round in 0..rounds {
                    let count = 1 + (7 * number + 3 * task + 5 * round) % 5;
                    let permits = semaphore.acquire(count).await.expect("they come back");
                    room.visit(count).await;
                    match (task + round) % 2 {
                        0 => drop(permits),
                        _ => permits.release().await.expect("they were held"),
                    }
                }
            });
        }
    }
    everybody(tasks).await;
    assert_eq!(room.entries(), u64::from(16 * rounds));
    let semaphore = S::of(&processes[0].0, &name);
    all_back(&semaphore, 5).await;
    done(&semaphore).await;
}
