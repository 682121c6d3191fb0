//! What the promises of `promises` do not say: faults, bounds, shared loads and single features, on real servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bad_input;
mod blocking;
mod bounds;
mod cancel;
mod doctor;
mod durability;
mod exit;
#[cfg(target_os = "linux")]
mod file;
mod granted;
mod holder;
mod late;
mod loss;
mod lost_replies;
mod migration;
mod multi;
mod outage;
mod redlock;
mod run;
mod rw;
#[cfg(target_os = "linux")]
mod scale;
mod schedule;
mod security;
mod share;
mod undriven;
mod wake_up;
