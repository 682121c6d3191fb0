//! Every kind of lock by one function, every kind of guard in one type.

use std::time::Duration;

use distlock::store::Kind;
use distlock::{
    FencedGuard, Guard, Locks, Member, MultiGuard, MultiLock, Owner, Permits, ReadGuard, Result,
    WriteGuard,
};

use super::check::Share;
use super::plan::{HoldPlan, LockPlan, Millis};

/// A guard of any kind.
pub(super) enum AnyGuard {
    Plain(Guard),
    Fenced(FencedGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Permits),
    Multi(MultiGuard),
}

impl AnyGuard {
    pub(super) fn of(&self, member: usize) -> Option<&Guard> {
        match self {
            AnyGuard::Plain(guard) => Some(guard),
            AnyGuard::Fenced(guard) => Some(guard),
            AnyGuard::Read(guard) => Some(guard),
            AnyGuard::Write(guard) => Some(guard),
            AnyGuard::Permits(guard) => Some(guard),
            AnyGuard::Multi(guard) => guard.guards().get(member),
        }
    }

    pub(super) fn is_lost(&self, member: usize) -> Option<bool> {
        self.of(member).map(Guard::is_lost)
    }

    pub(super) fn members(&self) -> usize {
        match self {
            AnyGuard::Multi(guard) => guard.guards().len(),
            _ => 1,
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            AnyGuard::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }

    pub(super) async fn extend(&self, lease: Duration) -> Result<()> {
        match self {
            AnyGuard::Multi(guard) => guard.extend(lease).await,
            other => match other.of(0) {
                Some(guard) => guard.extend(lease).await,
                None => Ok(()),
            },
        }
    }

    pub(super) async fn unlock(self) -> Result<()> {
        match self {
            AnyGuard::Plain(guard) => guard.unlock().await,
            AnyGuard::Fenced(guard) => guard.unlock().await,
            AnyGuard::Read(guard) => guard.unlock().await,
            AnyGuard::Write(guard) => guard.unlock().await,
            AnyGuard::Permits(guard) => guard.unlock().await,
            AnyGuard::Multi(guard) => guard.unlock().await,
        }
    }

    pub(super) fn leak(self) {
        match self {
            AnyGuard::Plain(guard) => drop(guard.leak()),
            AnyGuard::Fenced(guard) => drop(guard.leak()),
            AnyGuard::Read(guard) => drop(guard.leak()),
            AnyGuard::Write(guard) => drop(guard.leak()),
            AnyGuard::Permits(guard) => drop(guard.leak()),
            AnyGuard::Multi(guard) => drop(guard.leak()),
        }
    }
}

pub(super) fn millis(n: Millis) -> Duration {
    Duration::from_millis(n)
}

macro_rules! request {
    ($request:expr, $plan:expr, $owner:expr) => {{
        let mut request = $request.wait(millis($plan.wait));
        if let Some(lease) = $plan.lease {
            request = request.lease(millis(lease));
        }
        if let Some(owner) = $owner {
            request = request.owner(owner);
        }
        request
    }};
}

macro_rules! either {
    ($handle:expr, $must:ident, $may:ident, ($($arg:expr)?), $plan:expr, $owner:expr, $guard:ident) => {
        if $plan.tries {
            request!($handle.$may($($arg)?), $plan, $owner).await.map(|got| got.map(AnyGuard::$guard))
        } else {
            request!($handle.$must($($arg)?), $plan, $owner).await.map(|got| Some(AnyGuard::$guard(got)))
        }
    };
}

/// Acquires as the plan says; `None` if it was busy.
pub(super) async fn acquire(
    locks: &Locks,
    lock: &LockPlan,
    plan: &HoldPlan,
    owner: Option<&Owner>,
) -> Result<Option<AnyGuard>> {
    let name = &lock.name;
    match lock.kind {
        Kind::Fenced => either!(locks.fenced(name), lock, try_lock, (), plan, owner, Fenced),
        Kind::Fair => either!(locks.fair(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Spin => either!(locks.spin(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Simple => either!(locks.simple(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Rw if plan.write => either!(locks.rw(name), write, try_write, (), plan, owner, Write),
        Kind::Rw => either!(locks.rw(name), read, try_read, (), plan, owner, Read),
        Kind::Semaphore => {
            let semaphore = locks.semaphore(name).with_permits(lock.count);
            either!(semaphore, acquire, try_acquire, (plan.permits), plan, owner, Permits)
        }
        Kind::LeasedSemaphore => {
            let semaphore = locks.leased_semaphore(name).with_permits(lock.count);
            either!(semaphore, acquire, try_acquire, (plan.permits), plan, owner, Permits)
        }
        _ => either!(locks.mutex(name), lock, try_lock, (), plan, owner, Plain),
    }
}

pub(super) fn member(locks: &Locks, lock: &LockPlan, write: bool) -> Member {
    match lock.kind {
        Kind::Fenced => locks.fenced(&lock.name).into(),
        Kind::Rw if write => locks.rw(&lock.name).writer(),
        Kind::Rw => locks.rw(&lock.name).reader(),
        Kind::Semaphore => locks.semaphore(&lock.name).with_permits(lock.count).permits(1),
        _ => locks.mutex(&lock.name).into(),
    }
}

/// How one of several locks excludes.
pub(super) fn share(lock: &LockPlan, write: bool, permits: u32) -> Share {
    match lock.kind {
        Kind::Rw if !write => Share::WithReaders,
        Kind::Semaphore | Kind::LeasedSemaphore => Share::Permits(permits, lock.count),
        _ => Share::Alone,
    }
}

/// Acquires several locks, all or none, as the plan says.
pub(super) async fn acquire_all(
    members: Vec<Member>,
    plan: HoldPlan,
    owner: Option<&Owner>,
) -> Result<Option<AnyGuard>> {
    let multi = MultiLock::new(members);
    // Permits have no leases.
    let plan = HoldPlan { lease: None, ..plan };
    either!(multi, lock, try_lock, (), plan, owner, Multi)
}
