//! What the simulated server keeps under a name: an entry of one of the library's state machines.

use distlock::env::Moment;
use distlock::store::state::{Around, Machine, Step, fair, latch, leased, permits, rw, simple};
use distlock::store::{Admin, Attempt, Claim, Released, Snapshot, What};
use distlock::{Error, ErrorKind, Result};

/// One entry of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SimEntry {
    Hold(fair::Entry),
    Rw(rw::Entry),
    Simple(simple::Entry),
    Permits(permits::Entry),
    Leased(leased::Entry),
    Latch(latch::Entry),
}

trait Kept: Machine {
    fn wrap(self) -> SimEntry;
    /// `None` if it is of another kind.
    fn unwrap(entry: SimEntry) -> Option<Self>;
}

macro_rules! kept {
    ($($variant:ident $machine:ty;)*) => {
        impl SimEntry {
            pub(super) fn is_live(&self, now: Moment) -> bool {
                match self {
                    $(SimEntry::$variant(entry) => entry.is_live(now),)*
                }
            }

            pub(super) fn view(&self, name: &str, now: Moment) -> Snapshot {
                match self {
                    $(SimEntry::$variant(entry) => entry.view(name, now),)*
                }
            }
        }

        $(impl Kept for $machine {
            fn wrap(self) -> SimEntry {
                SimEntry::$variant(self)
            }

            fn unwrap(entry: SimEntry) -> Option<Self> {
                match entry {
                    SimEntry::$variant(entry) => Some(entry),
                    _ => None,
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
}

/// An operation on an entry: the step, or an error that changes nothing.
pub(super) type Stepped<T> = Result<Step<SimEntry, T>>;

fn run<M: Kept, T>(
    entry: Option<SimEntry>,
    step: impl FnOnce(Option<M>) -> Step<M, T>,
) -> Stepped<T> {
    let entry = match entry {
        None => None,
        Some(entry) => Some(M::unwrap(entry).ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "the name is in use by another kind of lock")
        })?),
    };
    let Step { entry, answer, wake } = step(entry);
    Ok(Step { entry: entry.map(M::wrap), answer, wake })
}

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
            _ => Err(unsupported()),
        }
    };
}

pub(super) fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "the simulated server does not offer this")
}

pub(super) fn acquire(
    entry: Option<SimEntry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<Attempt> {
    by_kind!(claim.what, entry, acquire(claim, now, around))
}

pub(super) fn release(
    entry: Option<SimEntry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<Released> {
    by_kind!(claim.what, entry, release(claim, now, around))
}

pub(super) fn renew(entry: Option<SimEntry>, claim: &Claim, now: Moment) -> Stepped<bool> {
    by_kind!(claim.what, entry, renew(claim, now))
}

pub(super) fn give_up(
    entry: Option<SimEntry>,
    claim: &Claim,
    now: Moment,
    around: &dyn Around,
) -> Stepped<()> {
    by_kind!(claim.what, entry, give_up(claim, now, around))
}

pub(super) fn force(
    entry: Option<SimEntry>,
    what: What,
    now: Moment,
    around: &dyn Around,
) -> Stepped<()> {
    by_kind!(what, entry, force(what, now, around))
}

pub(super) fn admin(entry: Option<SimEntry>, op: &Admin, now: Moment) -> Stepped<i64> {
    match op {
        Admin::Permits(_) => run(entry, |entry| permits::Entry::admin(entry, op, now)),
        Admin::Leased(_) => run(entry, |entry| leased::Entry::admin(entry, op, now)),
        Admin::Latch(_) => run(entry, |entry| latch::Entry::admin(entry, op, now)),
        _ => Err(unsupported()),
    }
}
