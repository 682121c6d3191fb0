//! What `latch` promises.
