//! What holders say of themselves: a hash beside the lock, `{owner: text}`, written and removed in the same step as the hold.
//!
//! A claim that says nothing leaves its call as it is: same script, same keys. One that does has its script run inside
//! `holders_step.lua`, which knows no kind: it looks at what the step answers.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::wire::{self, Text, millis};
use super::{Extras, RedisStore, list};
use crate::env::BoxFuture;
use crate::error::ErrorKind;
use crate::holder::HolderInfo;
use crate::runtime::join::join_all;
use crate::runtime::timeout::timeout;
use crate::store::{Claim, ClaimKind, Mode, Snapshot};

static READ: Script = Script::new(include_str!("scripts/holders_read.lua"));

/// Permits of a plain semaphore are out for good, so nothing says when to forget who took them. A week after the last acquisition
/// nobody asks any more; what programs give back they remove by themselves.
const PERMITS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How many fields are read at once: more holders than that nobody reads.
const MOST_READ: usize = 1000;

/// The script `code` inside the one that keeps what holders say.
pub(super) fn around(code: &str) -> String {
    let (before, after) =
        include_str!("scripts/holders_step.lua").split_once("-- THE STEP\n").unwrap_or_default();
    format!("{before}{code}{after}")
}

/// A step that takes or keeps what is claimed.
pub(super) fn taking(call: Call, claim: &Claim) -> Call {
    noted(call, "acquire", std::slice::from_ref(&claim))
}

/// The same for several at once.
pub(super) fn taking_all(call: Call, claims: &[Claim]) -> Call {
    noted(call, "all", &claims.iter().collect::<Vec<_>>())
}

/// A renewal of several.
pub(super) fn renewing(call: Call, claims: &[&Claim]) -> Call {
    noted(call, "renew", claims)
}

/// A step that lets go. One that only goes one level up changes nothing.
pub(super) fn leaving(call: Call, claim: &Claim) -> Call {
    match claim.depth {
        0 => noted(call, "release", std::slice::from_ref(&claim)),
        _ => call,
    }
}

fn noted(call: Call, doing: &str, claims: &[&Claim]) -> Call {
    if !claims.iter().all(|claim| claim.info.is_some()) {
        return call;
    }
    let keys: Vec<String> =
        claims.iter().map(|claim| wire::holders(&claim.name).to_string()).collect();
    let mut args = Vec::with_capacity(5 * claims.len() + 2);
    for (at, claim) in claims.iter().enumerate() {
        let (lock, kept) = match claim.kind {
            ClaimKind::Permits { .. } => (0, PERMITS),
            ClaimKind::LeasedPermits { .. } => (0, claim.lease),
            _ => (at + 1, claim.lease),
        };
        let says = claim.info.as_ref().filter(|_| doing != "release");
        let before = claim
            .heir_of
            .map(|owner| Claim { owner, heir_of: None, info: None, ..(*claim).clone() }.info_key());
        args.extend([
            lock.to_string(),
            claim.info_key(),
            says.map(|info| info.to_text()).unwrap_or_default(),
            millis(kept).to_string(),
            before.unwrap_or_default(),
        ]);
    }
    args.extend([doing.to_owned(), claims.len().to_string()]);
    call.inside_another(&keys, &args)
}

/// A step that frees the lock whoever holds it.
pub(super) fn forcing(call: Call, what: ClaimKind, name: &str) -> Call {
    let gone = match what {
        ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } => "2",
        ClaimKind::LatchOpen => return call,
        _ => "1",
    };
    let args = [gone, "", "", "0", "", "force", "1"].map(str::to_owned);
    call.inside_another(&[wire::holders(name).to_string()], &args)
}

/// The call that asks what is around a lock, and the fields that it asks for.
fn look(seen: &Snapshot, channel: &str) -> (Call, Vec<String>) {
    let fields: BTreeSet<String> =
        seen.holders.iter().take(MOST_READ).map(|holder| holder.info_key()).collect();
    let fields: Vec<String> = fields.into_iter().collect();
    let bytes = 2 * seen.name.len() + channel.len() + 48 * fields.len() + 32;
    let mut call = Call::new(&READ, 1, 1 + fields.len(), bytes)
        .arg(Text(wire::holders(&seen.name)))
        .arg(channel);
    for field in &fields {
        call = call.arg(field);
    }
    (call, fields)
}

/// What is said of a lock, added to it. Whatever is no answer adds nothing. False if it may not be asked who listens.
fn add(seen: &mut Snapshot, fields: &[String], reply: &Value) -> bool {
    let Value::Array(parts) = reply else { return true };
    let [Value::Int(listening), Value::Array(texts)] = &parts[..] else { return true };
    seen.waiters = u32::try_from(*listening).ok();
    for (field, text) in fields.iter().zip(texts) {
        let Value::BulkString(text) = text else { continue };
        let Ok(text) = std::str::from_utf8(text) else { continue };
        let Some(info) = HolderInfo::from_text(text) else { continue };
        for holder in seen.holders.iter_mut().filter(|holder| holder.info_key() == *field) {
            holder.info = Some(info.clone());
        }
    }
    *listening != -2
}

/// Where those who wait for it listen; empty if they do not, or each for itself.
fn channel(what: ClaimKind, name: &str) -> String {
    match what {
        ClaimKind::Exclusive | ClaimKind::Fenced => wire::channel(name).to_string(),
        ClaimKind::Read | ClaimKind::Write { .. } => wire::rw_channel(name).to_string(),
        ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } => {
            wire::permits_channel(name).to_string()
        }
        ClaimKind::LatchOpen => wire::latch_channel(name),
        ClaimKind::Fair { .. } | ClaimKind::Simple => String::new(),
    }
}

impl RedisStore {
    /// The same with what its holders say, and how many wait. Not being allowed to ask that is no trouble: it is an extra.
    pub(super) async fn with_surroundings(&self, what: ClaimKind, mut seen: Snapshot) -> Snapshot {
        self.look_around(what, &mut seen).await;
        if matches!(what, ClaimKind::Fair { .. }) {
            seen.waiters = u32::try_from(seen.queue.len()).ok();
        }
        seen
    }

    async fn look_around(&self, what: ClaimKind, seen: &mut Snapshot) {
        let Extras { env, patience, may_read, may_count, .. } = &self.extras;
        let nobody = seen.holders.is_empty() && seen.count.is_none();
        if nobody || !may_read.load(Ordering::Relaxed) {
            return;
        }
        let counted = may_count.load(Ordering::Relaxed);
        let channel = if counted { channel(what, &seen.name) } else { String::new() };
        let (call, fields) = look(seen, &channel);
        match timeout(&**env, *patience, self.run(what, &seen.name, call)).await {
            Some(Ok(reply)) if !add(seen, &fields, &reply) => {
                may_count.store(false, Ordering::Relaxed)
            }
            Some(Err(e)) if e.kind() == ErrorKind::Config => {
                may_read.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// The same for all of these, whose kinds are not known. The first is asked about alone: if that may not be, the others may
    /// not either.
    pub(super) async fn with_all_surroundings(&self, mut locks: Vec<Snapshot>) -> Vec<Snapshot> {
        let first = locks.len().min(1);
        let (first, rest) = locks.split_at_mut(first);
        for some in std::iter::once(first).chain(rest.chunks_mut(list::BATCH)) {
            let looks = some.iter_mut().map(|seen| -> BoxFuture<'_, ()> {
                let shared = seen.holders.iter().any(|holder| holder.mode != Mode::Exclusive);
                let what = if shared { ClaimKind::Read } else { ClaimKind::Exclusive };
                Box::pin(async move {
                    self.look_around(what, seen).await;
                    // It may be a fair lock, whose waiters listen each for itself: counting them takes permissions of that kind.
                    seen.waiters = seen.waiters.filter(|waiters| shared || *waiters > 0);
                })
            });
            join_all(looks.collect()).await;
        }
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Holder;

    #[test]
    fn a_script_is_run_whole_and_keeps_its_lines_in_order() {
        let code = "local a = 1\nreturn a\n";
        let all = around(code);
        assert!(
            all.contains("local function step(KEYS, ARGV)\nlocal a = 1\nreturn a\nend\n"),
            "{all}"
        );
        assert!(all.ends_with("return answer\n"));
    }

    #[test]
    fn whatever_is_no_answer_adds_nothing() {
        let ttl = Duration::from_secs(1);
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = ["a".to_owned()];
        for reply in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(-1), Value::Array(vec![Value::Nil])]),
            Value::Array(vec![Value::Int(-1), Value::Array(vec![text("garbage")])]),
            Value::Array(vec![Value::Int(-1), Value::Array(vec![Value::BulkString(vec![0xff])])]),
        ] {
            let mut seen = Snapshot::held("k", vec![Holder::new("a", 1)], ttl);
            add(&mut seen, &fields, &reply);
            assert_eq!(seen, Snapshot::held("k", vec![Holder::new("a", 1)], ttl));
        }
        let mut seen = Snapshot::held("k", vec![Holder::new("a", 1)], ttl);
        let said = Value::Array(vec![text("host=h&pid=1&service=s&at=1&waited=0")]);
        add(&mut seen, &fields, &Value::Array(vec![Value::Int(3), said]));
        assert_eq!(seen.waiters, Some(3));
        assert_eq!(seen.holders[0].info.as_ref().map(|info| info.pid), Some(1));
    }
}
