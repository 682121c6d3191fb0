//! Every kind of lock with one face: what the words on the command line mean in the library.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use distlock::store::Snapshot;
use distlock::{
    Acquire, Fair, Fenced, FencedGuard, Guard, Latch, LeasedSemaphore, Locks, MultiGuard,
    MultiLock, Must, Mutex, Permits, ReadGuard, RedLock, Result, Rw, Semaphore, Simple, Spin,
    WriteGuard,
};
use tokio::task::JoinSet;

use crate::args::Kind;
use crate::plan::{Choice, Setup, Store};

/// As good as for ever, and small enough to be added to any time.
const AGES: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A lock of any kind.
pub(crate) struct Lock {
    stores: Vec<Locks>,
    handle: Handle,
}

enum Handle {
    Mutex(Mutex),
    Fair(Fair),
    Read(Rw),
    Write(Rw),
    Fenced(Fenced),
    Spin(Spin),
    Simple(Simple),
    Multi(MultiLock, Vec<Mutex>),
    Redlock(RedLock),
    Semaphore(Semaphore),
    LeasedSemaphore(LeasedSemaphore),
    Latch(Latch),
}

/// A lock that is held.
pub(crate) enum Held {
    One(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Fenced(FencedGuard),
    Permits(Permits),
    All(MultiGuard),
    /// An open latch.
    Nothing,
}

impl Lock {
    /// Connects to the store.
    pub(crate) async fn open(store: &Store, choice: &Choice, setup: &Setup) -> Result<Lock> {
        Ok(Lock::over(store.connect(setup).await?, choice))
    }

    /// Over what is connected already.
    pub(crate) fn over(stores: Vec<Locks>, choice: &Choice) -> Lock {
        let (locks, name) = (&stores[0], &choice.names[0]);
        let handle = match choice.kind {
            Kind::Mutex => Handle::Mutex(locks.mutex(name)),
            Kind::Fair => Handle::Fair(locks.fair(name)),
            Kind::Rw if choice.read => Handle::Read(locks.rw(name)),
            Kind::Rw => Handle::Write(locks.rw(name)),
            Kind::Fenced => Handle::Fenced(locks.fenced(name)),
            Kind::Spin => Handle::Spin(locks.spin(name)),
            Kind::Simple => Handle::Simple(locks.simple(name)),
            Kind::Multi => {
                let members = choice.names.iter().map(|name| locks.mutex(name)).collect();
                Handle::Multi(locks.multi(&choice.names), members)
            }
            Kind::Redlock => Handle::Redlock(RedLock::new(name, &stores)),
            Kind::Semaphore => {
                let semaphore = locks.semaphore(name);
                Handle::Semaphore(match choice.permits {
                    Some(permits) => semaphore.with_permits(permits),
                    None => semaphore,
                })
            }
            Kind::LeasedSemaphore => {
                let semaphore = locks.leased_semaphore(name);
                Handle::LeasedSemaphore(match choice.permits {
                    Some(permits) => semaphore.with_permits(permits),
                    None => semaphore,
                })
            }
            Kind::Latch => Handle::Latch(locks.latch(name)),
        };
        Lock { stores, handle }
    }

    /// Waits for the lock.
    pub(crate) async fn acquire(&self, ask: &Ask) -> Result<Held> {
        Ok(match &self.handle {
            Handle::Mutex(lock) => Held::One(ask.set(lock.lock()).await?),
            Handle::Fair(lock) => Held::One(ask.set(lock.lock()).await?),
            Handle::Read(lock) => Held::Read(ask.set(lock.read()).await?),
            Handle::Write(lock) => Held::Write(ask.set(lock.write()).await?),
            Handle::Fenced(lock) => Held::Fenced(ask.set(lock.lock()).await?),
            Handle::Spin(lock) => Held::One(ask.set(lock.lock()).await?),
            Handle::Simple(lock) => Held::One(ask.set(lock.lock()).await?),
            Handle::Multi(lock, _) => Held::All(ask.set(lock.lock()).await?),
            Handle::Redlock(lock) => Held::One(ask.set(lock.lock()).await?),
            Handle::Semaphore(lock) => Held::Permits(ask.set(lock.acquire(1)).await?),
            Handle::LeasedSemaphore(lock) => Held::Permits(ask.set(lock.acquire(1)).await?),
            Handle::Latch(latch) => {
                ask.set(latch.wait()).await?;
                Held::Nothing
            }
        })
    }

    /// The stores it is in.
    pub(crate) fn stores(&self) -> &[Locks] {
        &self.stores
    }

    /// What the store knows of it; of several, about one that is held.
    pub(crate) async fn inspect(&self) -> Result<Snapshot> {
        match &self.handle {
            Handle::Mutex(lock) => lock.inspect().await,
            Handle::Fair(lock) => lock.inspect().await,
            Handle::Read(lock) | Handle::Write(lock) => lock.inspect().await,
            Handle::Fenced(lock) => lock.inspect().await,
            Handle::Spin(lock) => lock.inspect().await,
            Handle::Simple(lock) => lock.inspect().await,
            Handle::Multi(_, members) => {
                let mut free = None;
                for member in members {
                    let seen = member.inspect().await?;
                    if seen.is_held() {
                        return Ok(seen);
                    }
                    free = Some(seen);
                }
                Ok(free.unwrap_or_else(|| Snapshot::free("")))
            }
            Handle::Redlock(lock) => lock.inspect().await,
            Handle::Semaphore(lock) => lock.inspect().await,
            Handle::LeasedSemaphore(lock) => lock.inspect().await,
            Handle::Latch(latch) => latch.inspect().await,
        }
    }

    /// Takes it away from its holders; true if there was one.
    pub(crate) async fn force(&self) -> Result<bool> {
        match &self.handle {
            Handle::Mutex(lock) => lock.force_unlock().await,
            Handle::Fair(lock) => lock.force_unlock().await,
            // A writer goes with what it reads; there are readers left only if there was none.
            Handle::Read(lock) | Handle::Write(lock) => {
                Ok(lock.force_unlock_write().await? | lock.force_unlock_read().await?)
            }
            Handle::Fenced(lock) => lock.force_unlock().await,
            Handle::Spin(lock) => lock.force_unlock().await,
            Handle::Simple(lock) => lock.force_unlock().await,
            Handle::Multi(_, members) => {
                let mut freed = false;
                for member in members {
                    freed |= member.force_unlock().await?;
                }
                Ok(freed)
            }
            Handle::Redlock(lock) => lock.force_unlock().await,
            Handle::Semaphore(lock) => lock.force_unlock().await,
            Handle::LeasedSemaphore(lock) => lock.force_unlock().await,
            Handle::Latch(latch) => latch.delete().await,
        }
    }

    /// Removes what stays in the store when it is not held.
    pub(crate) async fn remove(&self) -> Result<()> {
        match &self.handle {
            Handle::Semaphore(lock) => lock.delete().await.map(drop),
            Handle::LeasedSemaphore(lock) => lock.delete().await.map(drop),
            _ => Ok(()),
        }
    }

    /// Releases what is still held. At all stores at once: some of them may be down.
    pub(crate) async fn close(&self) {
        let mut closing: JoinSet<()> = JoinSet::new();
        for locks in &self.stores {
            let locks = locks.clone();
            closing.spawn(async move { crate::cmd::close(&locks).await });
        }
        closing.join_all().await;
    }
}

/// How to ask for a lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    /// How long to wait at most; `None` for no limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    /// What it is held for, as `show` prints it.
    pub(crate) label: Option<String>,
}

impl Ask {
    fn set<G>(&self, mut request: Acquire<G, Must>) -> Acquire<G, Must> {
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        if let Some(lease) = self.lease {
            request = request.lease(lease);
        }
        if let Some(label) = &self.label {
            request = request.label(label);
        }
        request
    }
}

impl Held {
    /// The one guard that it is, if it is one.
    fn guard(&self) -> Option<&Guard> {
        match self {
            Held::One(guard) => Some(guard),
            Held::Read(guard) => Some(guard),
            Held::Write(guard) => Some(guard),
            Held::Fenced(guard) => Some(guard),
            Held::Permits(permits) => Some(permits),
            Held::All(_) | Held::Nothing => None,
        }
    }

    /// The fencing token.
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Held::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }

    /// Ends when the lock is lost.
    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        match (self, self.guard()) {
            (_, Some(guard)) => Box::pin(guard.lost()),
            (Held::All(all), None) => Box::pin(all.lost()),
            _ => Box::pin(std::future::pending()),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Held::All(all) => all.is_lost(),
            one => one.guard().is_some_and(Guard::is_lost),
        }
    }

    /// How long it is surely held without a renewal.
    pub(crate) fn remaining(&self) -> Duration {
        let remaining = match self {
            Held::All(all) => Some(all.remaining()),
            one => one.guard().map(Guard::remaining),
        };
        remaining.unwrap_or(AGES).min(AGES)
    }

    /// The same, or `None` if it is lost. In this order: of a lock that is lost between the two questions nothing remains, which is not
    /// the end of a lease, and would cost the command its grace.
    pub(crate) fn remaining_unless_lost(&self) -> Option<Duration> {
        let remaining = self.remaining();
        (!self.is_lost()).then_some(remaining)
    }

    pub(crate) async fn unlock(self) -> Result<()> {
        match self {
            Held::One(guard) => guard.unlock().await,
            Held::Read(guard) => guard.unlock().await,
            Held::Write(guard) => guard.unlock().await,
            Held::Fenced(guard) => guard.unlock().await,
            Held::Permits(permits) => permits.unlock().await,
            Held::All(all) => all.unlock().await,
            Held::Nothing => Ok(()),
        }
    }
}
