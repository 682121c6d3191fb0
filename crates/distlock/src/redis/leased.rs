//! Permits with ids and leases: claims as script calls, replies as answers. The same as `store/machine/leased.rs`.

use redis::Value;

use super::call::{Call, Script};
pub(crate) use super::exclusive::acquired;
use super::permits;
use super::wire::{self, Text, millis};
use crate::error::Result;
use crate::store::machine::permits::MOST;
use crate::store::{Claim, ClaimKind, Holder, LeasedOp, Mode, PermitId, Snapshot};

/// A script that works on permits by their ids.
macro_rules! leasing {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("scripts/permits_number.lua"),
            include_str!("scripts/leased_ids.lua"),
            include_str!(concat!("scripts/", $file))
        ))
    };
}

static ACQUIRE: Script = leasing!("leased_acquire.lua");
static RELEASE: Script = leasing!("leased_release.lua");
static RENEW: Script = leasing!("leased_renew.lua");
static INSPECT: Script = leasing!("leased_inspect.lua");
static FORCE: Script = leasing!("leased_force.lua");
static ADMIN: Script = leasing!("leased_admin.lua");

/// A lease, a number and what is added to a name for the leases and the channel.
const BYTES: usize = 64;

/// A call on a semaphore's two keys, with `ids` ids among its arguments.
fn on(script: &'static Script, name: &str, args: usize, ids: usize) -> Call {
    let bytes = 3 * name.len() + BYTES + 16 * ids;
    Call::new(script, 2, args + ids, bytes).arg(name).arg(Text(wire::leases(name)))
}

fn with_ids(call: Call, ids: impl Iterator<Item = PermitId>) -> Call {
    ids.fold(call, |call, id| call.arg(&id.as_bytes()[..]))
}

/// How many permits a claim is for, and how many there are in all if nobody has set that before.
fn permits(claim: &Claim) -> (u32, Option<u32>) {
    match claim.kind {
        ClaimKind::LeasedPermits { count, initial } => (count, initial),
        _ => (0, None),
    }
}

pub(crate) fn acquire(claim: &Claim) -> Call {
    let (count, initial) = permits(claim);
    let call = on(&ACQUIRE, &claim.name, 3, count as usize)
        .arg(millis(claim.lease))
        .arg(Text(wire::permits_channel(&claim.name)));
    let call = match initial {
        Some(permits) => call.arg(permits),
        None => call.arg(""),
    };
    with_ids(call, PermitId::of(claim.owner, count))
}

pub(crate) fn release(claim: &Claim) -> Call {
    let (count, _) = permits(claim);
    let call = on(&RELEASE, &claim.name, 2, count as usize)
        .arg(Text(wire::permits_channel(&claim.name)))
        .arg("hold");
    with_ids(call, PermitId::of(claim.owner, count))
}

pub(crate) fn renew(claims: &[&Claim]) -> Call {
    let ids: usize = claims.iter().map(|claim| permits(claim).0 as usize).sum();
    let names: usize = claims.iter().map(|claim| 2 * claim.name.len() + BYTES).sum();
    let (keys, args) = (2 * claims.len(), 2 * claims.len() + ids);
    let mut call = Call::new(&RENEW, keys, args, names + 16 * ids);
    for claim in claims {
        call = call.arg(&*claim.name).arg(Text(wire::leases(&claim.name)));
    }
    for claim in claims {
        let (count, _) = permits(claim);
        call = call.arg(millis(claim.lease)).arg(count);
        call = with_ids(call, PermitId::of(claim.owner, count));
    }
    call
}

pub(crate) fn inspect(name: &str) -> Call {
    on(&INSPECT, name, 0, 0)
}

pub(crate) fn force(name: &str) -> Call {
    on(&FORCE, name, 1, 0).arg(Text(wire::permits_channel(name)))
}

/// What [`inspect`] and [`force`] found.
pub(crate) fn snapshot(name: &str, reply: Value) -> Result<Snapshot> {
    let (left, ttl, ids) = permits::parts(reply)?;
    let holders = ids.iter().filter_map(holder).collect();
    Ok(Snapshot { holders, ttl, ..Snapshot::free(name) }.with_count(left))
}

/// Ids have 16 bytes; Redisson before 3.17 wrote the 32 digits themselves.
fn holder(id: &Value) -> Option<Holder> {
    let Value::BulkString(id) = id else { return None };
    let text = match <[u8; 16]>::try_from(&id[..]) {
        Ok(bytes) => PermitId::from_bytes(bytes).to_string(),
        Err(_) => String::from_utf8_lossy(id).into_owned(),
    };
    Some(Holder::with_mode(text, 1, Mode::Permits))
}

pub(crate) fn admin(name: &str, op: &LeasedOp) -> Call {
    let (word, number, id) = match op {
        LeasedOp::Release(ids) => return release_list(name, ids),
        LeasedOp::Init(permits) => ("init", i64::from(*permits), None),
        LeasedOp::Set(permits) => ("set", i64::from(*permits), None),
        LeasedOp::Add(permits) => ("add", (*permits).clamp(-4 * MOST, 4 * MOST), None),
        LeasedOp::Available => ("available", 0, None),
        LeasedOp::Acquired => ("acquired", 0, None),
        LeasedOp::Extend(id, lease) => {
            ("extend", i64::try_from(*lease).unwrap_or(MOST).min(MOST), Some(*id))
        }
        LeasedOp::Remaining(id) => ("remaining", 0, Some(*id)),
        LeasedOp::Delete => ("delete", 0, None),
    };
    let call = on(&ADMIN, name, 4, 1)
        .arg(word)
        .arg(number)
        .arg(Text(wire::permits_channel(name)))
        .arg(MOST);
    with_ids(call, id.into_iter())
}

fn release_list(name: &str, ids: &[PermitId]) -> Call {
    // Each once: the script compares how many were named with how many there are.
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let call = on(&RELEASE, name, 2, ids.len()).arg(Text(wire::permits_channel(name))).arg("list");
    with_ids(call, ids.into_iter())
}
