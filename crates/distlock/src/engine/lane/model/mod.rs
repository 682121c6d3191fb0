//! A model checker for lanes: the real [`Lane`](super::Lane) and the real [state machine of the store](crate::store::machine), with a network
//! between them that delays, loses and delivers late, and with callers that leave and processes that die.
//!
//! A breadth-first search of our own rather than a crate: ids and times must be made comparable before two states are (see
//! [`digest`](super::digest)), a counterexample is a list of [`Action`]s that a test can replay as it is, and it is one screen of code.
//!
//! `world.rs` is a state and what may happen to it; `network.rs` the messages; `properties.rs` what must hold. `bounds.rs` says which worlds
//! are searched.

mod bounds;
mod network;
mod properties;
mod search;
mod tests;
mod world;

pub(super) use world::{Numbers, mint, want};
