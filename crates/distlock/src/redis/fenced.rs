//! Fenced. To be written.

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

pub(crate) fn admit(name: &str, _token: u64) -> Call {
    exclusive::inspect(name)
}

pub(crate) fn forget(name: &str) -> Call {
    exclusive::inspect(name)
}

pub(crate) fn guarded(_claim: &Claim, _command: &Command) -> Result<Call> {
    Err(unsupported("this"))
}

pub(crate) fn guarded_reply(_reply: Value) -> Result<Option<Reply>> {
    Err(unsupported("this"))
}
