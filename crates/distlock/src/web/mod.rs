//! Locks around web requests: a [tower](https://docs.rs/tower) layer (feature `tower`) and an
//! [axum](https://docs.rs/axum) extractor (feature `axum`).
//!
//! Both respond by themselves when the lock is not acquired. With the feature `axum`, an [`Error`](crate::Error) that a handler returns has
//! the same response:
//!
//! | cause | response | `Retry-After` |
//! |---|---|---|
//! | the lock stayed busy for the whole wait (`WaitTimeout`) | [`423 Locked`](Busy::Locked), or of a layer or extractor [`409 Conflict`](Busy::Conflict) | the time to live of the lock, which a renewal extends, in whole seconds, at least 1 |
//! | the store cannot be reached, or the program is closing its locks | 503 | 1 |
//! | the lock was lost while the handler ran | 503 | 1 |
//! | the key makes no name for a lock: empty, or too long | 400 | |
//! | the locks are configured wrongly, or the name holds something else | 500 | |
//!
//! A lock without a lease is renewed for as long as its handler runs: its time to live is the rest of the watchdog's timeout (up to
//! 30 s, see [`Builder::watchdog`](crate::Builder::watchdog)), and does not depend on the handler. With [`LockLayer::lease`] or
//! [`LockKey::LEASE`], set to the longest time that a handler takes, `Retry-After` fits.
//!
//! The bodies are empty: the messages of errors are for the log (`tracing`, target `distlock`), not for the client.
//!
//! When a client disconnects, the handler's future is dropped, and the lock is released.

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
