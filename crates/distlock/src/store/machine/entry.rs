//! An entry of any kind and the operations on it, for stores that keep every kind under one name.

use super::{
    Machine, MachineContext, Transition, fair, fenced, latch, leased, permits, rw, simple,
};
use crate::env::Moment;
use crate::error::{Error, ErrorKind};
use crate::store::{Admin, Attempt, Claim, ClaimKind, Released, Renewed, Snapshot};

/// One entry of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnyEntry {
    Hold(fair::FairEntry),
    Rw(rw::RwEntry),
    Simple(simple::SimpleEntry),
    Permits(permits::PermitsEntry),
    Leased(leased::LeasedEntry),
    Latch(latch::LatchEntry),
    Gate(fenced::GateEntry),
}

/// The name has an entry of another kind, which this gives back unchanged.
#[derive(Debug)]
pub(crate) struct WrongKind(pub(crate) AnyEntry);

impl WrongKind {
    /// Returns the error for a caller that claimed another kind. No `From`: a second one for [`Error`] would keep the compiler from inferring the
    /// error type of `lock.run(async |_| Ok(42)).await?`.
    pub(crate) fn refused(self) -> Error {
        let there = match self.0 {
            AnyEntry::Hold(_) => "a mutex, fair, fenced or spin lock",
            AnyEntry::Rw(_) => "a read-write lock",
            AnyEntry::Simple(_) => "a simple lock",
            AnyEntry::Permits(_) => "a semaphore",
            AnyEntry::Leased(_) => "a leased semaphore",
            AnyEntry::Latch(_) => "a latch",
            AnyEntry::Gate(_) => "a fence gate",
        };
        let text = format!("the name is in use by {there}: choose another name for this lock");
        Error::new(ErrorKind::Conflict, text)
    }
}

/// The result of an operation on an entry, if that is of the right kind.
pub(crate) type AnyTransition<T> = Result<Transition<AnyEntry, T>, WrongKind>;

/// A machine whose entries an [`AnyEntry`] can contain.
pub(crate) trait StoredMachine: Machine {
    fn wrap(self) -> AnyEntry;
    fn unwrap(entry: AnyEntry) -> Result<Self, WrongKind>;
}

macro_rules! stored_machines {
    ($($variant:ident $machine:ty;)*) => {
        impl AnyEntry {
            /// Returns whether any part of it has not expired at `now`.
            pub(crate) fn is_live(&self, now: Moment) -> bool {
                match self {
                    $(AnyEntry::$variant(entry) => entry.is_live(now),)*
                }
            }

            /// Returns the state of the lock at `now`.
            pub(crate) fn view(&self, name: &str, now: Moment) -> Snapshot {
                match self {
                    $(AnyEntry::$variant(entry) => entry.view(name, now),)*
                }
            }
        }

        $(impl StoredMachine for $machine {
            fn wrap(self) -> AnyEntry {
                AnyEntry::$variant(self)
            }

            fn unwrap(entry: AnyEntry) -> Result<Self, WrongKind> {
                match entry {
                    AnyEntry::$variant(entry) => Ok(entry),
                    other => Err(WrongKind(other)),
                }
            }
        })*
    };
}

stored_machines! {
    Hold fair::FairEntry;
    Rw rw::RwEntry;
    Simple simple::SimpleEntry;
    Permits permits::PermitsEntry;
    Leased leased::LeasedEntry;
    Latch latch::LatchEntry;
    Gate fenced::GateEntry;
}

/// Runs an operation of the machine that serves a kind of claim.
macro_rules! by_kind {
    ($kind:expr, $entry:expr, $step:ident($($arg:expr),*)) => {
        match $kind {
            ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Fair { .. } => {
                run($entry, |entry| fair::FairEntry::$step(entry, $($arg),*))
            }
            ClaimKind::Read | ClaimKind::Write { .. } => run($entry, |entry| rw::RwEntry::$step(entry, $($arg),*)),
            ClaimKind::Simple => run($entry, |entry| simple::SimpleEntry::$step(entry, $($arg),*)),
            ClaimKind::Permits { .. } => run($entry, |entry| permits::PermitsEntry::$step(entry, $($arg),*)),
            ClaimKind::LeasedPermits { .. } => run($entry, |entry| leased::LeasedEntry::$step(entry, $($arg),*)),
            ClaimKind::LatchOpen => run($entry, |entry| latch::LatchEntry::$step(entry, $($arg),*)),
        }
    };
}

fn run<M: StoredMachine, T>(
    entry: Option<AnyEntry>,
    step: impl FnOnce(Option<M>) -> Transition<M, T>,
) -> AnyTransition<T> {
    let Transition { entry, answer, wake } = step(entry.map(M::unwrap).transpose()?);
    Ok(Transition { entry: entry.map(M::wrap), answer, wake })
}

/// [`Store::acquire`](crate::store::Store::acquire).
pub(crate) fn acquire(
    entry: Option<AnyEntry>,
    claim: &Claim,
    now: Moment,
    context: &dyn MachineContext,
) -> AnyTransition<Attempt> {
    by_kind!(claim.kind, entry, acquire(claim, now, context))
}

/// [`Store::release`](crate::store::Store::release).
pub(crate) fn release(
    entry: Option<AnyEntry>,
    claim: &Claim,
    now: Moment,
    context: &dyn MachineContext,
) -> AnyTransition<Released> {
    by_kind!(claim.kind, entry, release(claim, now, context))
}

/// [`Store::renew`](crate::store::Store::renew) of one claim.
pub(crate) fn renew(entry: Option<AnyEntry>, claim: &Claim, now: Moment) -> AnyTransition<Renewed> {
    by_kind!(claim.kind, entry, renew(claim, now))
}

/// [`Store::give_up`](crate::store::Store::give_up).
pub(crate) fn give_up(
    entry: Option<AnyEntry>,
    claim: &Claim,
    now: Moment,
    context: &dyn MachineContext,
) -> AnyTransition<()> {
    by_kind!(claim.kind, entry, give_up(claim, now, context))
}

/// [`Store::force`](crate::store::Store::force): returns the state before, if the lock is free now.
pub(crate) fn force(
    entry: Option<AnyEntry>,
    kind: ClaimKind,
    name: &str,
    now: Moment,
    context: &dyn MachineContext,
) -> AnyTransition<Snapshot> {
    let before = entry.as_ref().map(|entry| entry.view(name, now));
    let step = by_kind!(kind, entry, force(kind, now, context))?;
    // Still held: in another mode than the one to be freed.
    let still = step.entry.as_ref().is_some_and(|after| after.view(name, now).is_held());
    let answer = before.filter(|_| !still).unwrap_or_else(|| Snapshot::free(name));
    Ok(Transition { entry: step.entry, answer, wake: step.wake })
}

/// [`Store::admin`](crate::store::Store::admin).
pub(crate) fn admin(entry: Option<AnyEntry>, op: &Admin, now: Moment) -> AnyTransition<i64> {
    match op {
        Admin::Permits(_) => run(entry, |entry| permits::PermitsEntry::admin(entry, op, now)),
        Admin::Leased(_) => run(entry, |entry| leased::LeasedEntry::admin(entry, op, now)),
        Admin::Latch(_) => run(entry, |entry| latch::LatchEntry::admin(entry, op, now)),
        Admin::Fence { .. } | Admin::FenceForget => {
            run(entry, |entry| fenced::GateEntry::admin(entry, op, now))
        }
    }
}

/// Returns the name under which the operation finds its entry: a gate is independent of the lock of the same name.
pub(crate) fn place_of(name: &str, op: &Admin) -> String {
    match op {
        Admin::Fence { .. } | Admin::FenceForget => format!("{name}\0fence"),
        _ => name.to_owned(),
    }
}

impl AnyEntry {
    /// Returns whether claims of this kind can find it under their name.
    pub(crate) fn is_of(&self, kind: ClaimKind) -> bool {
        match kind {
            ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Fair { .. } => {
                matches!(self, AnyEntry::Hold(_))
            }
            ClaimKind::Read | ClaimKind::Write { .. } => matches!(self, AnyEntry::Rw(_)),
            ClaimKind::Simple => matches!(self, AnyEntry::Simple(_)),
            ClaimKind::Permits { .. } => matches!(self, AnyEntry::Permits(_)),
            ClaimKind::LeasedPermits { .. } => matches!(self, AnyEntry::Leased(_)),
            ClaimKind::LatchOpen => matches!(self, AnyEntry::Latch(_)),
        }
    }
}
