//! What `redlock` promises.
