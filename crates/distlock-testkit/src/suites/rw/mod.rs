//! What `rw` promises.
