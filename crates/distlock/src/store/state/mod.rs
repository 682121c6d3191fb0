//! The pure state machines: entry, claim and time in; entry and answer out. No I/O, no clock.
//!
//! The memory and file stores run them, and so do property tests and model checkers. The Redis scripts do the same to
//! Redisson's data layout; differential tests keep the two equal.
//!
//! | entry | kinds |
//! |---|---|
//! | [`fair::Entry`]: a hold and a queue | `mutex`, `spin` and `fenced`, which ignore the queue; `fair` |
//! | [`rw::Entry`] | `rw` |
//! | [`simple::Entry`] | `simple` |
//! | [`permits::Entry`] | `semaphore` |
//! | [`leased::Entry`] | `leased_semaphore` |
//! | [`latch::Entry`] | `latch` |
//! | [`fenced::Gate`] | the gate that checks fencing tokens |

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
use crate::store::{Admin, Attempt, Claim, Released, Snapshot, What};

/// One kind of entry and what steps do to it. `None` is a name under which nothing stands. Parts of an entry may have
/// expired: whoever runs a machine drops only entries of which nothing is [live](Machine::is_live).
pub trait Machine: Sized {
    /// Whether anything is left of it at `now`.
    fn is_live(&self, now: Moment) -> bool;

    /// [`Store::acquire`](crate::store::Store::acquire).
    fn acquire(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Self, Attempt>;

    /// [`Store::release`](crate::store::Store::release).
    fn release(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Self, Released>;

    /// [`Store::renew`](crate::store::Store::renew) of one claim.
    fn renew(entry: Option<Self>, claim: &Claim, now: Moment) -> Step<Self, bool>;

    /// [`Store::give_up`](crate::store::Store::give_up).
    fn give_up(
        entry: Option<Self>,
        claim: &Claim,
        now: Moment,
        around: &dyn Around,
    ) -> Step<Self, ()> {
        let Step { entry, wake, .. } = Self::release(entry, claim, now, around);
        Step { entry, answer: (), wake }
    }

    /// [`Store::force`](crate::store::Store::force).
    fn force(entry: Option<Self>, what: What, now: Moment, around: &dyn Around) -> Step<Self, ()>;

    /// [`Store::admin`](crate::store::Store::admin).
    fn admin(entry: Option<Self>, op: &Admin, now: Moment) -> Step<Self, i64> {
        let _ = (op, now);
        Step::quiet(entry, 0)
    }

    /// What stands there at `now`.
    fn view(&self, name: &str, now: Moment) -> Snapshot;
}

/// What a step makes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<E, T> {
    /// What stands under the name now.
    pub entry: Option<E>,
    /// The answer.
    pub answer: T,
    /// Who is told of it.
    pub wake: Wake,
}

impl<E, T> Step<E, T> {
    /// A step that nobody is told of.
    pub fn quiet(entry: Option<E>, answer: T) -> Step<E, T> {
        Step { entry, answer, wake: Wake::Nobody }
    }

    /// A step that everybody who listens is told of.
    pub fn loud(entry: Option<E>, answer: T) -> Step<E, T> {
        Step { entry, answer, wake: Wake::Everybody }
    }
}

/// Who is told of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nobody needs to know.
    Nobody,
    /// Everybody who listens to the name.
    Everybody,
    /// This one, who waits in the queue of a fair lock and listens for itself.
    Waiter(Owner),
}

/// What a machine may ask the store it runs in.
pub trait Around {
    /// Whether this owner, who waits in the queue of a fair lock, listens for itself. One that does not may be dead.
    fn listens(&self, owner: Owner) -> bool;

    /// A fencing token higher than all before.
    fn token(&self) -> u64;
}
