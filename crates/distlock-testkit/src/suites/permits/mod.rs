//! What every semaphore promises, whether its permits have leases or not: written once, kept by both kinds.
//!
//! A promise is a function of the kind, `promise::<Semaphore>`; [`kept_by`] makes it one of the kind's own suite.

pub(crate) mod cancel;
pub(crate) mod crowds;
pub(crate) mod faults;
pub(crate) mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use distlock::{
    Acquire, LeasedSemaphore, Locks, May, Must, Permits, Result, Semaphore, store::Snapshot,
};

use super::times::NO_LOOKING;
use super::{Ground, eventually};

/// A kind of semaphore.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    fn of(locks: &Locks, name: &str) -> Self;
    fn with_permits(self, permits: u32) -> Self;
    fn acquire(&self, permits: u32) -> Acquire<Permits, Must>;
    fn try_acquire(&self, permits: u32) -> Acquire<Permits, May>;
    async fn init(&self, permits: u32) -> Result<bool>;
    async fn add(&self, permits: i64) -> Result<i64>;
    async fn available(&self) -> Result<i64>;
    async fn inspect(&self) -> Result<Snapshot>;
    async fn delete(&self) -> Result<bool>;
    /// How many permits are known to be out.
    async fn out(&self) -> Result<i64>;
}

/// What both kinds do by the same names.
macro_rules! kind {
    ($kind:ident, $of:ident, $out:expr) => {
        impl Kind for $kind {
            fn of(locks: &Locks, name: &str) -> $kind {
                locks.$of(name)
            }

            fn with_permits(self, permits: u32) -> $kind {
                self.with_permits(permits)
            }

            fn acquire(&self, permits: u32) -> Acquire<Permits, Must> {
                self.acquire(permits)
            }

            fn try_acquire(&self, permits: u32) -> Acquire<Permits, May> {
                self.try_acquire(permits)
            }

            async fn init(&self, permits: u32) -> Result<bool> {
                self.init(permits).await
            }

            async fn add(&self, permits: i64) -> Result<i64> {
                self.add(permits).await
            }

            async fn available(&self) -> Result<i64> {
                self.available().await
            }

            async fn inspect(&self) -> Result<Snapshot> {
                self.inspect().await
            }

            async fn delete(&self) -> Result<bool> {
                self.delete().await
            }

            async fn out(&self) -> Result<i64> {
                ($out)(self).await
            }
        }
    };
}

// One holder for each acquisition, with its number.
kind!(Semaphore, semaphore, async |of: &Semaphore| {
    let holders = of.inspect().await?.holders;
    Ok(holders.iter().map(|holder| i64::from(holder.depth)).sum())
});
kind!(LeasedSemaphore, leased_semaphore, LeasedSemaphore::acquired);

/// Makes promises of a module here promises of this kind of semaphore, on a ground or a server.
macro_rules! kept_by {
    ($kind:ident, $suite:ident on $place:ident: $($promise:ident)*) => {
        $(
            /// See `suites::permits`.
            pub async fn $promise(place: $place) {
                crate::suites::permits::$suite::$promise::<distlock::$kind>(place).await;
            }
        )*
    };
}

pub(crate) use kept_by;

/// How many permits are left and how many are out.
pub(crate) async fn counts(semaphore: &impl Kind) -> (i64, i64) {
    let left = semaphore.available().await.expect("the store answers");
    (left, semaphore.out().await.expect("the store answers"))
}

/// Waits until so many permits are left and none is out.
async fn all_back(semaphore: &impl Kind, permits: u32) {
    let all = || async { counts(semaphore).await == (i64::from(permits), 0) };
    eventually("all are back", all).await;
}

/// The test is over: the number itself stays until somebody deletes it.
pub(crate) async fn done(semaphore: &impl Kind) {
    assert!(semaphore.delete().await.expect("the store answers"));
}

/// Two processes whose waiters do not look by themselves.
pub(crate) async fn two(ground: &Ground) -> (Locks, Locks) {
    let open = || ground.open_with_watchdog(NO_LOOKING);
    (open().await, open().await)
}

/// The semaphore of a test, as two such processes see it.
async fn two_sides<S: Kind>(ground: &Ground) -> (S, S) {
    let (here, elsewhere) = two(ground).await;
    let name = ground.name("s");
    (S::of(&here, &name), S::of(&elsewhere, &name))
}

/// A room with so many places that notices when there are too many inside.
#[derive(Debug)]
pub(crate) struct Room {
    places: i64,
    inside: AtomicI64,
    entries: AtomicU64,
}

impl Room {
    pub(crate) fn with(places: u32) -> Arc<Room> {
        let (inside, entries) = (AtomicI64::new(0), AtomicU64::new(0));
        Arc::new(Room { places: places.into(), inside, entries })
    }

    /// Goes in with so many, lets others run, and leaves.
    pub(crate) async fn visit(&self, count: u32) {
        let inside = self.inside.fetch_add(count.into(), Ordering::SeqCst) + i64::from(count);
        assert!(inside <= self.places, "{inside} are inside, there are {} places", self.places);
        self.entries.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.inside.fetch_sub(count.into(), Ordering::SeqCst);
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }
}
