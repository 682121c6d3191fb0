//! Who waits gets in.

use distlock::{Locks, Permits, Result};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::{HOUR, NO_LOOKING, Room, counts, done, ms, secs};
use crate::suites::{Ground, eventually};

/// Two processes whose waiters do not look by themselves.
async fn two(ground: &Ground) -> (Locks, Locks) {
    let open = || ground.open_with_watchdog(NO_LOOKING);
    (open().await, open().await)
}

async fn gets_in(ground: &Ground, waiter: JoinHandle<Result<Permits>>) -> Permits {
    let got = timeout(ground.slack(), waiter).await.expect("it is woken");
    got.expect("no panic").expect("permits are left")
}

/// Redisson: testAcquire. A permit that comes back wakes a waiter long before any lease ends.
pub async fn a_waiter_gets_in_when_a_permit_comes_back(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(1).await.expect("the store answers");
    for (holder, waits) in [(&mine, &theirs), (&mine, &mine), (&theirs, &mine)] {
        for round in 0..4 {
            let one = holder.acquire(1).lease(HOUR).await.expect("one is left");
            let waiter = tokio::spawn(waits.acquire(1).lease(HOUR).into_future());
            tokio::time::sleep(ms(7 * round)).await;
            assert!(!waiter.is_finished(), "there was only one");
            match round % 2 {
                0 => drop(one),
                _ => {
                    let ids = one.ids();
                    one.leak();
                    theirs.release(&ids).await.expect("it is out");
                }
            }
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

/// R#6664. Redisson: testConcurrencyMultiPermits, testConcurrencyMultiPermits2. Whoever waits for two gets in when one and one
/// come back.
pub async fn two_who_wait_for_two_both_get_in(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    for (one, other) in [(&here, &elsewhere), (&here, &here)] {
        let (one, other) = (one.leased_semaphore(&name), other.leased_semaphore(&name));
        one.init(2).await.expect("the store answers");
        let held = [one.acquire(1).await.expect("left"), one.acquire(1).await.expect("left")];
        let mut waiters = JoinSet::new();
        for semaphore in [&one, &other] {
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
        assert_eq!(counts(&one).await, (2, 0));
        done(&one).await;
    }
}

/// When several come back at once, as many get in.
pub async fn permits_that_come_back_together_wake_as_many(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
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
    eventually("all are back", || async { counts(&mine).await == (6, 0) }).await;
    done(&mine).await;
}

/// Leases that end at different times let in one after the other, without any message.
pub async fn leases_that_end_let_in_one_after_the_other(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let name = ground.name("s");
    let (mine, theirs) = (here.leased_semaphore(&name), elsewhere.leased_semaphore(&name));
    mine.init(3).await.expect("the store answers");
    for lease in [250, 500, 750] {
        theirs.acquire(1).lease(ms(lease)).await.expect("left").leak();
    }
    let since = Instant::now();
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

/// No wake-up is lost, whatever the sizes: nobody here looks by itself, and everybody gets in.
pub async fn no_wake_up_is_lost(ground: Ground) {
    let rounds = ground.crowd(40) as u32;
    let room = Room::with(5);
    let mut tasks = JoinSet::new();
    let processes = [two(&ground).await, two(&ground).await];
    let name = ground.name("s");
    for (number, locks) in processes.iter().flat_map(|(one, other)| [one, other]).enumerate() {
        for task in 0..4_u32 {
            let semaphore = locks.leased_semaphore(&name).with_permits(5);
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
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(secs(60), every).await.expect("everybody gets in");
    assert_eq!(room.entries(), u64::from(16 * rounds));
    let semaphore = processes[0].0.leased_semaphore(&name);
    eventually("all are back", || async { counts(&semaphore).await == (5, 0) }).await;
    done(&semaphore).await;
}
