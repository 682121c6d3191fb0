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

use super::times::{HOUR, ms, secs};
