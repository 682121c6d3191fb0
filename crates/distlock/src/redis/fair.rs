//! A hold and a queue: claims as script calls, replies as answers. The same as `store/machine/fair.rs`.

use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::exclusive::{self, OWNER_BYTES};
use super::refusal::nonsense;
use super::wire::{self, Text, millis};
use crate::error::Result;
use crate::store::{Attempt, Claim, ClaimKind, Snapshot};

/// A script of this kind: what they share, then its own part.
macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("scripts/fair_queue.lua"), include_str!($file)))
    };
}

static ACQUIRE: Script = script!("scripts/fair_acquire.lua");
static RELEASE: Script = script!("scripts/fair_release.lua");
static GIVE_UP: Script = script!("scripts/fair_give_up.lua");
static FORCE: Script = script!("scripts/fair_force.lua");
static INSPECT: Script = script!("scripts/fair_inspect.lua");

/// A call on the lock, its queue and its timeouts.
fn call(script: &'static Script, name: &str, args: usize) -> Call {
    let bytes = 4 * name.len() + 2 * OWNER_BYTES + 120;
    Call::new(script, 3, args, bytes)
        .arg(name)
        .arg(Text(wire::queue(name)))
        .arg(Text(wire::timeouts(name)))
}

/// In milliseconds; 0 for a single try.
fn patience(claim: &Claim) -> u64 {
    match claim.kind {
        ClaimKind::Fair { patience: Some(patience) } => millis(patience),
        _ => 0,
    }
}

pub(crate) fn acquire(claim: &Claim) -> Call {
    let call = call(&ACQUIRE, &claim.name, 6)
        .arg(Text(claim.owner))
        .arg(millis(claim.lease))
        .arg(claim.depth)
        .arg(patience(claim))
        .arg(Text(wire::channel(&claim.name)));
    match claim.heir_of {
        Some(before) => call.arg(Text(before)),
        None => call,
    }
}

pub(crate) fn acquired(lease: Duration, reply: Value) -> Result<Attempt> {
    exclusive::acquired(lease, reply)
}

pub(crate) fn release(claim: &Claim) -> Call {
    call(&RELEASE, &claim.name, 3)
        .arg(Text(claim.owner))
        .arg(claim.depth)
        .arg(Text(wire::channel(&claim.name)))
}

pub(crate) fn give_up(claim: &Claim) -> Call {
    call(&GIVE_UP, &claim.name, 3)
        .arg(Text(claim.owner))
        .arg(patience(claim))
        .arg(Text(wire::channel(&claim.name)))
}

pub(crate) fn force(name: &str) -> Call {
    call(&FORCE, name, 1).arg(Text(wire::channel(name)))
}

pub(crate) fn inspect(name: &str) -> Call {
    call(&INSPECT, name, 0)
}

/// What [`inspect`] and [`force`] found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let (rest, queue) = match reply {
        Value::Array(mut parts) => match parts.pop() {
            Some(Value::Array(queue)) => (Value::Array(parts), queue),
            _ => return Err(nonsense("an inspection", &Value::Nil)),
        },
        other => return Err(nonsense("an inspection", &other)),
    };
    let queue = queue.into_iter().filter_map(|waiter| match waiter {
        Value::BulkString(waiter) => Some(String::from_utf8_lossy(&waiter).into_owned()),
        _ => None,
    });
    Ok(exclusive::snapshot(name, rest)?.with_queue(queue.collect()))
}
