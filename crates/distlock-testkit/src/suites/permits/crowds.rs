//! Many at once.

use std::sync::Arc;

use distlock::Locks;
use tokio::task::JoinSet;

use super::{Kind, Room, counts, done};
use crate::suites::{Ground, everybody};

/// Goes in and out so often with one permit of `permits`.
pub(crate) async fn visitor<S: Kind>(
    locks: Locks,
    name: String,
    permits: u32,
    room: Arc<Room>,
    rounds: usize,
) {
    let semaphore = S::of(&locks, &name).with_permits(permits);
    for _ in 0..rounds {
        let one = semaphore.acquire(1).await.expect("one comes back");
        room.visit(1).await;
        one.release().await.expect("it was held");
    }
}

/// Everybody gave back what they had: at once, for all have said so.
pub(crate) async fn over(semaphore: &impl Kind, permits: u32) {
    assert_eq!(counts(semaphore).await, (i64::from(permits), 0));
    assert!(!semaphore.inspect().await.expect("the store answers").is_held());
    done(semaphore).await;
}

/// Redisson: testConcurrency_SingleInstance.
pub(crate) async fn as_many_tasks_as_permits_are_inside<S: Kind>(ground: Ground) {
    let (locks, name, room) = (ground.open().await, ground.name("s"), Room::with(3));
    let mut tasks = JoinSet::new();
    for _ in 0..30 {
        tasks.spawn(visitor::<S>(locks.clone(), name.clone(), 3, room.clone(), 3));
    }
    everybody(tasks).await;
    assert_eq!(room.entries(), 90);
    over(&S::of(&locks, &name), 3).await;
}

/// Redisson: testConcurrencyLoop_MultiInstance.
pub(crate) async fn sixteen_processes_in_a_loop_never_are_too_many<S: Kind>(ground: Ground) {
    let (name, room, rounds) = (ground.name("s"), Room::with(3), ground.crowd(60));
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        tasks.spawn(visitor::<S>(ground.open().await, name.clone(), 3, room.clone(), rounds));
    }
    everybody(tasks).await;
    assert_eq!(room.entries(), 16 * rounds as u64);
    over(&S::of(&ground.open().await, &name), 3).await;
}

/// Redisson: testConcurrency_MultiInstance_1_permits.
pub(crate) async fn one_permit_is_a_mutex<S: Kind>(ground: Ground) {
    let (name, room) = (ground.name("s"), Room::with(1));
    let mut tasks = JoinSet::new();
    for _ in 0..ground.crowd(60) {
        tasks.spawn(visitor::<S>(ground.open().await, name.clone(), 1, room.clone(), 2));
    }
    everybody(tasks).await;
    assert_eq!(room.entries(), 2 * ground.crowd(60) as u64);
    over(&S::of(&ground.open().await, &name), 1).await;
}

/// R#3573, R#3728: hundreds of semaphores with waiters starve nobody.
pub(crate) async fn hundreds_of_semaphores_starve_nobody<S: Kind>(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let count = ground.crowd(300);
    let names: Vec<String> = (0..count).map(|n| ground.name(&format!("s{n}"))).collect();
    let room = Room::with(u32::MAX);
    let mut tasks = JoinSet::new();
    for name in &names {
        for locks in [&here, &elsewhere, &here] {
            tasks.spawn(visitor::<S>(locks.clone(), name.clone(), 1, room.clone(), 2));
        }
    }
    everybody(tasks).await;
    assert_eq!(room.entries(), 6 * count as u64);
    for name in names {
        done(&S::of(&here, &name)).await;
    }
}
