//! The simulator: the real library in several processes of one thread, on virtual time, over a network and a server that misbehave.
//!
//! ```text
//!   worker   worker       worker          what a program does: acquire, work, release, cancel      worker.rs, guards.rs
//!      \       /             |
//!       Locks (p0)        Locks (p1)      the real library: kinds, engine, watchdog
//!         |   Env            |   Env      virtual time, seeded chance; stalls and kills a process   process.rs
//!      SimStore           SimStore        trait Store over simulated connections                    link.rs
//!         |  |  |            |  |  |
//!         network: delays, loses, duplicates, delivers late, cuts                                   network/
//!                   |
//!                 server: the library's own state machines; fails over, restarts, pauses            server/
//!
//!   plan.rs, draw.rs: one seed -> everything above     world.rs, finale.rs: the run
//!   check.rs: what must never be seen                  trace.rs: what was seen
//! ```
//!
//! One seed is one run: the plan, every delay and every fault come from it, and the trace of two runs is the same text.
//!
//! [`Mode::Safety`] has faults until the end and judges what is never allowed: two holders at once, a token that does not rise, a call that
//! does not end. [`Mode::Liveness`] ends all faults at one moment and judges what must then happen: waiters acquire, and nothing is
//! left behind.
//!
//! A [`Bug`] is planted in the server to show that the checks find it.

mod check;
mod draw;
mod entry;
mod finale;
mod guards;
mod link;
mod message;
mod network;
mod plan;
mod process;
mod server;
mod trace;
mod worker;
mod world;

pub use plan::{Bug, Mode, Plan};
pub use world::{Run, run};
