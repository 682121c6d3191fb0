//! The promises of the `fenced` lock: Redisson's own scenarios, the numbers, those who check them, and commands under a guard.

pub mod basics;
pub mod crowds;
pub mod gates;
pub mod guarded;
pub mod server;
pub mod tokens;
