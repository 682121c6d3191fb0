//! Redisson's kinds that count.

use std::time::{Duration, SystemTime};

use super::thread::{millis, spell};
use super::{Pending, Spell, Thread};

macro_rules! handle {
    ($(#[$doc:meta])* $handle:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $handle {
            thread: Thread,
            name: String,
        }

        impl $handle {
            pub(super) fn new(thread: Thread, name: &str) -> $handle {
                $handle { thread, name: name.to_owned() }
            }

            fn command(&self, operation: &str, arguments: impl std::fmt::Display) -> String {
                format!("{} {operation} {} {arguments}", $word, self.name)
            }
        }
    };
}

handle!(
    /// An `RSemaphore`, used by one thread.
    Semaphore,
    "semaphore"
);
handle!(
    /// An `RPermitExpirableSemaphore`, used by one thread.
    LeasedPermits,
    "permits"
);
handle!(
    /// An `RCountDownLatch`, used by one thread.
    Latch,
    "latch"
);

impl Semaphore {
    /// `trySetPermits(n)`: whether there was none before.
    pub fn try_set(&self, n: u32) -> Pending<bool> {
        self.thread.send(&self.command("trySetPermits", n), |answer| answer.truth())
    }

    /// `acquire(n)`: waits for as long as it takes.
    pub fn acquire(&self, n: u32) -> Pending<Spell> {
        self.thread.send(&self.command("acquire", n), spell)
    }

    /// `tryAcquire(n, wait)`.
    pub fn try_acquire(&self, n: u32, wait: Duration) -> Pending<bool> {
        let arguments = format!("{n} {}", wait.as_millis());
        self.thread.send(&self.command("tryAcquire", arguments), |answer| answer.truth())
    }

    /// `release(n)`.
    pub fn release(&self, n: u32) -> Pending<Spell> {
        self.thread.send(&self.command("release", n), spell)
    }

    /// `addPermits(n)`.
    pub fn add(&self, n: i32) -> Pending<Spell> {
        self.thread.send(&self.command("add", n), spell)
    }

    /// `availablePermits()`.
    pub fn available(&self) -> Pending<i64> {
        self.thread.send(&self.command("available", ""), |answer| answer.number())
    }

    /// `drainPermits()`: how many there were.
    pub fn drain(&self) -> Pending<i64> {
        self.thread.send(&self.command("drain", ""), |answer| answer.number())
    }
}

/// Permits that were taken.
#[derive(Clone, Debug)]
pub struct Ids {
    /// Their ids; none where there were no permits in time.
    pub ids: Vec<String>,
    /// When Java knew of it, by the machine's clock.
    pub at: SystemTime,
}

impl LeasedPermits {
    /// `trySetPermits(n)`: whether there was none before.
    pub fn try_set(&self, n: u32) -> Pending<bool> {
        self.thread.send(&self.command("trySetPermits", n), |answer| answer.truth())
    }

    /// `setPermits(n)`.
    pub fn set(&self, n: u32) -> Pending<Spell> {
        self.thread.send(&self.command("setPermits", n), spell)
    }

    /// `acquire(n, lease)`: waits for as long as it takes. Without a lease they are for ever.
    pub fn acquire(&self, n: u32, lease: Option<Duration>) -> Pending<Ids> {
        let arguments = format!("{n} {}", millis(lease));
        let read = |answer: super::Answer| Ids { ids: answer.words(), at: answer.at() };
        self.thread.send(&self.command("acquire", arguments), read)
    }

    /// `tryAcquire(n, wait, lease)`.
    pub fn try_acquire(&self, n: u32, wait: Duration, lease: Option<Duration>) -> Pending<Ids> {
        let arguments = format!("{n} {} {}", wait.as_millis(), millis(lease));
        let read = |answer: super::Answer| Ids { ids: answer.words(), at: answer.at() };
        self.thread.send(&self.command("tryAcquire", arguments), read)
    }

    /// `release(ids)`: throws unless all are out.
    pub fn release(&self, ids: &[String]) -> Pending<Spell> {
        self.thread.send(&self.command("release", ids.join(" ")), spell)
    }

    /// `tryRelease(ids)`: how many were released, all or none.
    pub fn try_release(&self, ids: &[String]) -> Pending<i64> {
        self.thread.send(&self.command("tryRelease", ids.join(" ")), |answer| answer.number())
    }

    /// `release(id)`: throws unless it is out.
    pub fn release_one(&self, id: &str) -> Pending<Spell> {
        self.thread.send(&self.command("releaseOne", id), spell)
    }

    /// `tryRelease(id)`: whether it was out.
    pub fn try_release_one(&self, id: &str) -> Pending<bool> {
        self.thread.send(&self.command("tryReleaseOne", id), |answer| answer.truth())
    }

    /// `updateLeaseTime(id, lease)`: whether it was out.
    pub fn update_lease(&self, id: &str, lease: Duration) -> Pending<bool> {
        let arguments = format!("{id} {}", lease.as_millis());
        self.thread.send(&self.command("updateLease", arguments), |answer| answer.truth())
    }

    /// `addPermits(n)`.
    pub fn add(&self, n: i32) -> Pending<Spell> {
        self.thread.send(&self.command("add", n), spell)
    }

    /// `availablePermits()`.
    pub fn available(&self) -> Pending<i64> {
        self.thread.send(&self.command("available", ""), |answer| answer.number())
    }

    /// `acquiredPermits()`.
    pub fn acquired(&self) -> Pending<i64> {
        self.thread.send(&self.command("acquired", ""), |answer| answer.number())
    }

    /// `getPermits()`.
    pub fn total(&self) -> Pending<i64> {
        self.thread.send(&self.command("total", ""), |answer| answer.number())
    }
}

impl Latch {
    /// `trySetCount(n)`: whether there was none before.
    pub fn try_set(&self, n: u32) -> Pending<bool> {
        self.thread.send(&self.command("trySetCount", n), |answer| answer.truth())
    }

    /// `countDown()`.
    pub fn count_down(&self) -> Pending<Spell> {
        self.thread.send(&self.command("countDown", ""), spell)
    }

    /// `await()`: waits for as long as it takes.
    pub fn wait(&self) -> Pending<Spell> {
        self.thread.send(&self.command("await", ""), spell)
    }

    /// `await(wait)`: whether it opened.
    pub fn wait_for(&self, wait: Duration) -> Pending<bool> {
        self.thread.send(&self.command("awaitFor", wait.as_millis()), |answer| answer.truth())
    }

    /// `getCount()`.
    pub fn count(&self) -> Pending<i64> {
        self.thread.send(&self.command("count", ""), |answer| answer.number())
    }

    /// `delete()`: whether there was one.
    pub fn delete(&self) -> Pending<bool> {
        self.thread.send(&self.command("delete", ""), |answer| answer.truth())
    }
}
