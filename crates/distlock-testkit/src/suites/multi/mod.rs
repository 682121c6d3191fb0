//! What `multi` promises.
