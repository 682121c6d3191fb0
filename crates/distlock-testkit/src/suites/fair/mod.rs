//! One owner at a time, in the order in which they asked.

pub mod basics;
pub mod crowds;
pub mod deaths;
pub mod drift;
pub mod faults;
mod line;
pub mod order;
pub mod places;
pub mod server;
mod wire;
