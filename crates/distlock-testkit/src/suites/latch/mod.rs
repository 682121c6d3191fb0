//! The promises of the `latch`: Redisson's own scenarios, and what this library adds.

pub mod counting;
pub mod crowds;
pub mod faults;
pub mod waiting;

use distlock::Latch;

use super::times::{NO_LOOKING, ms, secs};

async fn count(latch: &Latch) -> i64 {
    latch.count().await.expect("the store answers")
}

async fn count_down(latch: &Latch) -> i64 {
    latch.count_down().await.expect("the store answers")
}
