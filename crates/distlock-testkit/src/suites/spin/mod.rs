//! The promises of the `spin` lock: Redisson's own scenarios, and how often it asks.

pub mod basics;
pub mod crowds;
pub mod polling;
pub mod server;
