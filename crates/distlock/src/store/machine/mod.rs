//! The pure state machines: they take an entry, a claim and the time, and return an entry and a result. No I/O, no clock.
//!
//! The memory and file stores run them, and so do property tests and model checkers. The Redis scripts do the same to
//! Redisson's data layout; differential tests keep the two equal.
//!
//! | entry | kinds |
//! |---|---|
//! | [`fair::FairEntry`]: a hold and a queue | `mutex`, `spin` and `fenced`, which ignore the queue; `fair` |
//! | [`rw::RwEntry`] | `rw` |
//! | [`simple::SimpleEntry`] | `simple` |
//! | [`permits::PermitsEntry`] | `semaphore` |
//! | [`leased::LeasedEntry`] | `leased_semaphore` |
//! | [`latch::LatchEntry`] | `latch` |
//! | [`fenced::GateEntry`] | the gate that checks fencing tokens |

pub(crate) mod entry;
pub mod exclusive;
pub mod fair;
pub mod fenced;
pub mod latch;
pub mod leased;
pub mod permits;
pub mod rw;
pub mod simple;

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Admin, Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};

/// One kind of entry and the operations on it. `None` is a name without an entry. Parts of an entry may have
/// expired: a store drops only entries of which nothing is [live](Machine::is_live).
pub trait Machine: Sized {
    /// Returns whether any part of it has not expired at `now`.
    fn is_live(&self, now: Moment) -> bool;

    /// Applies [`Store::acquire`](crate::store::Store::acquire).
    fn acquire(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<Self, Attempt>;

    /// Applies [`Store::release`](crate::store::Store::release).
    fn release(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<Self, Released>;

    /// Applies [`Store::renew`](crate::store::Store::renew) of one claim.
    fn renew(entry: Option<Self>, claim: &Claim, now: Moment) -> Transition<Self, Renewed>;

    /// Applies [`Store::give_up`](crate::store::Store::give_up).
    fn give_up(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<Self, ()> {
        let Transition { entry, wake, .. } = Self::release(entry, claim, now, context);
        Transition { entry, answer: (), wake }
    }

    /// Applies [`Store::force`](crate::store::Store::force).
    fn force(
        entry: Option<Self>,
        kind: ClaimKind,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<Self, ()>;

    /// Applies [`Store::admin`](crate::store::Store::admin).
    fn admin(entry: Option<Self>, op: &Admin, now: Moment) -> Transition<Self, i64> {
        let _ = (op, now);
        Transition::silent(entry, 0)
    }

    /// Returns the state of the lock at `now`.
    fn view(&self, name: &str, now: Moment) -> Snapshot;
}

/// The result of an operation on an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<E, T> {
    /// The new entry of the name.
    pub entry: Option<E>,
    /// The value that the operation returns.
    pub answer: T,
    /// The listeners to notify.
    pub wake: Wake,
}

impl<E, T> Transition<E, T> {
    /// Returns a result that notifies no listener.
    pub fn silent(entry: Option<E>, answer: T) -> Transition<E, T> {
        Transition { entry, answer, wake: Wake::None }
    }

    /// Returns a result that notifies every listener.
    pub fn waking_all(entry: Option<E>, answer: T) -> Transition<E, T> {
        Transition { entry, answer, wake: Wake::All }
    }
}

/// The listeners that an operation notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// No listener.
    None,
    /// Every listener of the name.
    All,
    /// This owner, which waits in the queue of a fair lock and listens for itself.
    Waiter(Owner),
}

/// What a state machine needs from its store.
pub trait MachineContext {
    /// Returns whether this owner, which waits in the queue of a fair lock, has a listener of its own. One without may be dead.
    fn listens(&self, owner: Owner) -> bool;

    /// Returns a fencing token higher than all before.
    fn token(&self) -> u64;
}
