//! One owner at a time, counted: claims as script calls, replies as answers. The same as `store/machine/exclusive.rs`.

use std::sync::Once;
use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::refusal::{self, nonsense};
use super::wire::{self, Text, millis};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Attempt, Claim, Holder, Released, Renewed, Snapshot};

static ACQUIRE: Script = Script::new(include_str!("scripts/exclusive_acquire.lua"));
static RELEASE: Script = Script::new(include_str!("scripts/exclusive_release.lua"));
static RENEW: Script = Script::new(include_str!("scripts/exclusive_renew.lua"));
static INSPECT: Script = Script::new(include_str!("scripts/exclusive_inspect.lua"));
static FORCE: Script = Script::new(include_str!("scripts/exclusive_force.lua"));

/// A uuid, a colon and a number; a little more than most need.
pub(crate) const OWNER_BYTES: usize = 48;

pub(crate) fn acquire(claim: &Claim) -> Call {
    let bytes = claim.name.len() + 2 * OWNER_BYTES + 24;
    let call = Call::new(&ACQUIRE, 1, 4, bytes)
        .arg(&*claim.name)
        .arg(Text(claim.owner))
        .arg(millis(claim.lease))
        .arg(claim.depth);
    match claim.heir_of {
        Some(before) => call.arg(Text(before)),
        None => call,
    }
}

/// Reads the reply to an acquire. The scripts set the time to live to the lease that was asked for, or leave a longer one.
pub(crate) fn acquired(lease: Duration, reply: Value) -> Result<Attempt> {
    match reply {
        Value::Nil => Ok(Attempt::Acquired { token: None, lease }),
        Value::Int(-1) => Err(immortal()),
        Value::Int(ttl) => Ok(Attempt::Busy { ttl: milliseconds(ttl) }),
        other => Err(nonsense("an acquisition", &other)),
    }
}

pub(crate) fn release(claim: &Claim) -> Call {
    let bytes = 2 * claim.name.len() + OWNER_BYTES + 40;
    Call::new(&RELEASE, 1, 3, bytes)
        .arg(&*claim.name)
        .arg(Text(claim.owner))
        .arg(claim.depth)
        .arg(Text(wire::channel(&claim.name)))
}

pub(crate) fn released(reply: Value) -> Result<Released> {
    match reply {
        Value::Int(-1) => Ok(Released::NotHeld),
        Value::Int(-2) => Ok(Released::StillHeld),
        Value::Int(-3) => {
            warn_unheard();
            Ok(Released::Freed { heard_by: 0 })
        }
        Value::Int(n) if n >= 0 => {
            Ok(Released::Freed { heard_by: u32::try_from(n).unwrap_or(u32::MAX) })
        }
        other => Err(nonsense("a release", &other)),
    }
}

/// The release itself succeeded, so it is no error of the caller's; but somebody should mend the permissions.
fn warn_unheard() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            target: "distlock",
            "a lock was released, but the Redis user may not PUBLISH: waiters notice only when the lease they saw ends; \
             give the user +publish and &redisson_lock__channel:*"
        );
    });
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

/// Reads the reply to a renewal: one result for each claim. A failed call is the error of every claim.
pub(crate) fn renewed(reply: Result<Value>, claims: &[&Claim]) -> Vec<Result<Renewed>> {
    let answers = reply.and_then(|reply| match reply {
        Value::Array(answers) if answers.len() == claims.len() => Ok(answers),
        other => Err(nonsense("a renewal", &other)),
    });
    match answers {
        Ok(answers) => answers.into_iter().zip(claims).map(renewed_one).collect(),
        Err(error) => vec![Err(error); claims.len()],
    }
}

fn renewed_one((answer, claim): (Value, &&Claim)) -> Result<Renewed> {
    match answer {
        // The scripts never shorten a time to live, so it is at least this.
        Value::Int(1) => Ok(Renewed::Held { for_: claim.lease }),
        Value::Int(_) => Ok(Renewed::Gone),
        Value::ServerError(refused) => match refusal::of(&refused) {
            // The name has other data now: the lock is surely gone.
            error if error.kind() == ErrorKind::Conflict => Ok(Renewed::Gone),
            error => Err(error),
        },
        other => Err(nonsense("a renewal", &other)),
    }
}

pub(crate) fn inspect(name: &str) -> Call {
    Call::new(&INSPECT, 1, 0, name.len()).arg(name)
}

pub(crate) fn force(name: &str) -> Call {
    Call::new(&FORCE, 1, 1, 2 * name.len() + 40).arg(name).arg(Text(wire::channel(name)))
}

/// What [`inspect`] and [`force`] found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let (ttl, fields) = match parts(reply) {
        Ok(parts) => parts,
        Err(other) => return Err(nonsense("an inspection", &other)),
    };
    match ttl {
        -2 => Ok(Snapshot::free(name)),
        -1 => Err(immortal()),
        ttl => {
            // Fields with no count in them, such as the mode of a read-write lock, are not holders.
            let holders: Vec<Holder> = fields.chunks_exact(2).filter_map(holder).collect();
            if holders.is_empty() {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "the hash of this name is not a lock: choose another name for this lock",
                ));
            }
            Ok(Snapshot::held(name, holders, milliseconds(ttl)))
        }
    }
}

pub(super) fn parts(reply: Value) -> std::result::Result<(i64, Vec<Value>), Value> {
    match reply {
        Value::Array(mut parts) => match (parts.pop(), parts.pop()) {
            (Some(Value::Array(fields)), Some(Value::Int(ttl))) => Ok((ttl, fields)),
            _ => Err(Value::Array(parts)),
        },
        other => Err(other),
    }
}

pub(super) fn holder(pair: &[Value]) -> Option<Holder> {
    let [Value::BulkString(owner), Value::BulkString(depth)] = pair else { return None };
    let depth: i64 = std::str::from_utf8(depth).ok()?.parse().ok()?;
    let depth = u32::try_from(depth.max(0)).unwrap_or(u32::MAX);
    Some(Holder::new(String::from_utf8_lossy(owner), depth))
}

pub(crate) fn milliseconds(ttl: i64) -> Duration {
    Duration::from_millis(ttl.max(0).unsigned_abs())
}

pub(crate) fn immortal() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the key of this name has no time to live, so it is not a lock: choose another name for this lock",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn claim() -> Claim {
        Claim {
            name: "k".into(),
            owner: crate::Owner::mint(uuid::Uuid::new_v4()),
            lease: LEASE,
            depth: 1,
            heir_of: None,
            kind: crate::store::ClaimKind::Exclusive,
            info: None,
        }
    }

    #[test]
    fn replies_become_answers() {
        assert_eq!(
            acquired(LEASE, Value::Nil).unwrap(),
            Attempt::Acquired { token: None, lease: LEASE }
        );
        let busy = Attempt::Busy { ttl: Duration::from_millis(7) };
        assert_eq!(acquired(LEASE, Value::Int(7)).unwrap(), busy);
        assert_eq!(acquired(LEASE, Value::Int(-1)).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(acquired(LEASE, Value::Okay).unwrap_err().kind(), ErrorKind::Unavailable);

        assert_eq!(released(Value::Int(2)).unwrap(), Released::Freed { heard_by: 2 });
        assert_eq!(released(Value::Int(-1)).unwrap(), Released::NotHeld);
        assert_eq!(released(Value::Int(-2)).unwrap(), Released::StillHeld);
        assert_eq!(released(Value::Int(-3)).unwrap(), Released::Freed { heard_by: 0 });
        assert_eq!(released(Value::Int(-9)).unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_short_or_odd_renewal_reply_is_unknown_and_never_lost() {
        let claims = [&claim(), &claim()];
        for reply in [Value::Array(vec![Value::Int(1)]), Value::Nil] {
            let answers = renewed(Ok(reply), &claims);
            assert_eq!(answers.len(), 2);
            assert!(answers.iter().all(Result::is_err));
        }
    }

    #[test]
    fn a_renewal_grants_what_each_claim_asked_for() {
        let long = Claim { lease: 2 * LEASE, ..claim() };
        let reply = Value::Array(vec![Value::Int(1), Value::Int(0), Value::Int(1)]);
        let answers = renewed(Ok(reply), &[&claim(), &claim(), &long]);
        let answers: Vec<Renewed> = answers.into_iter().map(Result::unwrap).collect();
        let held = |for_| Renewed::Held { for_ };
        assert_eq!(answers, [held(LEASE), Renewed::Gone, held(2 * LEASE)]);
    }

    #[test]
    fn snapshots_skip_fields_that_are_no_holders() {
        let text = |s: &str| Value::BulkString(s.as_bytes().to_vec());
        let fields = vec![text("mode"), text("write"), text("u:1:write"), text("2")];
        let found = snapshot("k", Value::Array(vec![Value::Int(5), Value::Array(fields)])).unwrap();
        assert_eq!(found.holders, [Holder::new("u:1:write", 2)]);
        assert_eq!(found.ttl, Some(Duration::from_millis(5)));
    }
}
