//! What locks need of a server is known, and what a server lacks is said.
#![cfg(feature = "redis")]

mod cycles;
mod permissions;
