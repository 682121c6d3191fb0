//! Every kind of lock behind one face.

use std::time::Duration;

use distlock::env::BoxFuture;
use distlock::{
    FencedGuard, Guard, Locks, MultiGuard, Owner, Permits, ReadGuard, RedLock, Result, State,
    WriteGuard,
};

/// A kind of lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Fenced,
    Fair,
    Read,
    Write,
    Simple,
    Spin,
    Semaphore,
    LeasedSemaphore,
    Multi,
    Redlock,
}

impl Kind {
    /// How many servers it is kept on.
    pub(crate) fn servers(self) -> usize {
        if self == Kind::Redlock { 3 } else { 1 }
    }

    /// The kind that cannot be held beside it.
    pub(crate) fn rival(self) -> Kind {
        if self == Kind::Read { Kind::Write } else { self }
    }

    /// Whether its holds end by themselves.
    pub(crate) fn has_lease(self) -> bool {
        self != Kind::Semaphore
    }
}

/// A guard of any kind.
pub(crate) trait Hold: Send + Sync {
    fn state(&self) -> State;
    fn extend(&self, lease: Duration) -> BoxFuture<'_, Result<()>>;
    fn unlock(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

macro_rules! holds {
    ($($guard:ident)*) => {
        $(impl Hold for $guard {
            fn state(&self) -> State {
                $guard::state(self)
            }

            fn extend(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
                Box::pin($guard::extend(self, lease))
            }

            fn unlock(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
                Box::pin($guard::unlock(*self))
            }
        })*
    };
}

/// The guards that are a [`Guard`] with something besides.
macro_rules! dereferenced {
    ($($guard:ident)*) => {
        $(impl Hold for $guard {
            fn state(&self) -> State {
                (**self).state()
            }

            fn extend(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
                Box::pin((**self).extend(lease))
            }

            fn unlock(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
                Box::pin($guard::unlock(*self))
            }
        })*
    };
}

holds! { Guard MultiGuard }
dereferenced! { FencedGuard Permits ReadGuard WriteGuard }

/// What a request asks for besides the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) owner: Option<Owner>,
    /// Without one the watchdog renews it.
    pub(crate) lease: Option<Duration>,
    /// Without one it is a single try.
    pub(crate) wait: Option<Duration>,
}

pub(crate) type Asked = BoxFuture<'static, Result<Option<Box<dyn Hold>>>>;

/// One process: a `Locks` for each server.
#[derive(Clone, Debug)]
pub(crate) struct Process(pub(crate) Vec<Locks>);

impl Process {
    pub(crate) fn owner(&self) -> Owner {
        self.0[0].owner()
    }

    /// The request for the lock `name`. It does nothing until it is polled.
    pub(crate) fn ask(&self, kind: Kind, name: &str, ask: Ask) -> Asked {
        macro_rules! asked {
            ($request:expr) => {{
                let mut request = $request;
                if let Some(owner) = &ask.owner {
                    request = request.owner(owner);
                }
                if let Some(lease) = ask.lease.filter(|_| kind.has_lease()) {
                    request = request.lease(lease);
                }
                if let Some(wait) = ask.wait {
                    request = request.wait(wait);
                }
                let asked = request.into_future();
                Box::pin(async move {
                    Ok(asked.await?.map(|guard| -> Box<dyn Hold> { Box::new(guard) }))
                })
            }};
        }
        let locks = &self.0[0];
        match kind {
            Kind::Mutex => asked!(locks.mutex(name).try_lock()),
            Kind::Fenced => asked!(locks.fenced(name).try_lock()),
            Kind::Fair => asked!(locks.fair(name).try_lock()),
            Kind::Read => asked!(locks.rw(name).try_read()),
            Kind::Write => asked!(locks.rw(name).try_write()),
            Kind::Simple => asked!(locks.simple(name).try_lock()),
            Kind::Spin => asked!(locks.spin(name).try_lock()),
            Kind::Semaphore => asked!(locks.semaphore(name).with_permits(1).try_acquire(1)),
            Kind::LeasedSemaphore => {
                asked!(locks.leased_semaphore(name).with_permits(1).try_acquire(1))
            }
            Kind::Multi => asked!(locks.multi(members(name)).try_lock()),
            Kind::Redlock => asked!(RedLock::new(name, &self.0).try_lock()),
        }
    }
}

/// The names of the locks that the multi-lock `name` is made of.
pub(crate) fn members(name: &str) -> [String; 2] {
    [format!("{name}-a"), format!("{name}-b")]
}
