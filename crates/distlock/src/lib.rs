//! Distributed locks on Redisson's wire format.

mod config;
mod engine;
pub mod env;
mod error;
#[cfg(feature = "file")]
mod file;
mod guard;
mod kinds;
mod locks;
mod memory;
mod observe;
mod owner;
#[cfg(feature = "redis")]
mod redis;
mod request;
pub mod store;

pub use engine::State;
pub use error::{Error, ErrorKind, Result};
pub use guard::Guard;
pub use kinds::Mutex;
pub use locks::{Builder, Locks};
pub use observe::{Event, Observer, Subject, Tracing};
pub use owner::Owner;
pub use request::{Acquire, May, Must};

/// How connections to a server are made, for those who bring their own network.
#[cfg(feature = "redis")]
pub mod net {
    pub use crate::redis::{Connector, Endpoint, Net, Stream, TlsOptions};
}
