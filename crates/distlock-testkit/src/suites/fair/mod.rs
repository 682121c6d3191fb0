//! One owner at a time, in the order in which they asked.

pub mod basics;
pub mod crowds;
