//! Asking the servers of a cluster who serves what.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::task::JoinSet;

use super::map::Map;
use super::seeds;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::node::Node;
use crate::redis::refusal;

/// After this time without an answer the next server is asked as well.
const PATIENCE: Duration = Duration::from_millis(200);

/// What one server says of the cluster.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) map: Map,
    /// How many changes it knows of; 0 if it does not say.
    pub(crate) epoch: u64,
    /// Whether it believes that it belongs to the greater part.
    healthy: bool,
    /// Whether it has sharded channels.
    pub(crate) sharded: bool,
}

impl Answer {
    /// A server that was away, or is cut off, has an old map and does not know it.
    fn is_fresh(&self, epoch: u64) -> bool {
        self.healthy && self.epoch >= epoch
    }
}

/// Asks one after the other until one answers that knows at least what is known in `epoch`; if there is none, the best
/// that others know.
pub(crate) async fn survey(env: &dyn Env, servers: Vec<Arc<Node>>, epoch: u64) -> Result<Answer> {
    let mut servers = servers.into_iter();
    let mut asked = JoinSet::new();
    let mut best: Option<Answer> = None;
    let mut troubles = Vec::new();
    loop {
        if asked.is_empty() {
            let Some(next) = servers.next() else { break };
            asked.spawn(ask(next));
        }
        let patience = env.sleep_until(env.now().after(PATIENCE));
        let answer = tokio::select! {
            answer = asked.join_next() => answer,
            () = patience => {
                if let Some(next) = servers.next() {
                    asked.spawn(ask(next));
                }
                continue;
            }
        };
        match answer {
            Some(Ok(Ok(answer))) if answer.is_fresh(epoch) => return Ok(answer),
            Some(Ok(Ok(answer))) => {
                let rank = |answer: &Answer| (answer.healthy, answer.epoch);
                if best.as_ref().is_none_or(|best| rank(best) < rank(&answer)) {
                    best = Some(answer);
                }
            }
            Some(Ok(Err(trouble))) => troubles.push(trouble),
            Some(Err(_)) | None => {}
        }
    }
    best.ok_or_else(|| none(troubles))
}

/// What all of them said. Something that must be mended comes before something that may pass.
fn none(mut troubles: Vec<Error>) -> Error {
    troubles.sort_by_key(Error::is_retryable);
    let kind = troubles.first().map_or(ErrorKind::Unavailable, Error::kind);
    let said: Vec<String> = troubles.iter().map(Error::to_string).collect();
    let kind = if kind == ErrorKind::Indeterminate { ErrorKind::Unavailable } else { kind };
    Error::new(kind, format!("no server says who serves what in the cluster: {}", said.join("; ")))
}

async fn ask(server: Arc<Node>) -> Result<Answer> {
    let place = server.links.place();
    ask_at(&server).await.map_err(|e| e.at(&place))
}

async fn ask_at(server: &Node) -> Result<Answer> {
    let mut all = Pipeline::with_capacity(3);
    all.cmd("CLUSTER").arg("SLOTS");
    all.cmd("CLUSTER").arg("INFO");
    all.cmd("PUBSUB").arg("SHARDNUMSUB");
    let mut replies = server.links.line().await?.send_all(&all, 3).await?.into_iter();
    let mut reply = || replies.next().unwrap_or_default();
    let (slots, info, numsub) = (reply(), reply(), reply());
    if let Value::ServerError(refused) = &slots {
        return Err(no_map(refused));
    }
    let map = Map::parse(&slots, seeds::host(server.links.target()))?;
    // Without permission to ask for it: then every map is as good as another.
    let info = text(&info).unwrap_or_default();
    let field = |name: &str| {
        let mut pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        pairs.find(|(field, _)| *field == name).map(|(_, value)| value)
    };
    Ok(Answer {
        map,
        epoch: field("cluster_current_epoch").and_then(|n| n.parse().ok()).unwrap_or_default(),
        healthy: field("cluster_state").is_none_or(|state| state == "ok"),
        // Redisson finds out in the same way.
        sharded: !matches!(numsub, Value::ServerError(_)),
    })
}

fn text(reply: &Value) -> Option<&str> {
    match reply {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

fn no_map(refused: &redis::ServerError) -> Error {
    let said = refused.details().unwrap_or_default();
    if said.contains("cluster support disabled") {
        let text =
            "this server is not part of a cluster: write redis:// instead of redis+cluster://";
        return Error::new(ErrorKind::Config, text);
    }
    let error = refusal::of(refused);
    match error.kind() {
        ErrorKind::Config => {
            let text = "the Redis user may not ask for CLUSTER SLOTS: a cluster needs +cluster|slots +cluster|info";
            Error::new(ErrorKind::Config, text).and(&error)
        }
        _ => error,
    }
}
