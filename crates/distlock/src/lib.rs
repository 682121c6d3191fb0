//! Distributed locks on Redisson's wire format.

mod config;
pub mod env;
mod error;
#[cfg(feature = "file")]
mod file;
mod observe;
mod owner;
#[cfg(feature = "redis")]
mod redis;
pub mod store;

pub use error::{Error, ErrorKind, Result};
pub use observe::{Event, Observer, Subject, Tracing};
pub use owner::Owner;
#[cfg(feature = "redis")]
pub use redis::{Connector, Endpoint, Net, Stream, TlsOptions};
