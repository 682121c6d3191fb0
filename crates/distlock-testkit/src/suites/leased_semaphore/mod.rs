//! The promises of the `leased_semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod ids;
pub mod leases;
pub mod waiting;

use distlock::{LeasedSemaphore, PermitId};

use super::permits::{counts, done};
use super::times::{HOUR, ms, secs};

/// Whether this permit is out.
async fn is_out(semaphore: &LeasedSemaphore, id: PermitId) -> bool {
    semaphore.remaining(id).await.expect("the store answers").is_some()
}
