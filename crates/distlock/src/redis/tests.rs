//! Against a real server, started for each test on a port of its own.

mod claims;
mod connections;
mod differential;
mod fair;
mod server;
mod subscriptions;
