//! The promises of the `leased_semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod ids;
pub mod leases;
pub mod waiting;

use distlock::{LeasedSemaphore, PermitId};

use super::semaphore::{HOUR, NO_LOOKING, Room, ms, secs};

/// How many permits are left and how many are out.
async fn counts(semaphore: &LeasedSemaphore) -> (i64, i64) {
    let left = semaphore.available().await.expect("the store answers");
    (left, semaphore.acquired().await.expect("the store answers"))
}

/// Whether this permit is out.
async fn is_out(semaphore: &LeasedSemaphore, id: PermitId) -> bool {
    semaphore.remaining(id).await.expect("the store answers").is_some()
}

/// The test is over: the number itself stays until somebody deletes it.
async fn done(semaphore: &LeasedSemaphore) {
    assert!(semaphore.delete().await.expect("the store answers"));
}
