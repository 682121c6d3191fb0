//! Against a real server, started for each test on a port of its own.

mod claims;
mod connections;
mod differential;
mod fair;
mod fenced;
mod given_up;
mod guarded;
mod multi;
mod one_owner;
mod permits;
mod played;
mod rw;
mod server;
mod simple;
mod subscriptions;

pub(super) use played::{LIMIT, Played};
pub(super) use server::{claim, owner};
