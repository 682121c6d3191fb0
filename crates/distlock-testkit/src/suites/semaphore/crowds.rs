//! Many at once.

use distlock::Semaphore;
use tokio::task::JoinSet;

use super::left;
use crate::suites::permits::Room;
use crate::suites::permits::crowds::{over, visitor};
use crate::suites::{Ground, everybody};

crate::suites::permits::kept_by! {
    Semaphore, crowds on Ground:
    as_many_tasks_as_permits_are_inside
    sixteen_processes_in_a_loop_never_are_too_many
    one_permit_is_a_mutex
    hundreds_of_semaphores_starve_nobody
}

/// Redisson: testConcurrencyLoopMax_MultiInstance.
pub async fn as_many_permits_as_java_can_count(ground: Ground) {
    let most = i32::MAX.unsigned_abs();
    let (name, room, rounds) = (ground.name("s"), Room::with(most), ground.crowd(60));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let process = ground.open().await;
        tasks.spawn(visitor::<Semaphore>(process, name.clone(), most, room.clone(), rounds));
    }
    everybody(tasks).await;
    let semaphore = ground.open().await.semaphore(&name);
    let most_of_them = semaphore.acquire(most - 1).await.expect("all are back");
    assert_eq!(left(&semaphore).await, 1);
    most_of_them.release().await.expect("they were held");
    over(&semaphore, most).await;
}
