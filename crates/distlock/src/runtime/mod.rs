//! Time, tasks, pauses and time-outs: what the rest of the crate runs on.

pub(crate) mod backoff;
pub mod duration;
pub mod env;
pub(crate) mod join;
pub(crate) mod timeout;

pub use backoff::{Backoff, WaitBy};
