//! The promises of the `mutex`: Redisson's own scenarios for its plain lock, and what this library adds.

pub mod closing;
pub mod crowds;
pub mod exclusion;
pub mod handover;
pub mod leases;
pub mod loss;
pub mod ownership;
pub mod queries;
pub mod reentry;
pub mod server;
pub mod threads;

use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const HOUR: Duration = secs(3600);
