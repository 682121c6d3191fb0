//! Many at once.

use std::sync::Arc;

use distlock::Locks;
use tokio::task::JoinSet;

use super::{Room, done, left, secs};
use crate::suites::{Ground, eventually};

async fn all(mut tasks: JoinSet<()>) {
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    tokio::time::timeout(secs(60), every).await.expect("everybody gets in within a minute");
}

/// Goes in and out so often with one permit of `permits`.
async fn visitor(locks: Locks, name: String, permits: u32, room: Arc<Room>, rounds: usize) {
    let semaphore = locks.semaphore(&name).with_permits(permits);
    for _ in 0..rounds {
        let one = semaphore.acquire(1).await.expect("one comes back");
        room.visit(1).await;
        one.release().await.expect("it was held");
    }
}

async fn over(locks: &Locks, name: &str, permits: u32) {
    let semaphore = locks.semaphore(name);
    eventually("all are back", || async { left(&semaphore).await == i64::from(permits) }).await;
    assert!(!semaphore.inspect().await.expect("the store answers").is_held());
    done(&semaphore).await;
}

/// Redisson: testConcurrency_SingleInstance.
pub async fn as_many_tasks_as_permits_are_inside(ground: Ground) {
    let (locks, name, room) = (ground.open().await, ground.name("s"), Room::with(3));
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        tasks.spawn(visitor(locks.clone(), name.clone(), 3, room.clone(), 3));
    }
    all(tasks).await;
    assert_eq!(room.entries(), 90);
    over(&locks, &name, 3).await;
}

/// Redisson: testConcurrencyLoop_MultiInstance.
pub async fn sixteen_processes_in_a_loop_never_are_too_many(ground: Ground) {
    let (name, room, rounds) = (ground.name("s"), Room::with(3), ground.crowd(60));
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        tasks.spawn(visitor(ground.open().await, name.clone(), 3, room.clone(), rounds));
    }
    all(tasks).await;
    assert_eq!(room.entries(), 16 * rounds as u64);
    over(&ground.open().await, &name, 3).await;
}

/// Redisson: testConcurrencyLoopMax_MultiInstance.
pub async fn as_many_permits_as_java_can_count(ground: Ground) {
    let most = i32::MAX.unsigned_abs();
    let (name, room, rounds) = (ground.name("s"), Room::with(most), ground.crowd(60));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        tasks.spawn(visitor(ground.open().await, name.clone(), most, room.clone(), rounds));
    }
    all(tasks).await;
    let locks = ground.open().await;
    let most_of_them = locks.semaphore(&name).acquire(most - 1).await.expect("all are back");
    assert_eq!(left(&locks.semaphore(&name)).await, 1);
    most_of_them.release().await.expect("they were held");
    over(&locks, &name, most).await;
}

/// Redisson: testConcurrency_MultiInstance_1_permits.
pub async fn one_permit_is_a_mutex(ground: Ground) {
    let (name, room) = (ground.name("s"), Room::with(1));
    let mut tasks = JoinSet::new();
    for _ in 0..ground.crowd(60) {
        tasks.spawn(visitor(ground.open().await, name.clone(), 1, room.clone(), 2));
    }
    all(tasks).await;
    assert_eq!(room.entries(), 2 * ground.crowd(60) as u64);
    over(&ground.open().await, &name, 1).await;
}

/// R#3573, R#3728: hundreds of semaphores with waiters starve nobody.
pub async fn hundreds_of_semaphores_starve_nobody(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let count = ground.crowd(300);
    let names: Vec<String> = (0..count).map(|n| ground.name(&format!("s{n}"))).collect();
    let room = Room::with(u32::MAX);
    let mut tasks = JoinSet::new();
    for name in &names {
        for locks in [&here, &elsewhere, &here] {
            tasks.spawn(visitor(locks.clone(), name.clone(), 1, room.clone(), 2));
        }
    }
    all(tasks).await;
    assert_eq!(room.entries(), 6 * count as u64);
    for name in names {
        done(&here.semaphore(name)).await;
    }
}
