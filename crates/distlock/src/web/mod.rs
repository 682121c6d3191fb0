//! Locks around web requests: a [tower](https://docs.rs/tower) layer (feature `tower`) and an
//! [axum](https://docs.rs/axum) extractor (feature `axum`).
//!
//! Both answer for themselves when the handler cannot be let in:
//!
//! | what | answer | `Retry-After` |
//! |---|---|---|
//! | the lock stayed busy for the whole wait | [`423 Locked`](Busy::Locked) or [`409 Conflict`](Busy::Conflict) | how long it is held at most, in whole seconds, at least 1 |
//! | the store cannot be reached, or the program is closing its locks | 503 | 1 |
//! | the lock was lost while the handler ran | 503 | 1 |
//! | the key makes no name for a lock: empty, or too long | 400 | |
//! | the locks are not set up as they should be | 500 | |
//!
//! The bodies are empty: what a lock or a store says is for the log (`tracing`, target `distlock`), not for the client.
//!
//! A client that goes away takes its request along: the handler's future is dropped, and with it the lock is released.

mod answer;
#[cfg(feature = "tower")]
mod layer;
#[cfg(feature = "axum")]
mod locked;

pub use answer::Busy;
#[cfg(feature = "tower")]
pub use layer::{LockLayer, LockService};
#[cfg(feature = "axum")]
pub use locked::{LockKey, Locked, Refused};
