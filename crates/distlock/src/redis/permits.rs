//! Permits. To be written.

use redis::Value;

use super::call::Call;
use super::exclusive;
use crate::error::Result;
use crate::store::*;

pub(crate) fn acquire(claim: &Claim) -> Call {
    exclusive::acquire(claim)
}

pub(crate) fn acquired(reply: Value) -> Result<Attempt> {
    exclusive::acquired(reply)
}

pub(crate) fn release(claim: &Claim) -> Call {
    exclusive::release(claim)
}

pub(crate) fn renew(claims: &[&Claim]) -> Call {
    exclusive::renew(claims)
}

pub(crate) fn inspect(name: &str) -> Call {
    exclusive::inspect(name)
}

pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    exclusive::snapshot(name, reply)
}

pub(crate) fn force(name: &str) -> Call {
    exclusive::force(name)
}

pub(crate) fn admin(name: &str, _op: PermitsOp) -> Call {
    exclusive::inspect(name)
}
