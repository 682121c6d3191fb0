//! What `fair` promises.
