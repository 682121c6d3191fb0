//! The kit that other tests stand on, tested by itself.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod leak;
mod process;
mod proxy;
mod server;
mod shared;
mod sim;
