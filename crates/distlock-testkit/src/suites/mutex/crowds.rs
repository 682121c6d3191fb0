//! Many at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, Section, everybody};

mod meetings {
    crate::suites::exclusive::exclusive_meetings!(mutex);
}

pub use meetings::*;

/// Dropped guards, single tries, short waits and long ones, from several processes with several tasks each.
pub async fn every_way_in_and_out_excludes(ground: Ground) {
    let rounds = ground.crowd(60);
    let section = Section::new();
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let locks = ground.open().await;
        for task in 0..4 {
            let (locks, name, section) = (locks.clone(), ground.name("k"), section.clone());
            tasks.spawn(async move {
                for round in 0..rounds {
                    let mutex = locks.mutex(&name);
                    let guard = match (process + task + round) % 4 {
                        0 => Some(mutex.lock().await.expect("it gets free")),
                        1 => mutex.try_lock().await.expect("the store answers"),
                        2 => mutex.try_lock().wait(ms(3)).await.expect("the store answers"),
                        _ => Some(mutex.lock().lease(secs(30)).await.expect("it gets free")),
                    };
                    let Some(guard) = guard else { continue };
                    section.visit().await;
                    match round % 2 {
                        0 => drop(guard),
                        _ => guard.unlock().await.expect("it was held"),
                    }
                }
            });
        }
    }
    everybody(tasks).await;
    assert!(section.entries() >= 8 * rounds as u64, "those who must get in did");
}

/// Redisson: testConcurrencyTryLockUnLock: under any race of acquiring and releasing, what is held is renewed.
pub async fn whoever_holds_is_renewed_under_any_race(ground: Ground) {
    let section = Section::new();
    let mut tasks = JoinSet::new();
    let (here, elsewhere) =
        (ground.open_with_watchdog(STEADY).await, ground.open_with_watchdog(STEADY).await);
    for task in 0..8 {
        let locks = if task % 4 == 0 { elsewhere.clone() } else { here.clone() };
        let (name, section) = (ground.name("k"), Arc::clone(&section));
        let rounds = ground.crowd(120);
        tasks.spawn(async move {
            for round in 0..rounds {
                let guard = locks.mutex(&name).lock().await.expect("it gets free");
                section.enter();
                if task % 4 == 1 && round == rounds / 2 {
                    // Longer than the watchdog's timeout: lost unless it is renewed.
                    tokio::time::sleep(STEADY * 7 / 6).await;
                }
                section.leave();
                assert!(!guard.is_lost(), "lost in round {round} of task {task}");
                guard.unlock().await.expect("it was held");
            }
        });
    }
    everybody(tasks).await;
}

/// A crowd here, which passes the lock on among itself, leaves others their share.
pub async fn a_crowd_here_lets_others_elsewhere_in(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let mut crowd = JoinSet::new();
    for _ in 0..8 {
        let mutex = here.mutex(&name);
        crowd.spawn(async move {
            loop {
                let guard = mutex.lock().await.expect("it gets free");
                tokio::time::sleep(ms(1)).await;
                guard.unlock().await.expect("it was held");
            }
        });
    }
    for round in 0..5 {
        let turn = elsewhere.mutex(&name).lock().wait(secs(10)).await;
        let guard = turn.unwrap_or_else(|error| panic!("starved in round {round}: {error}"));
        guard.unlock().await.expect("it was held");
    }
    crowd.shutdown().await;
}
