//! What must not get out, and what must not get in: passwords, and messages that anybody can send.
#![cfg(all(feature = "tls", feature = "cluster"))]

mod forged;
mod secrets;
