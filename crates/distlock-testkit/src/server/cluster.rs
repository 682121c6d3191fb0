//! Clusters of real servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, RedisResult, Value};

use super::launch::apart;
use super::{Certificates, Flavor, Server, Tls};
use crate::port;
use crate::scratch::Scratch;

/// How many slots a cluster has.
const SLOTS: u16 = 16384;
/// How long a cluster may take to agree on something.
const PATIENCE: Duration = Duration::from_secs(20);
/// After which time servers that do not know each other are introduced again.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// How often other ports are tried after the chosen ones were taken.
const PORTS: usize = 8;

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

/// Says what a cluster should be like. See [`Cluster::builder`].
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    flavor: Flavor,
    primaries: usize,
    replicas: usize,
    password: Option<String>,
    tls: Option<(Arc<Scratch>, Certificates)>,
    args: Vec<String>,
}

impl ClusterBuilder {
    /// So many primaries; three unless said.
    #[must_use]
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// So many replicas for each primary; none unless said.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Asks clients for this password. Letters and digits only: it goes into URLs as it is.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Speaks TLS with clients and among themselves, with certificates of one authority.
    #[must_use]
    pub fn tls(mut self) -> Self {
        let dir = Arc::new(Scratch::new());
        let certificates = Certificates::generate(dir.path());
        self.tls = Some((dir, certificates));
        self
    }

    /// More arguments for every server.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Starts the servers and waits until they agree.
    ///
    /// # Panics
    /// When they do not.
    pub async fn start(self) -> Cluster {
        apart(move || self.start_blocking()).await
    }

    /// [`start`](ClusterBuilder::start) for a test without a runtime.
    ///
    /// # Panics
    /// Like [`start`](ClusterBuilder::start).
    pub fn start_blocking(self) -> Cluster {
        let count = self.primaries * (1 + self.replicas);
        let starts: Vec<_> = (0..count)
            .map(|_| {
                let cluster = self.clone();
                std::thread::spawn(move || cluster.start_one())
            })
            .collect();
        let nodes = starts.into_iter().map(|start| Arc::new(start.join().expect("a server")));
        let cluster = Cluster { nodes: nodes.collect(), password: self.password, tls: self.tls };
        cluster.introduce();
        cluster.share_slots(self.primaries);
        cluster.attach_replicas(self.primaries);
        cluster.settled();
        cluster
    }

    /// A server on a port whose bus has a port as well.
    fn start_one(&self) -> Server {
        for _ in 0..PORTS {
            let mut builder = Server::builder(self.flavor)
                .args(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"])
                .args(["--repl-diskless-sync-delay", "0"])
                .args(self.args.iter().cloned());
            if let Some(password) = &self.password {
                builder = builder.password(password).args(["--masterauth", password]);
            }
            if let Some((_, certificates)) = &self.tls {
                builder.tls = Some(Tls::Server);
                builder.certificates = Some(certificates.clone());
                builder = builder.args(["--tls-cluster", "yes", "--tls-replication", "yes"]);
            }
            if let Some(server) = builder.start_at(port::free_with_bus()) {
                return server;
            }
        }
        panic!("{PORTS} pairs of free ports in a row were taken before the server could bind them");
    }
}

impl Cluster {
    /// Three primaries of this flavour.
    pub fn builder(flavor: Flavor) -> ClusterBuilder {
        let (password, tls, args) = (None, None, Vec::new());
        ClusterBuilder { flavor, primaries: 3, replicas: 0, password, tls, args }
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

    /// The server that is the primary for a key, as most servers that answer see it.
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

    /// Moves the slot of a key to another primary, key by key, as `redis-cli` does; there is an opportunity to look in
    /// between, while the slot is open and nothing has been moved yet.
    ///
    /// # Panics
    /// When a server refuses.
    pub async fn move_slot<F: Future<Output = ()>>(&self, key: &str, between: impl FnOnce() -> F) {
        let slot = self.slot_of(key).await;
        let (from, to) = (self.primary_of(key).await, self.other_primary(key).await);
        let (from_id, to_id) = (from.node_id().await, to.node_id().await);
        let number = slot.to_string();
        to.cli(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &from_id]).await;
        from.cli(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &to_id]).await;
        between().await;
        loop {
            let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]).await;
            if keys.is_empty() {
                break;
            }
            let port = to.port().to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            from.cli(&migrate).await;
        }
        // The new one first, so that there is no moment in which nobody serves it.
        to.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        from.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        for node in self.primaries().await {
            let _ = node.try_cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        }
    }

    /// Waits until no server that answers has a key or a channel with `prefix` in its name.
    ///
    /// # Panics
    /// When something is left after 10 s.
    pub async fn assert_clean(&self, prefix: &str) {
        let clean = async || {
            for node in &self.nodes {
                if node.try_cli(&["PING"]).await.is_err() {
                    continue;
                }
                let mut left = node.keys(&format!("*{prefix}*")).await;
                // The one thing that is meant to stay: the counter of a fenced lock.
                left.retain(|key| !key.starts_with("redisson_lock_token:"));
                left.extend(node.pubsub_channels().await);
                if left.iter().any(|name| name.contains(prefix)) {
                    return false;
                }
            }
            true
        };
        until("no key and no subscription is left", clean).await;
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

    fn introduce(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        let all = self.nodes.len();
        let mut met: Option<Instant> = None;
        wait("all servers know each other", || {
            // On a busy machine a handshake may take longer than the servers have patience for.
            if met.is_none_or(|met| met.elapsed() > HANDSHAKE) {
                met = Some(Instant::now());
                self.meet();
            }
            self.nodes.iter().all(|node| {
                let nodes = text(&node.run(&["CLUSTER", "NODES"]));
                nodes.lines().count() == all && !nodes.contains("handshake")
            })
        });
    }

    fn meet(&self) {
        let first = self.nodes[0].port().to_string();
        for node in &self.nodes[1..] {
            node.run(&["CLUSTER", "MEET", "127.0.0.1", &first]);
        }
    }

    fn share_slots(&self, primaries: usize) {
        let share = usize::from(SLOTS).div_ceil(primaries);
        let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
        for (node, slots) in self.nodes.iter().zip(slots.chunks(share)) {
            let mut add = vec!["CLUSTER", "ADDSLOTS"];
            add.extend(slots.iter().map(String::as_str));
            node.run(&add);
        }
    }

    fn attach_replicas(&self, primaries: usize) {
        for (at, node) in self.nodes.iter().enumerate().skip(primaries) {
            let primary = &self.nodes[at % primaries];
            let id = text(&primary.run(&["CLUSTER", "MYID"]));
            // It must have heard of the primary's slots.
            wait("a replica is accepted", || {
                node.try_cli_blocking(&["CLUSTER", "REPLICATE", &id]).is_ok()
            });
        }
        for node in self.nodes.iter().skip(primaries) {
            wait("a replica is up to date", || {
                text(&node.run(&["INFO", "replication"])).contains("master_link_status:up")
            });
        }
    }

    fn settled(&self) {
        self.each("finds the cluster well", |node| {
            text(&node.run(&["CLUSTER", "INFO"])).contains("cluster_state:ok")
        });
    }

    fn each(&self, what: &str, is_so: impl Fn(&Server) -> bool) {
        for node in &self.nodes {
            wait(&format!("a server {what}"), || is_so(node));
        }
    }
}

impl Server {
    fn run(&self, args: &[&str]) -> Value {
        self.try_cli_blocking(args).unwrap_or_else(|error| panic!("{:?}: {error}", &args[..2]))
    }

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

fn text(reply: &Value) -> String {
    String::from_redis_value_ref(reply).unwrap_or_default()
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never came true within {PATIENCE:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "never came true within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
