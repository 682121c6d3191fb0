//! An entry of any kind, and steps on it: what stores keep under a name without knowing which machine it is of.

use super::{Around, Machine, Step, fair, fenced, latch, leased, permits, rw, simple};
use crate::env::Moment;
use crate::error::{Error, ErrorKind};
use crate::store::{Admin, Attempt, Claim, Released, Snapshot, What};

/// One entry of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Hold(fair::Entry),
    Rw(rw::Entry),
    Simple(simple::Entry),
    Permits(permits::Entry),
    Leased(leased::Entry),
    Latch(latch::Entry),
    Gate(fenced::Gate),
}

/// Another kind of lock stands under the name: here it is back, unchanged.
#[derive(Debug)]
pub(crate) struct Taken(pub(crate) Entry);

impl Taken {
    /// The error of a caller that asked for another kind. No `From`: a second one for [`Error`] would keep the compiler from inferring the
    /// error type of `lock.run(async |_| Ok(42)).await?`.
    pub(crate) fn refused(self) -> Error {
        let there = match self.0 {
            Entry::Hold(_) => "a mutex, fair, fenced or spin lock",
            Entry::Rw(_) => "a read-write lock",
            Entry::Simple(_) => "a simple lock",
            Entry::Permits(_) => "a semaphore",
            Entry::Leased(_) => "a leased semaphore",
            Entry::Latch(_) => "a latch",
            Entry::Gate(_) => "a fence gate",
        };
        let text = format!("the name is in use by {there}: choose another name for this lock");
        Error::new(ErrorKind::Conflict, text)
    }
}

/// A step on an entry, if that is of the right kind.
pub(crate) type Stepped<T> = Result<Step<Entry, T>, Taken>;

/// A machine whose entries can be kept.
pub(crate) trait Kept: Machine {
    fn wrap(self) -> Entry;
    fn unwrap(entry: Entry) -> Result<Self, Taken>;
}

macro_rules! kept {
    ($($variant:ident $machine:ty;)*) => {
        impl Entry {
            /// Whether anything is left of it at `now`.
            pub(crate) fn is_live(&self, now: Moment) -> bool {
                match self {
                    $(Entry::$variant(entry) => entry.is_live(now),)*
                }
            }

            /// What stands there at `now`.
            pub(crate) fn view(&self, name: &str, now: Moment) -> Snapshot {
                match self {
                    $(Entry::$variant(entry) => entry.view(name, now),)*
                }
            }
        }

        $(impl Kept for $machine {
            fn wrap(self) -> Entry {
                Entry::$variant(self)
            }

            fn unwrap(entry: Entry) -> Result<Self, Taken> {
                match entry {
                    Entry::$variant(entry) => Ok(entry),
                    other => Err(Taken(other)),
                }
            }
        })*
    };
}

kept! {
    Hold fair::Entry;
    Rw rw::Entry;
    Simple simple::Entry;
    Permits permits::Entry;
    Leased leased::Entry;
    Latch latch::Entry;
    Gate fenced::Gate;
}

/// Runs a step of the machine that serves `what`.
macro_rules! by_kind {
    ($what:expr, $entry:expr, $step:ident($($arg:expr),*)) => {
        match $what {
            What::Exclusive | What::Fenced | What::Fair { .. } => {
                run($entry, |entry| fair::Entry::$step(entry, $($arg),*))
            }
            What::Read | What::Write { .. } => run($entry, |entry| rw::Entry::$step(entry, $($arg),*)),
            What::Simple => run($entry, |entry| simple::Entry::$step(entry, $($arg),*)),
            What::Permits { .. } => run($entry, |entry| permits::Entry::$step(entry, $($arg),*)),
            What::LeasedPermits { .. } => run($entry, |entry| leased::Entry::$step(entry, $($arg),*)),
            What::LatchOpen => run($entry, |entry| latch::Entry::$step(entry, $($arg),*)),
        }
    };
}

fn run<M: Kept, T>(entry: Option<Entry>, step: impl FnOnce(Option<M>) -> Step<M, T>) -> Stepped<T> {
    let Step { entry, answer, wake } = step(entry.map(M::unwrap).transpose()?);
    Ok(Step { entry: entry.map(M::wrap), answer, wake })
}

/// [`Store::acquire`](crate::store::Store::acquire).
pub(crate) fn acquire(
    entry: Option<Entry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<Attempt> {
    by_kind!(claim.what, entry, acquire(claim, now, around))
}

/// [`Store::release`](crate::store::Store::release).
pub(crate) fn release(
    entry: Option<Entry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<Released> {
    by_kind!(claim.what, entry, release(claim, now, around))
}

/// [`Store::renew`](crate::store::Store::renew) of one claim.
pub(crate) fn renew(entry: Option<Entry>, claim: &Claim, now: Moment) -> Stepped<bool> {
    by_kind!(claim.what, entry, renew(claim, now))
}

/// [`Store::give_up`](crate::store::Store::give_up).
pub(crate) fn give_up(
    entry: Option<Entry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<()> {
    by_kind!(claim.what, entry, give_up(claim, now, around))
}

/// [`Store::force`](crate::store::Store::force): what stood there, if that is gone now.
pub(crate) fn force(
    entry: Option<Entry>,
    what: What,
    name: &str,
    now: Moment,
    around: &dyn Around,
) -> Stepped<Snapshot> {
    let before = entry.as_ref().map(|entry| entry.view(name, now));
    let step = by_kind!(what, entry, force(what, now, around))?;
    // Still held: it is held in another way than was to be freed.
    let still = step.entry.as_ref().is_some_and(|after| after.view(name, now).is_held());
    let answer = before.filter(|_| !still).unwrap_or_else(|| Snapshot::free(name));
    Ok(Step { entry: step.entry, answer, wake: step.wake })
}

/// [`Store::admin`](crate::store::Store::admin).
pub(crate) fn admin(entry: Option<Entry>, op: &Admin, now: Moment) -> Stepped<i64> {
    match op {
        Admin::Permits(_) => run(entry, |entry| permits::Entry::admin(entry, op, now)),
        Admin::Leased(_) => run(entry, |entry| leased::Entry::admin(entry, op, now)),
        Admin::Latch(_) => run(entry, |entry| latch::Entry::admin(entry, op, now)),
        Admin::Fence { .. } | Admin::FenceForget => {
            run(entry, |entry| fenced::Gate::admin(entry, op, now))
        }
    }
}

/// Where the operation finds its entry: a gate has nothing to do with the lock of the same name.
pub(crate) fn place_of(name: &str, op: &Admin) -> String {
    match op {
        Admin::Fence { .. } | Admin::FenceForget => format!("{name}\0fence"),
        _ => name.to_owned(),
    }
}

impl Entry {
    /// Whether it is what claims of this kind find.
    pub(crate) fn is_of(&self, what: What) -> bool {
        match what {
            What::Exclusive | What::Fenced | What::Fair { .. } => matches!(self, Entry::Hold(_)),
            What::Read | What::Write { .. } => matches!(self, Entry::Rw(_)),
            What::Simple => matches!(self, Entry::Simple(_)),
            What::Permits { .. } => matches!(self, Entry::Permits(_)),
            What::LeasedPermits { .. } => matches!(self, Entry::Leased(_)),
            What::LatchOpen => matches!(self, Entry::Latch(_)),
        }
    }
}
