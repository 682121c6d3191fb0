//! One process: a table of state machines.

mod store;
mod table;

pub(crate) use store::MemoryStore;
