//! Every kind that takes something, with one face.

use std::future::Future;
use std::pin::Pin;

use distlock::{Locks, Result};

use crate::durability::LONG;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Fenced,
    Spin,
    Simple,
    Multi,
    Semaphore,
    LeasedSemaphore,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::Mutex,
    Kind::Fair,
    Kind::Read,
    Kind::Write,
    Kind::Fenced,
    Kind::Spin,
    Kind::Simple,
    Kind::Multi,
    Kind::Semaphore,
    Kind::LeasedSemaphore,
];

/// How to let go of it again.
pub(crate) type Unlock = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

impl Kind {
    /// Takes it, or gives what went wrong; `wait` for one who must, else it is a single try.
    pub(crate) async fn take(
        self,
        locks: &Locks,
        name: &str,
        must: bool,
    ) -> Result<Option<Unlock>> {
        macro_rules! take {
            ($must:expr, $may:expr) => {
                match must {
                    true => Some($must.await?),
                    false => $may.await?,
                }
                .map(|guard| -> Unlock { Box::pin(async move { guard.unlock().await }) })
            };
        }
        let (two, rw) = ([format!("{name}a"), format!("{name}b")], locks.rw(name));
        let semaphore = locks.semaphore(name).with_permits(3);
        let leased = locks.leased_semaphore(name).with_permits(3);
        Ok(match self {
            Kind::Mutex => take!(locks.mutex(name).lock(), locks.mutex(name).try_lock()),
            Kind::Fair => take!(locks.fair(name).lock(), locks.fair(name).try_lock()),
            Kind::Read => take!(rw.read(), rw.try_read()),
            Kind::Write => take!(rw.write(), rw.try_write()),
            Kind::Fenced => take!(locks.fenced(name).lock(), locks.fenced(name).try_lock()),
            Kind::Spin => take!(locks.spin(name).lock(), locks.spin(name).try_lock()),
            Kind::Simple => take!(locks.simple(name).lock(), locks.simple(name).try_lock()),
            Kind::Multi => take!(locks.multi(&two).lock(), locks.multi(&two).try_lock()),
            Kind::Semaphore => take!(semaphore.acquire(2), semaphore.try_acquire(2)),
            Kind::LeasedSemaphore => {
                take!(leased.acquire(2).lease(LONG), leased.try_acquire(2).lease(LONG))
            }
        })
    }

    /// The name of one of the locks that it takes.
    pub(crate) fn one_of(self, name: &str) -> String {
        match self {
            Kind::Multi => format!("{name}a"),
            _ => name.to_owned(),
        }
    }

    /// How many permits are left, for the kinds that have some.
    pub(crate) async fn permits(self, locks: &Locks, name: &str) -> Option<i64> {
        match self {
            Kind::Semaphore => Some(locks.semaphore(name).available().await.unwrap()),
            Kind::LeasedSemaphore => Some(locks.leased_semaphore(name).available().await.unwrap()),
            _ => None,
        }
    }

    /// What stays of a lock that nobody holds: a number that goes on, and how many permits there are.
    pub(crate) fn may_stay(self, name: &str, key: &str) -> bool {
        match self {
            Kind::Fenced => key.starts_with("redisson_lock_token:"),
            Kind::Semaphore | Kind::LeasedSemaphore => key == name,
            _ => false,
        }
    }
}
