//! The promises of `rw`: Redisson's own scenarios for its read-write lock, and what this library adds.

pub mod crowds;
pub mod downgrade;
pub mod exclusion;
pub mod leases;
pub mod loss;
pub mod queries;
pub mod reentry;
pub mod server;
pub mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use distlock::Rw;

use super::times::{HOUR, ms, secs};

/// Whether one attempt to read succeeds.
async fn may_read(rw: &Rw) -> bool {
    rw.try_read().await.expect("the store answers").is_some()
}

/// Whether one attempt to write succeeds.
async fn may_write(rw: &Rw) -> bool {
    rw.try_write().await.expect("the store answers").is_some()
}

/// What the lock protects: notices when a writer is not alone.
#[derive(Debug, Default)]
struct Room {
    readers: AtomicU32,
    writers: AtomicU32,
    reads: AtomicU32,
    writes: AtomicU32,
}

impl Room {
    fn new() -> Arc<Room> {
        Arc::default()
    }

    /// Reads, while others run.
    async fn read(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "somebody writes while one reads");
        tokio::task::yield_now().await;
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "somebody writes while one reads");
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    /// Writes, while others run.
    async fn write(&self) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "two write at once");
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "somebody reads while one writes");
        tokio::task::yield_now().await;
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "somebody reads while one writes");
        self.writers.fetch_sub(1, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    fn reads(&self) -> u32 {
        self.reads.load(Ordering::SeqCst)
    }

    fn writes(&self) -> u32 {
        self.writes.load(Ordering::SeqCst)
    }
}
