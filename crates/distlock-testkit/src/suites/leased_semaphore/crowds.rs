//! Many at once.

use std::sync::Arc;

use distlock::Locks;
use tokio::task::JoinSet;

use super::{Room, counts, done, ms, secs};
use crate::suites::{Ground, eventually};

async fn all(mut tasks: JoinSet<()>) {
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    tokio::time::timeout(secs(60), every).await.expect("everybody gets in within a minute");
}

async fn visitor(locks: Locks, name: String, room: Arc<Room>, rounds: usize) {
    let semaphore = locks.leased_semaphore(&name).with_permits(3);
    for _ in 0..rounds {
        let one = semaphore.acquire(1).await.expect("one comes back");
        room.visit(1).await;
        one.release().await.expect("it was held");
    }
}

/// Redisson: testConcurrency_SingleInstance.
pub async fn as_many_tasks_as_permits_are_inside(ground: Ground) {
    let (locks, name, room) = (ground.open().await, ground.name("s"), Room::with(3));
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        tasks.spawn(visitor(locks.clone(), name.clone(), room.clone(), 3));
    }
    all(tasks).await;
    assert_eq!(room.entries(), 90);
    let semaphore = locks.leased_semaphore(&name);
    assert_eq!(counts(&semaphore).await, (3, 0));
    done(&semaphore).await;
}

/// Redisson: testConcurrencyLoop_MultiInstance.
pub async fn sixteen_processes_in_a_loop_never_are_too_many(ground: Ground) {
    let (name, room, rounds) = (ground.name("s"), Room::with(3), ground.crowd(60));
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        tasks.spawn(visitor(ground.open().await, name.clone(), room.clone(), rounds));
    }
    all(tasks).await;
    assert_eq!(room.entries(), 16 * rounds as u64);
    let locks = ground.open().await;
    assert_eq!(counts(&locks.leased_semaphore(&name)).await, (3, 0));
    done(&locks.leased_semaphore(&name)).await;
}

/// Some let go, some let their leases end, some forget: in the end every permit is back, and never were too many out.
pub async fn expired_permits_come_back_exactly_once(ground: Ground) {
    let name = ground.name("s");
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let semaphore = ground.open().await.leased_semaphore(&name).with_permits(4);
        tasks.spawn(async move {
            for round in 0..8 {
                let count = 1 + (process + round) % 3;
                let permits =
                    semaphore.acquire(count).lease(ms(120)).await.expect("they come back");
                assert!(semaphore.acquired().await.expect("the store answers") <= 4);
                match (process + round) % 4 {
                    0 => drop(permits),
                    1 => drop(permits.leak()),
                    2 => {
                        permits.lost().await;
                        assert!(permits.release().await.is_err(), "too late");
                    }
                    _ => drop(permits.release().await),
                }
            }
        });
    }
    all(tasks).await;
    let semaphore = ground.open().await.leased_semaphore(&name);
    eventually("all are back", || async { counts(&semaphore).await == (4, 0) }).await;
    done(&semaphore).await;
}
