//! Clusters of real servers.

mod slots;
mod start;

pub use start::ClusterBuilder;

use std::sync::Arc;

use redis::{FromRedisValue, RedisResult, Value};

use super::{Certificates, Flavor, Server, Tls, nothing_left, text, until};
use crate::scratch::Scratch;

/// Some primaries, each with as many replicas as were asked for.
///
/// Servers keep their place in [`nodes`](Cluster::nodes) whatever becomes of them: which of them is the primary of a slot
/// is asked for ([`primary_of`](Cluster::primary_of)).
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Arc<Server>>,
    password: Option<String>,
    tls: Option<(Arc<Scratch>, Certificates)>,
}

impl Cluster {
    /// Three primaries of this flavour.
    pub fn builder(flavor: Flavor) -> ClusterBuilder {
        ClusterBuilder::new(flavor)
    }

    /// These servers, which ask for no password and speak no TLS.
    pub(super) fn plain(nodes: Vec<Arc<Server>>) -> Cluster {
        Cluster { nodes, password: None, tls: None }
    }

    /// All servers.
    pub fn nodes(&self) -> &[Arc<Server>] {
        &self.nodes
    }

    /// The URL for the library, with every server and this option for its pub/sub.
    pub fn url(&self, pubsub: &str) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        let user = match &self.password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        let hosts = hosts.join(",");
        match &self.tls {
            None => format!("redis+cluster://{user}{hosts}?pubsub={pubsub}"),
            Some((_, files)) => {
                let query = files.query(Tls::Server);
                format!("rediss+cluster://{user}{hosts}{query}&pubsub={pubsub}")
            }
        }
    }

    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        self.any().await.ask(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The server that serves a key and knows it.
    ///
    /// # Panics
    /// When none is.
    pub async fn primary_of(&self, key: &str) -> Arc<Server> {
        let slot = self.slot_of(key).await;
        self.primary_for(slot).await.unwrap_or_else(|| panic!("nobody serves slot {slot}"))
    }

    /// The server that serves a slot and knows it.
    pub async fn primary_for(&self, slot: u16) -> Option<Arc<Server>> {
        for node in &self.nodes {
            let Ok(owner) = node.owner_of(slot).await else { continue };
            if owner == Some(node.port()) {
                return Some(node.clone());
            }
        }
        None
    }

    /// A primary that does not serve this key.
    ///
    /// # Panics
    /// When there is none.
    pub async fn other_primary(&self, key: &str) -> Arc<Server> {
        let port = self.primary_of(key).await.port();
        for node in self.primaries().await {
            if node.port() != port {
                return node;
            }
        }
        panic!("there is no other primary");
    }

    /// Every server that takes itself for a primary with slots.
    pub async fn primaries(&self) -> Vec<Arc<Server>> {
        let mut primaries = Vec::new();
        for node in &self.nodes {
            if node.has_slots().await {
                primaries.push(node.clone());
            }
        }
        primaries
    }

    /// A replica of a primary that is up to date.
    ///
    /// # Panics
    /// When there is none.
    pub async fn replica_of(&self, primary: &Server) -> Arc<Server> {
        let port = primary.port().to_string();
        for node in &self.nodes {
            if node.info_field("master_port").await.as_ref() == Some(&port) {
                return node.clone();
            }
        }
        panic!("{port} has no replica");
    }

    /// `CLUSTER FAILOVER`: a replica of the primary takes its place, and the primary becomes its replica. Returns the new
    /// primary, when all who answer agree.
    ///
    /// # Panics
    /// When that does not happen.
    pub async fn fail_over(&self, primary: &Server) -> Arc<Server> {
        let heir = self.replica_of(primary).await;
        heir.cli(&["CLUSTER", "FAILOVER"]).await;
        let promoted = async || {
            let role: Value = heir.cli(&["ROLE"]).await;
            format!("{role:?}").contains("master") && heir.has_slots().await
        };
        until("the replica takes over", promoted).await;
        heir
    }

    /// Waits until no server that answers has a key or a channel with `prefix` in its name.
    ///
    /// # Panics
    /// When something is left after a while.
    pub async fn assert_clean(&self, prefix: &str) {
        nothing_left(&self.nodes, prefix).await;
    }

    /// Waits until all servers that answer agree that all is well.
    ///
    /// # Panics
    /// When they do not.
    pub async fn healed(&self) {
        let healed = async || {
            for node in &self.nodes {
                if let Ok(reply) = node.try_cli(&["CLUSTER", "INFO"]).await
                    && !text(&reply).contains("cluster_state:ok")
                {
                    return false;
                }
            }
            true
        };
        until("the cluster is well", healed).await;
    }

    async fn any(&self) -> Arc<Server> {
        for node in &self.nodes {
            if node.try_cli(&["PING"]).await.is_ok() {
                return node.clone();
            }
        }
        panic!("no server of the cluster answers");
    }
}

impl Server {
    async fn node_id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"]).await
    }

    /// The port of the server that this one takes for the primary of a slot.
    async fn owner_of(&self, slot: u16) -> RedisResult<Option<u16>> {
        type Range = (u16, u16, Value);
        let reply = self.try_cli(&["CLUSTER", "SLOTS"]).await?;
        let Value::Array(ranges) = reply else { return Ok(None) };
        for range in ranges {
            let Value::Array(mut parts) = range else { continue };
            parts.truncate(3);
            let (first, last, primary): Range = redis::from_redis_value(Value::Array(parts))?;
            if let Value::Array(primary) = primary
                && (first..=last).contains(&slot)
                && let Some(port) = primary.get(1)
            {
                return Ok(Some(u16::from_redis_value_ref(port)?));
            }
        }
        Ok(None)
    }

    /// Whether it takes itself for a primary with slots.
    async fn has_slots(&self) -> bool {
        let Ok(reply) = self.try_cli(&["CLUSTER", "NODES"]).await else { return false };
        let nodes = text(&reply);
        let own = nodes.lines().find(|line| line.contains("myself"));
        own.is_some_and(|own| own.contains("master") && own.split(' ').count() > 8)
    }
}
