//! What every lock of one owner at a time promises, whichever kind it is: Redisson's own scenarios, which it has for each of
//! its kinds as well. The `mutex` has most of them, and more, in a suite of its own.

mod basics;
mod crowds;
mod server;

pub(crate) use basics::exclusive_promises;
pub(crate) use crowds::{exclusive_crowds, exclusive_meetings};
pub(crate) use server::exclusive_server;
