//! What the simulated server keeps under a name: an entry of one of the library's state machines.

use distlock::env::Moment;
use distlock::store::machine::{
    Machine, MachineContext, Transition, fair, latch, leased, permits, rw, simple,
};
use distlock::store::{Admin, Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};
use distlock::{Error, ErrorKind, Result};

/// One entry of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SimEntry {
    Hold(fair::FairEntry),
    Rw(rw::RwEntry),
    Simple(simple::SimpleEntry),
    Permits(permits::PermitsEntry),
    Leased(leased::LeasedEntry),
    Latch(latch::LatchEntry),
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
    Hold fair::FairEntry;
    Rw rw::RwEntry;
    Simple simple::SimpleEntry;
    Permits permits::PermitsEntry;
    Leased leased::LeasedEntry;
    Latch latch::LatchEntry;
}

/// An operation on an entry: the step, or an error that changes nothing.
pub(super) type Stepped<T> = Result<Transition<SimEntry, T>>;

fn run<M: Kept, T>(
    entry: Option<SimEntry>,
    step: impl FnOnce(Option<M>) -> Transition<M, T>,
) -> Stepped<T> {
    let entry = match entry {
        None => None,
        Some(entry) => Some(M::unwrap(entry).ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "the name is in use by another kind of lock")
        })?),
    };
    let Transition { entry, answer, wake } = step(entry);
    Ok(Transition { entry: entry.map(M::wrap), answer, wake })
}

macro_rules! by_kind {
    ($what:expr, $entry:expr, $step:ident($($arg:expr),*)) => {
        match $what {
            ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Fair { .. } => {
                run($entry, |entry| fair::FairEntry::$step(entry, $($arg),*))
            }
            ClaimKind::Read | ClaimKind::Write { .. } => run($entry, |entry| rw::RwEntry::$step(entry, $($arg),*)),
            ClaimKind::Simple => run($entry, |entry| simple::SimpleEntry::$step(entry, $($arg),*)),
            ClaimKind::Permits { .. } => run($entry, |entry| permits::PermitsEntry::$step(entry, $($arg),*)),
            ClaimKind::LeasedPermits { .. } => run($entry, |entry| leased::LeasedEntry::$step(entry, $($arg),*)),
            ClaimKind::LatchOpen => run($entry, |entry| latch::LatchEntry::$step(entry, $($arg),*)),
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
    context: &dyn MachineContext,
) -> Stepped<Attempt> {
    by_kind!(claim.kind, entry, acquire(claim, now, context))
}

pub(super) fn release(
    entry: Option<SimEntry>,
    claim: &Claim,
    now: Moment,
    context: &dyn MachineContext,
) -> Stepped<Released> {
    by_kind!(claim.kind, entry, release(claim, now, context))
}

pub(super) fn renew(entry: Option<SimEntry>, claim: &Claim, now: Moment) -> Stepped<Renewed> {
    by_kind!(claim.kind, entry, renew(claim, now))
}

pub(super) fn give_up(
    entry: Option<SimEntry>,
    claim: &Claim,
    now: Moment,
    context: &dyn MachineContext,
) -> Stepped<()> {
    by_kind!(claim.kind, entry, give_up(claim, now, context))
}

pub(super) fn force(
    entry: Option<SimEntry>,
    what: ClaimKind,
    now: Moment,
    context: &dyn MachineContext,
) -> Stepped<()> {
    by_kind!(what, entry, force(what, now, context))
}

pub(super) fn admin(entry: Option<SimEntry>, op: &Admin, now: Moment) -> Stepped<i64> {
    match op {
        Admin::Permits(_) => run(entry, |entry| permits::PermitsEntry::admin(entry, op, now)),
        Admin::Leased(_) => run(entry, |entry| leased::LeasedEntry::admin(entry, op, now)),
        Admin::Latch(_) => run(entry, |entry| latch::LatchEntry::admin(entry, op, now)),
        _ => Err(unsupported()),
    }
}
