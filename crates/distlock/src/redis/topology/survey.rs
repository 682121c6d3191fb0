//! Asking the servers of a cluster who serves what.

use std::sync::Arc;

use redis::{Pipeline, Value};

use super::map::Map;
use super::role::text;
use super::several;
use super::turns::{in_turn, none};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::node::Node;
use crate::redis::refusal;

/// What one server says of the cluster.
#[derive(Debug)]
struct Said {
    map: Map,
    /// How many changes it knows of; 0 if it does not say.
    epoch: u64,
    /// Whether it believes that it belongs to the greater part.
    healthy: bool,
    /// Whether it has sharded channels.
    sharded: bool,
}

/// What is found out about who serves what.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) map: Map,
    /// How many changes those who answered know of.
    pub(crate) epoch: u64,
    /// Whether the servers have sharded channels that are of use.
    pub(crate) sharded: bool,
}

impl Said {
    /// A server that was away, or is cut off, has an old map and does not know it.
    fn is_fresh(&self, epoch: u64) -> bool {
        self.healthy && self.epoch >= epoch
    }
}

/// Asks one after the other until one answers that knows at least what is known in `epoch`; if there is none, the best
/// that others know.
pub(crate) async fn survey(env: &dyn Env, servers: Vec<Arc<Node>>, epoch: u64) -> Result<Answer> {
    let questions = servers.into_iter().map(|server| {
        let question: BoxFuture<'static, Result<Said>> = Box::pin(ask(server));
        question
    });
    let found = in_turn(env, questions.collect(), |said| said.is_fresh(epoch)).await;
    let rank = |said: &Said| (said.healthy, said.epoch);
    match found.good.or_else(|| found.others.into_iter().max_by_key(rank)) {
        Some(Said { map, epoch, sharded, .. }) => Ok(Answer { map, epoch, sharded }),
        None => Err(none("no server of the cluster returned CLUSTER SLOTS", found.troubles)),
    }
}

async fn ask(server: Arc<Node>) -> Result<Said> {
    let place = server.links.place();
    ask_at(&server).await.map_err(|e| e.at(&place))
}

async fn ask_at(server: &Node) -> Result<Said> {
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
    let map = Map::parse(&slots, several::host(server.links.target()))?;
    // Without permission to ask for it: then every map is as good as another.
    let info = text(&info).unwrap_or_default();
    let field = |name: &str| {
        let mut pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        pairs.find(|(field, _)| *field == name).map(|(_, value)| value)
    };
    Ok(Said {
        map,
        epoch: field("cluster_current_epoch").and_then(|n| n.parse().ok()).unwrap_or_default(),
        healthy: field("cluster_state").is_none_or(|state| state == "ok"),
        // Redisson finds out in the same way.
        sharded: !matches!(numsub, Value::ServerError(_)),
    })
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
            let text = "the Redis user may not run CLUSTER SLOTS: a cluster needs +cluster|slots +cluster|info";
            Error::new(ErrorKind::Config, text).and(&error)
        }
        _ => error,
    }
}
