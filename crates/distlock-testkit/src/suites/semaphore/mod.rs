//! The promises of the `semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod holding;
pub mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use distlock::Semaphore;

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) const HOUR: Duration = secs(3600);

/// Long enough that no waiter looks by itself while a test runs: whoever gets in was woken.
pub(super) const NO_LOOKING: Duration = secs(3600);

/// How many permits are left.
async fn left(semaphore: &Semaphore) -> i64 {
    semaphore.available().await.expect("the store answers")
}

/// The test is over: the number itself stays until somebody deletes it.
async fn done(semaphore: &Semaphore) {
    assert!(semaphore.delete().await.expect("the store answers"));
}

/// A room with so many places that notices when there are too many inside.
#[derive(Debug)]
pub(super) struct Room {
    places: i64,
    inside: AtomicI64,
    entries: AtomicU64,
}

impl Room {
    pub(super) fn with(places: u32) -> Arc<Room> {
        let (inside, entries) = (AtomicI64::new(0), AtomicU64::new(0));
        Arc::new(Room { places: places.into(), inside, entries })
    }

    /// Goes in with so many, lets others run, and leaves.
    pub(super) async fn visit(&self, count: u32) {
        let inside = self.inside.fetch_add(count.into(), Ordering::SeqCst) + i64::from(count);
        assert!(inside <= self.places, "{inside} are inside, there are {} places", self.places);
        self.entries.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inside.fetch_sub(count.into(), Ordering::SeqCst);
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }
}
