//! A promise, and what it needs to be kept.

use std::future::Future;
use std::pin::Pin;

use super::multi::Field;
use super::redlock::Nodes;
use super::{Ground, fair, fenced, holder, latch, leased_semaphore, multi, mutex, redlock, rw};
use super::{semaphore, simple, spin};
use crate::Server;

/// What a promise does until it is kept. It stays on the thread that began it.
pub(super) type Kept = Pin<Box<dyn Future<Output = ()>>>;

/// Something that a kind of lock promises.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// `kind::suite::promise`.
    pub name: &'static str,
    pub(super) keep: Keep,
}

/// What keeps a promise, and so what the promise needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// One store.
    Store(fn(Ground) -> Kept),
    /// One store, for programs without a runtime.
    Threads(fn(&Ground)),
    /// One store, or one for each member.
    Field(fn(Field) -> Kept),
    /// Stores of which a majority decides.
    Nodes(fn(Nodes) -> Kept),
    /// A server that no other test uses: the promise breaks it, or looks at all of it.
    Server(fn(Server) -> Kept),
}

/// `promises! { mutex; Store exclusion: a_lock_can_be_taken …; … }`: the functions `exclusion::a_lock_can_be_taken …` of the
/// module in which it stands, each with what it needs.
macro_rules! promises {
    ($kind:ident; $($needs:ident $suite:ident: $($promise:ident)*;)*) => {
        &[$($($crate::suites::Promise {
            name: concat!(stringify!($kind), "::", stringify!($suite), "::", stringify!($promise)),
            keep: $crate::suites::promise::keep!($needs $suite::$promise),
        },)*)*]
    };
}

macro_rules! keep {
    (Threads $promise:path) => {
        $crate::suites::promise::Keep::Threads($promise)
    };
    ($needs:ident $promise:path) => {
        $crate::suites::promise::Keep::$needs(|at| Box::pin($promise(at)))
    };
}

pub(super) use {keep, promises};

/// Every promise of every kind.
pub(super) fn all() -> impl Iterator<Item = &'static Promise> {
    let kinds = [
        mutex::PROMISES,
        fair::PROMISES,
        rw::PROMISES,
        fenced::PROMISES,
        simple::PROMISES,
        spin::PROMISES,
        semaphore::PROMISES,
        leased_semaphore::PROMISES,
        latch::PROMISES,
        holder::PROMISES,
        multi::PROMISES,
        redlock::PROMISES,
    ];
    kinds.into_iter().flatten()
}
