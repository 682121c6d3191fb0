//! The read-write lock keeps its promises on every store.

mod cancel;
