//! What each kind calls, and how the answer is read.

use redis::Value;

use super::call::Call;
use super::{exclusive, fair, fenced, latch, leased, permits, rw, simple, wire};
use crate::error::Result;
use crate::store::{Attempt, Claim, Snapshot, What};

/// How a reply is read.
type Decode<T> = fn(Value) -> Result<T>;

pub(super) fn acquire(claim: &Claim) -> (Call, Decode<Attempt>) {
    match claim.what {
        What::Exclusive => (exclusive::acquire(claim), exclusive::acquired),
        What::Fenced => (fenced::acquire(claim), fenced::acquired),
        What::Fair { .. } => (fair::acquire(claim), fair::acquired),
        What::Read => (rw::acquire_read(claim), rw::acquired),
        What::Write { .. } => (rw::acquire_write(claim), rw::acquired),
        What::Simple => (simple::acquire(claim), simple::acquired),
        What::Permits { .. } => (permits::acquire(claim), permits::acquired),
        What::LeasedPermits { .. } => (leased::acquire(claim), leased::acquired),
        What::LatchOpen => (latch::acquire(claim), latch::acquired),
    }
}

/// `None` for what cannot be held.
pub(super) fn release(claim: &Claim) -> Option<Call> {
    Some(match claim.what {
        What::Exclusive | What::Fenced => exclusive::release(claim),
        What::Fair { .. } => fair::release(claim),
        What::Read => rw::release_read(claim),
        What::Write { .. } => rw::release_write(claim),
        What::Simple => simple::release(claim),
        What::Permits { .. } => permits::release(claim),
        What::LeasedPermits { .. } => leased::release(claim),
        What::LatchOpen => return None,
    })
}

/// Where a release is called out that this claim waits for.
pub(super) fn channel(claim: &Claim) -> String {
    match claim.what {
        What::Exclusive | What::Fenced | What::Simple => wire::channel(&claim.name).to_string(),
        What::Fair { .. } => wire::waiter_channel(&claim.name, claim.owner),
        What::Read | What::Write { .. } => wire::rw_channel(&claim.name).to_string(),
        What::Permits { .. } | What::LeasedPermits { .. } => {
            wire::permits_channel(&claim.name).to_string()
        }
        What::LatchOpen => wire::latch_channel(&claim.name),
    }
}

pub(super) fn force(what: What, name: &str) -> Call {
    match what {
        What::Exclusive | What::Fenced => exclusive::force(name),
        What::Fair { .. } => fair::force(name),
        What::Read => rw::force_read(name),
        What::Write { .. } => rw::force_write(name),
        What::Simple => simple::force(name),
        What::Permits { .. } => permits::force(name),
        What::LeasedPermits { .. } => leased::force(name),
        What::LatchOpen => latch::force(name),
    }
}

/// How what stands under a name is read.
pub(super) type Reading = (Call, fn(&str, Value) -> Result<Snapshot>);

pub(super) fn reading(what: What, name: &str) -> Reading {
    match what {
        What::Exclusive | What::Fenced => (exclusive::inspect(name), exclusive::snapshot),
        What::Fair { .. } => (fair::inspect(name), fair::snapshot),
        What::Read | What::Write { .. } => (rw::inspect(name), rw::snapshot),
        What::Simple => (simple::inspect(name), simple::snapshot),
        What::Permits { .. } => (permits::inspect(name), permits::snapshot),
        What::LeasedPermits { .. } => (leased::inspect(name), leased::snapshot),
        What::LatchOpen => (latch::inspect(name), latch::snapshot),
    }
}
