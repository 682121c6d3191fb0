//! Many at once.

use tokio::task::JoinSet;

use super::{Room, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Ground, everybody};

/// Redisson: testConcurrency_SingleInstance.
pub async fn tasks_of_one_process_never_write_beside_anybody(ground: Ground) {
    let locks = ground.open().await;
    let room = Room::new();
    let mut tasks = JoinSet::new();
    for task in 0..15 {
        let (rw, room) = (locks.rw(ground.name("k")), room.clone());
        tasks.spawn(async move {
            for round in 0..4 {
                if (task + round) % 3 == 0 {
                    let guard = rw.write().await.expect("it gets free");
                    room.write().await;
                    guard.unlock().await.expect("it was held");
                } else {
                    let guard = rw.read().await.expect("it gets free");
                    room.read().await;
                    guard.unlock().await.expect("it was held");
                }
            }
        });
    }
    everybody(tasks).await;
    assert_eq!((room.reads(), room.writes()), (40, 20));
}

/// Redisson: testConcurrency_MultiInstance.
pub async fn a_hundred_processes_never_write_beside_anybody(ground: Ground) {
    let count = ground.crowd(100);
    let room = Room::new();
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let (locks, name, room) = (ground.open().await, ground.name("k"), room.clone());
        tasks.spawn(async move {
            if number % 4 == 0 {
                let guard = locks.rw(name).write().await.expect("it gets free");
                room.write().await;
                guard.unlock().await.expect("it was held");
            } else {
                let guard = locks.rw(name).read().await.expect("it gets free");
                room.read().await;
                guard.unlock().await.expect("it was held");
            }
        });
    }
    everybody(tasks).await;
    assert_eq!((room.reads() + room.writes()) as usize, count);
}

/// Redisson: testConcurrencyLoop_MultiInstance. Several processes with several tasks each: single tries, short waits and long
/// ones, leases, dropped guards, reads inside writes and downgrades.
pub async fn every_way_in_and_out_excludes(ground: Ground) {
    let rounds = ground.crowd(60);
    let room = Room::new();
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let locks = ground.open().await;
        for task in 0..4 {
            let (locks, name, room) = (locks.clone(), ground.name("k"), room.clone());
            tasks.spawn(async move {
                let rw = locks.rw(&name);
                for round in 0..rounds {
                    match (process + 3 * task + round) % 8 {
                        0 => {
                            let guard = rw.write().await.expect("it gets free");
                            room.write().await;
                            guard.unlock().await.expect("it was held");
                        }
                        1 => {
                            let tried = rw.try_write().await.expect("the store answers");
                            if let Some(_guard) = tried {
                                room.write().await;
                            }
                        }
                        2 => {
                            let tried = rw.try_write().wait(ms(3)).await;
                            if let Some(guard) = tried.expect("the store answers") {
                                room.write().await;
                                guard.unlock().await.expect("it was held");
                            }
                        }
                        3 => {
                            let writing = rw.write().lease(secs(30)).await.expect("it gets free");
                            room.write().await;
                            let reading = writing.downgrade().await.expect("it was held");
                            room.read().await;
                            reading.unlock().await.expect("it was held");
                        }
                        4 => {
                            let writing = rw.write().await.expect("it gets free");
                            let reading = rw.read().owner(writing.owner()).await;
                            let _reading = reading.expect("the writer may read");
                            drop(writing);
                            room.read().await;
                        }
                        5 => {
                            let tried = rw.try_read().await.expect("the store answers");
                            if let Some(_guard) = tried {
                                room.read().await;
                            }
                        }
                        _ => {
                            let guard = rw.read().await.expect("it gets free");
                            room.read().await;
                            guard.unlock().await.expect("it was held");
                        }
                    }
                }
            });
        }
    }
    everybody(tasks).await;
    assert!(room.reads() > 0 && room.writes() > 0);
}

/// Redisson: testReadLockExpirationRenewal. R#1604: every reader is renewed, not only one.
pub async fn fifty_readers_outlive_the_watchdogs_timeout(ground: Ground) {
    let (here, elsewhere) =
        (ground.open_with_watchdog(STEADY).await, ground.open_with_watchdog(STEADY).await);
    let name = ground.name("k");
    let mut guards = Vec::new();
    for number in 0..50 {
        let locks = if number % 2 == 0 { &here } else { &elsewhere };
        guards.push(locks.rw(&name).read().await.expect("only readers are inside"));
    }
    tokio::time::sleep(STEADY * 7 / 6).await;
    let seen = here.rw(&name).inspect().await.expect("the store answers");
    assert_eq!(seen.holders.len(), 50, "all are still there");
    for guard in guards {
        assert!(!guard.is_lost());
        guard.unlock().await.expect("it was held");
    }
}
