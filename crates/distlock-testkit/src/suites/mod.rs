//! The promises of each kind of lock, for every store to keep.
//!
//! A promise is an async function whose name says it. It gets a [`Ground`], on which it opens as many `Locks` as it
//! wants, each as good as another process; it must leave nothing behind.

mod exclusive;
pub mod fair;
pub mod fenced;
mod ground;
mod harness;
pub mod holder;
pub mod latch;
pub mod leased_semaphore;
pub mod multi;
pub mod mutex;
mod permits;
mod place;
mod promise;
pub mod redlock;
pub mod rw;
mod seed;
pub mod semaphore;
mod server;
pub mod simple;
pub mod spin;
mod times;
mod waiter;
mod watch;

pub use ground::{Ground, Site, stand};
pub use harness::main;
pub use promise::Promise;
pub use waiter::{Line, Waiter, in_line, queued, waiting};
pub(crate) use watch::everybody;
pub use watch::{Recorder, Section, eventually};
