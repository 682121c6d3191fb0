//! What `leased_semaphore` promises.
