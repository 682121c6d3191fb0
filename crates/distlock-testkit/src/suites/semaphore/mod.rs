//! The promises of the `semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod holding;
pub mod waiting;

use distlock::Semaphore;

use super::permits::done;
use super::times::{HOUR, ms, secs};

/// How many permits are left.
async fn left(semaphore: &Semaphore) -> i64 {
    semaphore.available().await.expect("the store answers")
}
