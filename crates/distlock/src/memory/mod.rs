//! One process: a table of state machines.

mod table;

pub(crate) use table::MemoryStore;
