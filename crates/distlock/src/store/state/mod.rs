//! The pure state machines: entry, claim and time in; entry and answer out. No I/O, no clock.
//!
//! The memory and file stores run them, and so do property tests and model checkers. The Redis scripts do the same to
//! Redisson's data layout; differential tests keep the two equal.

pub mod exclusive;
