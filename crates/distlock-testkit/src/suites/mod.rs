//! The promises of each kind of lock, for every store to keep.
//!
//! A promise is an async function whose name says it. It gets a [`Ground`], on which it opens as many `Locks` as it
//! wants, each as good as another process; it must leave nothing behind.

mod ground;
pub mod mutex;
mod watch;

pub use ground::{Ground, Site, stand};
pub use watch::{Recorder, Section, eventually};
