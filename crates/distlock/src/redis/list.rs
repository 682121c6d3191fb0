//! Finding locks by the start of their names, a bounded piece of work at a time.

use std::collections::HashSet;
use std::sync::Arc;

use redis::{Cmd, Value};

use super::call::join_all;
use super::link::Links;
use super::{exclusive, refusal, wire};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::store::Snapshot;

/// How many keys the server looks at per SCAN: some hundred microseconds of its time.
const SCAN_COUNT: usize = 1000;

/// How many candidates one script looks into.
const BATCH: usize = 100;

/// Every lock whose name starts with `prefix`, each once, by name.
pub(crate) async fn list(links: &Links, prefix: &str) -> Result<Vec<Snapshot>> {
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
        let fresh: Vec<Arc<str>> =
            keys.into_iter().filter(|key| seen.insert(key.clone())).collect();
        let looks = fresh.chunks(BATCH).map(|names| {
            let look: BoxFuture<'_, Result<Vec<Snapshot>>> = Box::pin(async move {
                exclusive::listed(names, exclusive::list(names).run(links).await?)
            });
            look
        });
        for found in join_all(looks.collect()).await {
            locks.extend(found?);
        }
        if next == b"0" {
            locks.sort_by(|a, b| a.name.cmp(&b.name));
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
