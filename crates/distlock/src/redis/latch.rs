//! A count that comes down to zero: claims as script calls, replies as answers. The same as `store/machine/latch.rs`.

use redis::Value;

use super::call::{Call, Script};
pub(crate) use super::exclusive::acquired;
use super::permits::counting;
use super::refusal::nonsense;
use super::wire::{self, millis};
use crate::error::Result;
use crate::owner::Owner;
use crate::store::machine::latch::REMEMBERED;
use crate::store::{Claim, LatchOp, Snapshot};

static ACQUIRE: Script = counting!("latch_acquire.lua");
static COUNT_DOWN: Script = counting!("latch_count_down.lua");
static RENEW: Script = Script::new(include_str!("scripts/latch_renew.lua"));
static INSPECT: Script = counting!("latch_inspect.lua");
static ADMIN: Script = counting!("latch_admin.lua");

/// An owner and what is added to a name for the answer and the channel.
const BYTES: usize = 112;

pub(crate) fn acquire(claim: &Claim) -> Call {
    Call::new(&ACQUIRE, 1, 0, claim.name.len()).arg(&*claim.name)
}

pub(crate) fn renew(claims: &[&Claim]) -> Call {
    let bytes = claims.iter().map(|claim| claim.name.len()).sum();
    let call = Call::new(&RENEW, claims.len(), 0, bytes);
    claims.iter().fold(call, |call, claim| call.arg(&*claim.name))
}

pub(crate) fn inspect(name: &str) -> Call {
    Call::new(&INSPECT, 1, 0, name.len()).arg(name)
}

pub(crate) fn force(name: &str) -> Call {
    look_after(name, "force", 0)
}

/// What [`inspect`] and [`force`] found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let count = match reply {
        Value::Int(count) => Some(count.max(0)),
        Value::Nil => None,
        other => return Err(nonsense("an inspection", &other)),
    };
    Ok(Snapshot::free(name).with_count(count))
}

pub(crate) fn admin(name: &str, op: LatchOp) -> Call {
    match op {
        LatchOp::CountDown { request } => count_down(name, request),
        LatchOp::Forget { request } => look_after(&wire::counted(name, request), "forget", 0),
        LatchOp::Init(count) => look_after(name, "init", count),
        LatchOp::Count => look_after(name, "count", 0),
        LatchOp::Reset(count) => look_after(name, "reset", count),
        LatchOp::Delete => look_after(name, "delete", 0),
    }
}

fn count_down(name: &str, request: Owner) -> Call {
    Call::new(&COUNT_DOWN, 2, 2, 3 * name.len() + BYTES)
        .arg(name)
        .arg(wire::counted(name, request))
        .arg(wire::latch_channel(name))
        .arg(millis(REMEMBERED))
}

fn look_after(key: &str, word: &str, count: u32) -> Call {
    let call = Call::new(&ADMIN, 1, 3, 2 * key.len() + BYTES).arg(key);
    call.arg(word).arg(count).arg(wire::latch_channel(key))
}
