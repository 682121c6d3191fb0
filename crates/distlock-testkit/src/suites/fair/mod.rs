//! One owner at a time, in the order in which they asked.

pub mod basics;
pub mod crowds;
mod line;
pub mod order;
pub mod places;
