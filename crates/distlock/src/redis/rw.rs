//! Many readers or one writer: claims as script calls, replies as answers. The same as `store/machine/rw.rs`.

use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::exclusive::{self, immortal, milliseconds, parts};
use super::refusal::nonsense;
use super::wire::{self, Text, millis};
use crate::error::Result;
use crate::store::machine::rw::{RECHECK, WRITER_PRIORITY};
use crate::store::{Attempt, Claim, ClaimKind, Holder, Mode, Snapshot};

/// A script that begins with what they all need.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("scripts/rw_lives.lua"), include_str!($file)))
    };
}

static ACQUIRE_READ: Script = script!("scripts/rw_acquire_read.lua");
static ACQUIRE_WRITE: Script = script!("scripts/rw_acquire_write.lua");
static RELEASE_READ: Script = script!("scripts/rw_release_read.lua");
static RELEASE_WRITE: Script = script!("scripts/rw_release_write.lua");
static RENEW: Script = Script::new(include_str!("scripts/rw_renew.lua"));
static INSPECT: Script = script!("scripts/rw_inspect.lua");
static FORCE: Script = script!("scripts/rw_force.lua");

/// A guess of what a call needs: an owner, some numbers, and up to four names derived from the lock's.
fn room(name: &str) -> usize {
    4 * name.len() + 160
}

/// A call that begins with the lock, the writer that waits, the owner, and the prefix of read holds.
fn call(script: &'static Script, claim: &Claim, more: usize) -> Call {
    Call::new(script, 2, 2 + more, room(&claim.name))
        .arg(&*claim.name)
        .arg(Text(wire::waiting_writer(&claim.name)))
        .arg(Text(claim.owner))
        .arg(Text(wire::read_holds(&claim.name)))
}

pub(crate) fn acquire_read(claim: &Claim) -> Call {
    let call = call(&ACQUIRE_READ, claim, 3).arg(millis(claim.lease)).arg(claim.depth);
    call.arg(millis(RECHECK))
}

pub(crate) fn acquire_write(claim: &Claim) -> Call {
    let call = call(&ACQUIRE_WRITE, claim, 4).arg(millis(claim.lease)).arg(claim.depth);
    let call = call.arg(millis(RECHECK));
    match claim.kind {
        ClaimKind::Write { waits: true } => call.arg(millis(WRITER_PRIORITY)),
        _ => call,
    }
}

pub(crate) fn acquired(lease: Duration, reply: Value) -> Result<Attempt> {
    exclusive::acquired(lease, reply)
}

pub(crate) fn release_read(claim: &Claim) -> Call {
    release(&RELEASE_READ, claim, claim.depth)
}

pub(crate) fn release_write(claim: &Claim) -> Call {
    release(&RELEASE_WRITE, claim, claim.depth)
}

/// The last step of a release also takes back that the writer waits.
pub(crate) fn give_up_write(claim: &Claim) -> Call {
    release(&RELEASE_WRITE, claim, 0)
}

fn release(script: &'static Script, claim: &Claim, depth: u32) -> Call {
    call(script, claim, 2).arg(depth).arg(Text(wire::rw_channel(&claim.name)))
}

/// Renews reads and writes alike.
pub(crate) fn renew(claims: &[&Claim]) -> Call {
    let bytes = claims.iter().map(|claim| room(&claim.name)).sum();
    let mut call = Call::new(&RENEW, claims.len(), 4 * claims.len(), bytes);
    for claim in claims {
        call = call.arg(&*claim.name);
    }
    for claim in claims {
        let half = match claim.kind {
            ClaimKind::Write { .. } => "write",
            _ => "read",
        };
        call = call
            .arg(Text(claim.owner))
            .arg(Text(wire::read_holds(&claim.name)))
            .arg(millis(claim.lease))
            .arg(half);
    }
    call
}

pub(crate) fn inspect(name: &str) -> Call {
    let call = Call::new(&INSPECT, 1, 2, room(name)).arg(name);
    call.arg("").arg(Text(wire::read_holds(name)))
}

/// What [`inspect`] and the forced releases found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let (ttl, found) = match parts(reply) {
        Ok(parts) => parts,
        Err(other) => return Err(nonsense("an inspection", &other)),
    };
    match ttl {
        -1 => Err(immortal()),
        ttl if ttl < 0 => Ok(Snapshot::free(name)),
        ttl => {
            let holders = found.chunks_exact(3).filter_map(holder).collect();
            Ok(Snapshot::held(name, holders, milliseconds(ttl)))
        }
    }
}

fn holder(found: &[Value]) -> Option<Holder> {
    let [pair @ .., Value::BulkString(half)] = found else { return None };
    let mode = if half == b"write" { Mode::Write } else { Mode::Read };
    exclusive::holder(pair).map(|holder| Holder { mode, ..holder })
}

pub(crate) fn force_read(name: &str) -> Call {
    force(name, "read", "0")
}

pub(crate) fn force_write(name: &str) -> Call {
    force(name, "write", "1")
}

fn force(name: &str, half: &str, message: &str) -> Call {
    Call::new(&FORCE, 2, 4, room(name))
        .arg(name)
        .arg(Text(wire::waiting_writer(name)))
        .arg(half)
        .arg(Text(wire::read_holds(name)))
        .arg(Text(wire::rw_channel(name)))
        .arg(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn text(s: &str) -> Value {
        Value::BulkString(s.as_bytes().to_vec())
    }

    #[test]
    fn snapshots_tell_readers_from_writers() {
        let found = ["u:1", "2", "write", "u:1", "1", "read"].map(text).to_vec();
        let seen = snapshot("k", Value::Array(vec![Value::Int(5), Value::Array(found)])).unwrap();
        let holders =
            [Holder::with_mode("u:1", 2, Mode::Write), Holder::with_mode("u:1", 1, Mode::Read)];
        assert_eq!(seen.holders, holders);
        assert_eq!(seen.ttl, Some(Duration::from_millis(5)));
    }

    #[test]
    fn what_is_free_or_no_lock_has_no_holders() {
        let reply = |ttl| Value::Array(vec![Value::Int(ttl), Value::Array(Vec::new())]);
        assert!(!snapshot("k", reply(-2)).unwrap().is_held());
        assert_eq!(snapshot("k", reply(-1)).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(snapshot("k", Value::Nil).unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
