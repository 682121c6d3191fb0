//! Several locks of one server, all or none, in one script.

use redis::Value;

use super::call::{Call, Script};
use super::exclusive::{immortal, milliseconds};
use super::refusal::nonsense;
use super::wire::{self, Text, millis};
use crate::error::Result;
use crate::store::{AttemptAll, Claim, ClaimKind, Grant};

static ACQUIRE: Script = Script::new(include_str!("scripts/multi_acquire.lua"));

/// `None` if these cannot be taken in one step: the script knows plain locks and fenced ones, all with one lease.
pub(crate) fn acquire(claims: &[Claim]) -> Option<Call> {
    let first = claims.first()?;
    let alike = |claim: &Claim| {
        claim.lease == first.lease && matches!(claim.kind, ClaimKind::Exclusive | ClaimKind::Fenced)
    };
    if !claims.iter().all(alike) {
        return None;
    }
    let fenced = || claims.iter().filter(|claim| claim.kind == ClaimKind::Fenced);
    let keys = claims.len() + fenced().count();
    let bytes: usize = claims.iter().map(|claim| 2 * claim.name.len() + 80).sum();
    let mut call = Call::new(&ACQUIRE, keys, 2 + 2 * claims.len(), bytes);
    for claim in claims {
        call = call.arg(&*claim.name);
    }
    for claim in fenced() {
        call = call.arg(Text(wire::token(&claim.name)));
    }
    call = call.arg(claims.len()).arg(millis(first.lease));
    for claim in claims {
        call = call.arg(Text(claim.owner)).arg(u8::from(claim.kind == ClaimKind::Fenced));
    }
    Some(call)
}

pub(crate) fn acquired(claims: &[Claim], reply: Value) -> Result<AttemptAll> {
    let Value::Array(answers) = &reply else { return Err(nonsense("an acquisition", &reply)) };
    match &answers[..] {
        [Value::Int(0), Value::Int(_), Value::Int(-1)] => Err(immortal()),
        [Value::Int(0), Value::Int(at), Value::Int(ttl)] if *at >= 1 => {
            let at = usize::try_from(*at - 1).unwrap_or_default();
            Ok(AttemptAll::Busy { at, ttl: milliseconds(*ttl) })
        }
        [Value::Int(1), tokens @ ..] if tokens.len() == claims.len() => {
            let grant = |(claim, token): (&Claim, &Value)| match (claim.kind, token) {
                (ClaimKind::Fenced, Value::BulkString(text)) => {
                    let token = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                    // A fenced lock without a token is of no use.
                    let token = token.ok_or_else(|| nonsense("an acquisition", &reply))?;
                    Ok(Grant::new(claim.lease).with_token(Some(token)))
                }
                (ClaimKind::Fenced, _) => Err(nonsense("an acquisition", &reply)),
                _ => Ok(Grant::new(claim.lease)),
            };
            let grants: Result<Vec<Grant>> = claims.iter().zip(tokens).map(grant).collect();
            Ok(AttemptAll::Acquired(grants?))
        }
        _ => Err(nonsense("an acquisition", &reply)),
    }
}
