//! Finding locks by the start of their names, a bounded piece of work at a time.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use redis::{Cmd, Value};

use super::call::{Call, Script};
use super::exclusive::{holder, milliseconds, parts};
use super::link::Links;
use super::{refusal, wire};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::runtime::join::join_all;
use crate::store::{Holder, Mode, Snapshot};

/// How many keys the server looks at per SCAN: some hundred microseconds of its time.
const SCAN_COUNT: usize = 1000;

/// How many candidates one script looks into.
pub(super) const BATCH: usize = 100;

/// A lock of one owner at a time has one field, a read-write lock one per reader; a hash with more is somebody's data.
const MOST_FIELDS: usize = 16;
const MOST_READERS: usize = 1000;

static LOOK: Script = Script::new(include_str!("scripts/list.lua"));

pub(super) fn look(names: &[Arc<str>]) -> Call {
    let bytes = names.iter().map(|name| name.len()).sum::<usize>() + 16;
    let mut call = Call::new(&LOOK, names.len(), 2, bytes);
    for name in names {
        call = call.arg(&**name);
    }
    call.arg(MOST_FIELDS).arg(MOST_READERS)
}

/// The locks among `names`: hashes with a time to live and nothing but owners in them.
pub(super) fn listed(names: &[Arc<str>], reply: Value) -> Result<Vec<Snapshot>> {
    let answers = match reply {
        Value::Array(answers) if answers.len() == names.len() => answers,
        other => return Err(refusal::nonsense("a listing", &other)),
    };
    let mut locks = Vec::new();
    for (name, answer) in names.iter().zip(answers) {
        let Ok((ttl, fields)) = parts(answer) else { continue };
        let holders = holders(&fields).filter(|holders| !holders.is_empty() && ttl >= 0);
        if let Some(holders) = holders {
            locks.push(Snapshot::held(name.clone(), holders, milliseconds(ttl)));
        }
    }
    Ok(locks)
}

/// `None` if there is something else among them.
fn holders(fields: &[Value]) -> Option<Vec<Holder>> {
    let is_mode = |pair: &&[Value]| pair[0] == Value::BulkString(b"mode".to_vec());
    let shared = fields.chunks_exact(2).any(|pair| is_mode(&pair));
    let pairs = fields.chunks_exact(2).filter(|pair| !(shared && is_mode(pair)));
    let read = |pair: &[Value]| {
        let Holder { owner, depth, .. } = holder(pair)?;
        let (owner, mode) = match (shared, owner.strip_suffix(":write")) {
            (true, Some(writer)) => (writer.to_owned(), Mode::Write),
            (true, None) => (owner, Mode::Read),
            (false, _) => (owner, Mode::Exclusive),
        };
        wire::is_owner(&owner).then(|| Holder::with_mode(owner, depth, mode))
    };
    pairs.map(read).collect()
}

/// Every lock of a single server whose name starts with `prefix`, each once, by name.
pub(crate) async fn list(links: &Links, prefix: &str) -> Result<Vec<Snapshot>> {
    let locks = walk(links, prefix, |names: Vec<Arc<str>>| async move {
        let looks = names.chunks(BATCH).map(|names| {
            let look: BoxFuture<'_, Result<Vec<Snapshot>>> =
                Box::pin(async move { listed(names, look(names).run(links).await?) });
            look
        });
        let mut locks = Vec::new();
        for found in join_all(looks.collect()).await {
            locks.extend(found?);
        }
        Ok(locks)
    });
    let mut locks = locks.await?;
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(locks)
}

/// Goes through all keys of one server that start with `prefix` and may be locks. `look` says which of a page's are.
pub(super) async fn walk<F>(
    links: &Links,
    prefix: &str,
    mut look: impl FnMut(Vec<Arc<str>>) -> F,
) -> Result<Vec<Snapshot>>
where
    F: Future<Output = Result<Vec<Snapshot>>>,
{
    let pattern = wire::starting_with(prefix);
    let mut cursor = b"0".to_vec();
    let (mut seen, mut locks) = (HashSet::new(), Vec::new());
    loop {
        let mut scan = Cmd::with_capacity(8, 64 + pattern.len());
        scan.arg("SCAN").arg(&cursor).arg("MATCH").arg(&pattern);
        scan.arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg("hash");
        let reply = refusal::checked(links.line().await?.send(&scan).await?)?;
        let (next, keys) = page(reply)?;
        // SCAN may name a key more than once.
        let fresh = keys.into_iter().filter(|key| !wire::is_holders(key));
        let fresh: Vec<Arc<str>> = fresh.filter(|key| seen.insert(key.clone())).collect();
        locks.extend(look(fresh).await?);
        if next == b"0" {
            return Ok(locks);
        }
        cursor = next;
    }
}

/// The next cursor and this page's keys; names that are not UTF-8 cannot be locks of ours.
fn page(reply: Value) -> Result<(Vec<u8>, Vec<Arc<str>>)> {
    let nonsense = refusal::nonsense("SCAN", &reply);
    let Value::Array(mut parts) = reply else { return Err(nonsense) };
    match (parts.pop(), parts.pop()) {
        (Some(Value::Array(keys)), Some(Value::BulkString(cursor))) => {
            let keys = keys.into_iter().filter_map(|key| match key {
                Value::BulkString(key) => String::from_utf8(key).ok().map(Arc::from),
                _ => None,
            });
            Ok((cursor, keys.collect()))
        }
        _ => Err(nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_told_from_other_hashes() {
        const A: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301:1";
        let fields = |pairs: &[(&str, &str)]| -> Vec<Value> {
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            pairs.iter().flat_map(|(name, value)| [text(name), text(value)]).collect()
        };
        let writer = format!("{A}:write");
        let seen = |pairs: &[(&str, &str)]| holders(&fields(pairs));
        assert_eq!(seen(&[(A, "2")]), Some(vec![Holder::new(A, 2)]));
        let both = seen(&[("mode", "write"), (&writer, "1"), (A, "2")]).unwrap();
        assert_eq!(both[0], Holder::with_mode(A, 1, Mode::Write));
        assert_eq!(both[1], Holder::with_mode(A, 2, Mode::Read));
        assert_eq!(seen(&[("mode", "dark"), ("font", "12")]), None);
        assert_eq!(seen(&[(&writer, "1")]), None);
        assert_eq!(seen(&[("name", "Ada")]), None);
    }
}
