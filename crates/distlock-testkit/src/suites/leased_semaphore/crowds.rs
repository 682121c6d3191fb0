//! Many at once.

use tokio::task::JoinSet;

use super::{counts, done, ms};
use crate::suites::{Ground, eventually, everybody};

crate::suites::permits::kept_by! {
    LeasedSemaphore, crowds on Ground:
    as_many_tasks_as_permits_are_inside
    sixteen_processes_in_a_loop_never_are_too_many
    one_permit_is_a_mutex
    hundreds_of_semaphores_starve_nobody
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
    everybody(tasks).await;
    let semaphore = ground.open().await.leased_semaphore(&name);
    eventually("all are back", || async { counts(&semaphore).await == (4, 0) }).await;
    done(&semaphore).await;
}
