//! The promises of the `simple` lock: those of every lock of one owner, and that it gets along with other clients.

pub mod basics;
pub mod crowds;
pub mod redis_py;
pub mod server;
