//! What `simple` promises.
