//! What `fenced` promises.
