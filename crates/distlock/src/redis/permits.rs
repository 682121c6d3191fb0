//! A number of permits: claims as script calls, replies as answers. The same as `store/machine/permits.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
pub(crate) use super::exclusive::acquired;
use super::refusal::nonsense;
use super::wire::{self, Text};
use crate::env::Moment;
use crate::error::Result;
use crate::owner::Owner;
use crate::store::machine::permits::MOST;
use crate::store::{Claim, ClaimKind, Holder, Mode, PermitsOp, Snapshot};

/// A script that starts by reading the number under a key.
macro_rules! counting {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("scripts/permits_number.lua"),
            include_str!(concat!("scripts/", $file))
        ))
    };
}
pub(super) use counting;

static ACQUIRE: Script = counting!("permits_acquire.lua");
static RELEASE: Script = counting!("permits_release.lua");
static RENEW: Script = Script::new(include_str!("scripts/permits_renew.lua"));
static INSPECT: Script = counting!("permits_inspect.lua");
static FORCE: Script = counting!("permits_force.lua");
static ADMIN: Script = counting!("permits_admin.lua");

/// An owner, two numbers and what is added to a name for the register and the channel.
const BYTES: usize = 112;

/// A call on a semaphore's two keys.
fn on(script: &'static Script, name: &str, args: usize) -> Call {
    let bytes = 3 * name.len() + BYTES;
    Call::new(script, 2, args, bytes).arg(name).arg(Text(wire::permits_out(name)))
}

pub(crate) fn acquire(claim: &Claim) -> Call {
    let (count, initial) = match claim.kind {
        ClaimKind::Permits { count, initial } => (count, initial),
        _ => (0, None),
    };
    let call = on(&ACQUIRE, &claim.name, 4)
        .arg(Text(claim.owner))
        .arg(count)
        .arg(Text(wire::permits_channel(&claim.name)));
    match initial {
        Some(permits) => call.arg(permits),
        None => call,
    }
}

pub(crate) fn release(claim: &Claim) -> Call {
    on(&RELEASE, &claim.name, 2)
        .arg(Text(claim.owner))
        .arg(Text(wire::permits_channel(&claim.name)))
}

/// Owners of whose acquisition of permits one telling got no answer: it may arrive when they have left.
#[derive(Debug, Default)]
pub(crate) struct InDoubt {
    any: AtomicBool,
    owners: Mutex<HashMap<Owner, Moment>>,
}

impl InDoubt {
    #[cold]
    pub(crate) fn add(&self, owner: Owner, now: Moment) {
        self.with(|owners| {
            owners.retain(|_, since| now.since(*since) < REMEMBERED);
            owners.insert(owner, now)
        });
    }

    pub(crate) fn contains(&self, owner: Owner) -> bool {
        self.any.load(Ordering::Acquire) && self.with(|owners| owners.contains_key(&owner))
    }

    pub(crate) fn remove(&self, owner: Owner) {
        self.with(|owners| owners.remove(&owner));
    }

    fn with<T>(&self, look: impl FnOnce(&mut HashMap<Owner, Moment>) -> T) -> T {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let found = look(&mut owners);
        self.any.store(!owners.is_empty(), Ordering::Release);
        found
    }
}

/// How long a server remembers that an owner gave up. A kernel sends a packet again for about 15 minutes.
const REMEMBERED: Duration = Duration::from_secs(20 * 60);

/// A release for an owner whose acquisition may still arrive: it must not take anything then.
pub(crate) fn give_up_for_good(claim: &Claim) -> Call {
    let millis = REMEMBERED.as_millis() as u64;
    on(&RELEASE, &claim.name, 3)
        .arg(Text(claim.owner))
        .arg(Text(wire::permits_channel(&claim.name)))
        .arg(millis)
}

pub(crate) fn renew(claims: &[&Claim]) -> Call {
    let bytes = claims.iter().map(|claim| 2 * claim.name.len() + BYTES).sum();
    let mut call = Call::new(&RENEW, 2 * claims.len(), claims.len(), bytes);
    for claim in claims {
        call = call.arg(&*claim.name).arg(Text(wire::permits_out(&claim.name)));
    }
    for claim in claims {
        call = call.arg(Text(claim.owner));
    }
    call
}

pub(crate) fn inspect(name: &str) -> Call {
    on(&INSPECT, name, 0)
}

pub(crate) fn force(name: &str) -> Call {
    on(&FORCE, name, 1).arg(Text(wire::permits_channel(name)))
}

/// What [`inspect`] and [`force`] found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let (left, ttl, fields) = parts(reply)?;
    let free = Snapshot::free(name);
    let Some(left) = left else { return Ok(free) };
    let holders = fields.chunks_exact(2).filter_map(holder).collect();
    Ok(Snapshot { holders, ttl, ..free }.with_count(Some(left)))
}

/// The permits left, a time to live and a list.
pub(super) fn parts(reply: Value) -> Result<(Option<i64>, Option<Duration>, Vec<Value>)> {
    let odd = nonsense("an inspection", &reply);
    let Value::Array(parts) = reply else { return Err(odd) };
    match <[Value; 3]>::try_from(parts) {
        Ok([left, Value::Int(ttl), Value::Array(list)]) => {
            let left = match left {
                Value::Int(left) => Some(left),
                Value::Nil => None,
                _ => return Err(odd),
            };
            Ok((left, u64::try_from(ttl).ok().map(Duration::from_millis), list))
        }
        _ => Err(odd),
    }
}

fn holder(pair: &[Value]) -> Option<Holder> {
    let [Value::BulkString(owner), Value::BulkString(count)] = pair else { return None };
    let count = std::str::from_utf8(count).ok()?.parse().ok()?;
    Some(Holder::with_mode(String::from_utf8_lossy(owner), count, Mode::Permits))
}

pub(crate) fn admin(name: &str, op: PermitsOp) -> Call {
    let (word, number) = match op {
        PermitsOp::Init(permits) => ("init", i64::from(permits)),
        PermitsOp::Add(permits) => ("add", permits.clamp(-4 * MOST, 4 * MOST)),
        PermitsOp::Drain => ("drain", 0),
        PermitsOp::Available => ("available", 0),
        PermitsOp::Release(permits) => ("release", i64::from(permits)),
        PermitsOp::ReleaseIfExists(permits) => ("release_if_exists", i64::from(permits)),
        PermitsOp::Delete => ("delete", 0),
    };
    let call = on(&ADMIN, name, 4).arg(word).arg(number);
    call.arg(Text(wire::permits_channel(name))).arg(MOST)
}
