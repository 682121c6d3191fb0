//! Many at once, and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{NO_LOOKING, count, ms, secs};
use crate::suites::Ground;

/// Redisson: testSingleCountDownAwait_SingleInstance. As many count down as wait, in any order: nobody goes on before the last
/// one has counted, and everybody does then.
pub async fn as_many_count_down_as_wait(ground: Ground) {
    let parties = ground.crowd(60) as u32;
    let processes =
        [ground.open_with_watchdog(NO_LOOKING).await, ground.open_with_watchdog(NO_LOOKING).await];
    let name = ground.name("l");
    assert!(processes[0].latch(&name).init(parties).await.expect("the store answers"));
    let counted = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for party in 0..parties {
        let latch = processes[(party % 2) as usize].latch(&name);
        let (waits, before) = (latch.clone(), counted.clone());
        tasks.spawn(async move {
            waits.wait().await.expect("it opens");
            assert_eq!(before.load(Ordering::SeqCst), parties, "somebody had not counted");
        });
        let counted = counted.clone();
        tasks.spawn(async move {
            tokio::task::yield_now().await;
            counted.fetch_add(1, Ordering::SeqCst);
            latch.count_down().await.expect("the store answers");
        });
    }
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(secs(60), every).await.expect("everybody goes on");
    assert_eq!(count(&processes[0].latch(&name)).await, 0);
}

/// Each count-down has an answer of its own.
pub async fn count_downs_are_answered_one_by_one(ground: Ground) {
    let parties = ground.crowd(60) as u32;
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("l");
    here.latch(&name).init(parties).await.expect("the store answers");
    let mut tasks = JoinSet::new();
    for party in 0..parties {
        let latch = if party % 2 == 0 { here.latch(&name) } else { elsewhere.latch(&name) };
        tasks.spawn(async move { latch.count_down().await.expect("the store answers") });
    }
    let mut answers: Vec<i64> = tasks.join_all().await;
    answers.sort();
    assert_eq!(answers, (0..i64::from(parties)).collect::<Vec<_>>());
}

/// Threads without a runtime can use it, too.
pub async fn threads_can_count_and_wait(ground: Ground) {
    // Paused time stands still while this runtime waits for threads.
    if ground.site() == crate::suites::Site::Virtual {
        return;
    }
    let latch = ground.open().await.latch(ground.name("l"));
    let work = move || {
        assert!(latch.init_blocking(2).expect("the store answers"));
        assert!(!latch.wait_for_blocking(ms(20)).expect("the store answers"));
        let waits = latch.clone();
        let waiter = std::thread::spawn(move || waits.wait().blocking());
        assert_eq!(latch.count_down_blocking().expect("the store answers"), 1);
        assert_eq!(latch.count_down_blocking().expect("the store answers"), 0);
        waiter.join().expect("no panic").expect("it opens");
        assert!(latch.wait_for_blocking(ms(0)).expect("the store answers"));
    };
    tokio::task::spawn_blocking(work).await.expect("no panic");
}
