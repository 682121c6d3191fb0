//! Locks around web requests: a [tower](https://docs.rs/tower) layer (feature `tower`) and an
//! [axum](https://docs.rs/axum) extractor (feature `axum`).
//!
//! Both answer for themselves when the handler cannot be let in. With the feature `axum`, an [`Error`](crate::Error) that a handler returns is answered in
//! the same way:
//!
//! | what | answer | `Retry-After` |
//! |---|---|---|
//! | the lock stayed busy for the whole wait (`WaitTimeout`) | [`423 Locked`](Busy::Locked), or of a layer or extractor [`409 Conflict`](Busy::Conflict) | when it is free at the latest unless it is renewed, in whole seconds, at least 1 |
//! | the store cannot be reached, or the program is closing its locks | 503 | 1 |
//! | the lock was lost while the handler ran | 503 | 1 |
//! | the key makes no name for a lock: empty, or too long | 400 | |
//! | the locks are not set up as they should be | 500 | |
//!
//! A lock without a lease is renewed for as long as its handler runs: what is left of it is the rest of the watchdog's time-out (up to
//! 30 s, see [`Builder::watchdog`](crate::Builder::watchdog)), and says nothing about the handler. With [`LockLayer::lease`] or
//! [`LockKey::LEASE`], set to what a handler takes at most, `Retry-After` is a figure that fits.
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
