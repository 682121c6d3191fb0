//! What `semaphore` promises.
