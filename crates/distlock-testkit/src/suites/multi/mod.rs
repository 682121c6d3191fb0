//! The promises of the `multi` lock: Redisson's own scenarios for its multi-lock, and what this library adds.
//!
//! Each is kept with all members in one store and with one member in each of several.

pub mod basics;
pub mod crowds;
pub mod kinds;
pub mod leases;
pub mod loss;
pub mod reentry;

use std::future::Future;
use std::time::Duration;

use distlock::{Locks, MultiLock, Mutex};

use super::times::{HOUR, ms, secs};
use super::{Ground, Site};
use crate::Stopwatch;

/// Where the members are.
#[derive(Clone, Debug)]
pub struct Field {
    grounds: Vec<Ground>,
    names: Vec<String>,
}

/// Has the stores at `sites` keep a promise, and leave nothing behind: one store has three members, several have one each.
/// Says so where a store is not installed.
pub async fn stand<F: Future<Output = ()>>(sites: &[Site], promise: impl FnOnce(Field) -> F) {
    let Some(field) = Field::at(sites) else { return };
    promise(field.clone()).await;
    for ground in &field.grounds {
        ground.assert_clean().await;
    }
}

impl Field {
    /// The stores at `sites`; `None` if one is not installed.
    pub fn at(sites: &[Site]) -> Option<Field> {
        let grounds: Option<Vec<Ground>> = sites.iter().map(|site| Ground::at(*site)).collect();
        let grounds = grounds?;
        let names = match &grounds[..] {
            [one] => ["a", "b", "c"].iter().map(|name| one.name(name)).collect(),
            several => several.iter().map(|ground| ground.name("k")).collect(),
        };
        Some(Field { grounds, names })
    }

    /// One more process: a `Locks` of its own on every store.
    pub async fn process(&self) -> Process {
        self.process_with_watchdog(secs(30)).await
    }

    /// The same with a watchdog timeout.
    pub async fn process_with_watchdog(&self, timeout: Duration) -> Process {
        let mut locks = Vec::new();
        for ground in &self.grounds {
            locks.push(ground.open_with_watchdog(timeout).await);
        }
        Process { locks, names: self.names.clone() }
    }

    /// How many members there are.
    pub fn size(&self) -> usize {
        self.names.len()
    }

    /// By how much something may be late.
    pub fn slack(&self) -> Duration {
        self.grounds.iter().map(Ground::slack).max().unwrap_or_default()
    }

    /// Counts time for a limit that tells one cause of a delay from another.
    pub fn stopwatch(&self) -> Stopwatch {
        self.grounds[0].stopwatch()
    }

    /// A size for a crowd that these stores get through in a second or two.
    pub fn crowd(&self, full: usize) -> usize {
        self.grounds.iter().map(|ground| ground.crowd(full)).min().unwrap_or(full)
    }

    /// Whether all members are in one store.
    pub fn is_one_store(&self) -> bool {
        self.grounds.len() == 1
    }
}

/// A process that locks the members of a [`Field`].
#[derive(Clone, Debug)]
pub struct Process {
    locks: Vec<Locks>,
    names: Vec<String>,
}

impl Process {
    /// The store of a member.
    pub fn store(&self, at: usize) -> &Locks {
        self.locks.get(at).unwrap_or(&self.locks[0])
    }

    /// One of the members, alone.
    pub fn member(&self, at: usize) -> Mutex {
        self.store(at).mutex(&self.names[at])
    }

    /// The full name of a member.
    pub fn name(&self, at: usize) -> &str {
        &self.names[at]
    }

    /// All members as one.
    pub fn all(&self) -> MultiLock {
        self.some(0..self.names.len())
    }

    /// Some of the members as one, in this order.
    pub fn some(&self, members: impl IntoIterator<Item = usize>) -> MultiLock {
        MultiLock::new(members.into_iter().map(|at| self.member(at).into()))
    }

    /// Which members are held, by anybody.
    ///
    /// # Panics
    /// When a store does not answer.
    pub async fn held(&self) -> Vec<bool> {
        let mut held = Vec::new();
        for at in 0..self.names.len() {
            held.push(self.member(at).is_locked().await.expect("the store answers"));
        }
        held
    }
}
