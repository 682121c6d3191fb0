//! What `spin` promises.
