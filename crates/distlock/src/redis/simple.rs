//! One owner at a time, as a plain value: claims as script calls, replies as answers. The same as
//! `store/machine/simple.rs`.

use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::exclusive::{self, OWNER_BYTES, immortal, milliseconds};
use super::refusal::nonsense;
use super::wire::{Text, millis};
use crate::error::Result;
use crate::store::{Attempt, Claim, Holder, Snapshot};

static ACQUIRE: Script = Script::new(include_str!("scripts/simple_acquire.lua"));
static RELEASE: Script = Script::new(include_str!("scripts/simple_release.lua"));
static RENEW: Script = Script::new(include_str!("scripts/simple_renew.lua"));
static INSPECT: Script = Script::new(include_str!("scripts/simple_inspect.lua"));
static FORCE: Script = Script::new(include_str!("scripts/simple_force.lua"));

pub(crate) fn acquire(claim: &Claim) -> Call {
    let call = Call::new(&ACQUIRE, 1, 4, claim.name.len() + 2 * OWNER_BYTES + 24)
        .arg(&*claim.name)
        .arg(Text(claim.owner))
        .arg(millis(claim.lease))
        .arg(claim.depth);
    match claim.heir_of {
        Some(before) => call.arg(Text(before)),
        None => call,
    }
}

pub(crate) fn acquired(lease: Duration, reply: Value) -> Result<Attempt> {
    exclusive::acquired(lease, reply)
}

pub(crate) fn release(claim: &Claim) -> Call {
    Call::new(&RELEASE, 1, 2, claim.name.len() + OWNER_BYTES + 8)
        .arg(&*claim.name)
        .arg(Text(claim.owner))
        .arg(claim.depth)
}

pub(crate) fn renew(claims: &[&Claim]) -> Call {
    let names: usize = claims.iter().map(|claim| claim.name.len()).sum();
    let bytes = names + claims.len() * (OWNER_BYTES + 12);
    let mut call = Call::new(&RENEW, claims.len(), 2 * claims.len(), bytes);
    for claim in claims {
        call = call.arg(&*claim.name);
    }
    for claim in claims {
        call = call.arg(Text(claim.owner)).arg(millis(claim.lease));
    }
    call
}

pub(crate) fn inspect(name: &str) -> Call {
    Call::new(&INSPECT, 1, 0, name.len()).arg(name)
}

pub(crate) fn force(name: &str) -> Call {
    Call::new(&FORCE, 1, 0, name.len()).arg(name)
}

/// What [`inspect`] and [`force`] found. Other clients' values may be any bytes.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let nonsense = nonsense("an inspection", &reply);
    let Value::Array(parts) = reply else { return Err(nonsense) };
    match parts.as_slice() {
        [Value::Int(-2), _] => Ok(Snapshot::free(name)),
        [Value::Int(-1), _] => Err(immortal()),
        [Value::Int(ttl), Value::BulkString(value)] => {
            let holder = Holder::new(String::from_utf8_lossy(value), 1);
            Ok(Snapshot::held(name, vec![holder], milliseconds(*ttl)))
        }
        _ => Err(nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn any_bytes_are_a_holder() {
        let reply = |ttl, value: &[u8]| {
            Value::Array(vec![Value::Int(ttl), Value::BulkString(value.to_vec())])
        };
        let found = snapshot("k", reply(5, b"\xffx")).unwrap();
        assert_eq!(found.holders, [Holder::new("\u{fffd}x", 1)]);
        assert_eq!(found.ttl, Some(Duration::from_millis(5)));
        assert_eq!(snapshot("k", reply(-1, b"x")).unwrap_err().kind(), ErrorKind::Conflict);
        let free = Value::Array(vec![Value::Int(-2), Value::Nil]);
        assert!(!snapshot("k", free).unwrap().is_held());
        for odd in [Value::Nil, Value::Array(vec![Value::Int(5), Value::Nil])] {
            assert_eq!(snapshot("k", odd).unwrap_err().kind(), ErrorKind::Unavailable);
        }
    }
}
