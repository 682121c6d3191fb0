//! Read-write. To be written.

use redis::Value;

use super::call::Call;
use super::exclusive;
use crate::error::Result;
use crate::store::*;

pub(crate) fn acquire_read(claim: &Claim) -> Call {
    exclusive::acquire(claim)
}

pub(crate) fn acquire_write(claim: &Claim) -> Call {
    exclusive::acquire(claim)
}

pub(crate) fn acquired(reply: Value) -> Result<Attempt> {
    exclusive::acquired(reply)
}

pub(crate) fn release_read(claim: &Claim) -> Call {
    exclusive::release(claim)
}

pub(crate) fn release_write(claim: &Claim) -> Call {
    exclusive::release(claim)
}

pub(crate) fn give_up_write(claim: &Claim) -> Call {
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

pub(crate) fn force_read(name: &str) -> Call {
    exclusive::force(name)
}

pub(crate) fn force_write(name: &str) -> Call {
    exclusive::force(name)
}
