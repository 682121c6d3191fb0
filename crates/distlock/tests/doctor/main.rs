//! What locks need of a server is known, and what a server lacks is said.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cycles;
mod faults;
mod permissions;
mod places;
mod report;
#[cfg(all(feature = "cluster", feature = "sentinel"))]
mod several;
