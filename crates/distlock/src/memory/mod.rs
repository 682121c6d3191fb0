//! The store of `memory:`: a table of entries in this process.

mod store;
mod table;

pub(crate) use store::MemoryStore;
