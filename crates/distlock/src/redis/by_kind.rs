//! What each kind calls, and how the answer is read.

use std::time::Duration;

use redis::Value;

use super::call::Call;
use super::{exclusive, fair, fenced, latch, leased, permits, rw, simple, wire};
use crate::error::Result;
use crate::store::{Attempt, Claim, ClaimKind, Snapshot};

/// Reads the reply to an acquire with this lease.
type DecodeAttempt = fn(Duration, Value) -> Result<Attempt>;

pub(super) fn acquire(claim: &Claim) -> (Call, DecodeAttempt) {
    match claim.kind {
        ClaimKind::Exclusive => (exclusive::acquire(claim), exclusive::acquired),
        ClaimKind::Fenced => (fenced::acquire(claim), fenced::acquired),
        ClaimKind::Fair { .. } => (fair::acquire(claim), fair::acquired),
        ClaimKind::Read => (rw::acquire_read(claim), rw::acquired),
        ClaimKind::Write { .. } => (rw::acquire_write(claim), rw::acquired),
        ClaimKind::Simple => (simple::acquire(claim), simple::acquired),
        ClaimKind::Permits { .. } => (permits::acquire(claim), permits::acquired),
        ClaimKind::LeasedPermits { .. } => (leased::acquire(claim), leased::acquired),
        ClaimKind::LatchOpen => (latch::acquire(claim), latch::acquired),
    }
}

/// `None` for what cannot be held.
pub(super) fn release(claim: &Claim) -> Option<Call> {
    Some(match claim.kind {
        ClaimKind::Exclusive | ClaimKind::Fenced => exclusive::release(claim),
        ClaimKind::Fair { .. } => fair::release(claim),
        ClaimKind::Read => rw::release_read(claim),
        ClaimKind::Write { .. } => rw::release_write(claim),
        ClaimKind::Simple => simple::release(claim),
        ClaimKind::Permits { .. } => permits::release(claim),
        ClaimKind::LeasedPermits { .. } => leased::release(claim),
        ClaimKind::LatchOpen => return None,
    })
}

/// Where a release is called out that this claim waits for.
pub(super) fn channel(claim: &Claim) -> String {
    match claim.kind {
        ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Simple => {
            wire::channel(&claim.name).to_string()
        }
        ClaimKind::Fair { .. } => wire::waiter_channel(&claim.name, claim.owner),
        ClaimKind::Read | ClaimKind::Write { .. } => wire::rw_channel(&claim.name).to_string(),
        ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } => {
            wire::permits_channel(&claim.name).to_string()
        }
        ClaimKind::LatchOpen => wire::latch_channel(&claim.name),
    }
}

pub(super) fn force(what: ClaimKind, name: &str) -> Call {
    match what {
        ClaimKind::Exclusive | ClaimKind::Fenced => exclusive::force(name),
        ClaimKind::Fair { .. } => fair::force(name),
        ClaimKind::Read => rw::force_read(name),
        ClaimKind::Write { .. } => rw::force_write(name),
        ClaimKind::Simple => simple::force(name),
        ClaimKind::Permits { .. } => permits::force(name),
        ClaimKind::LeasedPermits { .. } => leased::force(name),
        ClaimKind::LatchOpen => latch::force(name),
    }
}

/// How what stands under a name is read.
pub(super) type Reading = (Call, fn(&str, Value) -> Result<Snapshot>);

pub(super) fn reading(what: ClaimKind, name: &str) -> Reading {
    match what {
        ClaimKind::Exclusive | ClaimKind::Fenced => (exclusive::inspect(name), exclusive::snapshot),
        ClaimKind::Fair { .. } => (fair::inspect(name), fair::snapshot),
        ClaimKind::Read | ClaimKind::Write { .. } => (rw::inspect(name), rw::snapshot),
        ClaimKind::Simple => (simple::inspect(name), simple::snapshot),
        ClaimKind::Permits { .. } => (permits::inspect(name), permits::snapshot),
        ClaimKind::LeasedPermits { .. } => (leased::inspect(name), leased::snapshot),
        ClaimKind::LatchOpen => (latch::inspect(name), latch::snapshot),
    }
}
