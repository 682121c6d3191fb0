//! Starting a cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Cluster;
use crate::port;
use crate::scratch::Scratch;
use crate::server::launch::apart;
use crate::server::{Certificates, Flavor, Server, Tls, text, wait};

/// How many slots a cluster has.
const SLOTS: u16 = 16384;
/// After which time servers that do not know each other are introduced again.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// How often other ports are tried after the chosen ones were taken.
const PORTS: usize = 8;

/// Says what a cluster should be like. See [`Cluster::builder`].
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    flavor: Flavor,
    primaries: usize,
    replicas: usize,
    password: Option<String>,
    tls: Option<(Arc<Scratch>, Certificates)>,
    args: Vec<String>,
    patient: bool,
}

impl ClusterBuilder {
    pub(super) fn new(flavor: Flavor) -> ClusterBuilder {
        let (password, tls, args) = (None, None, Vec::new());
        ClusterBuilder { flavor, primaries: 3, replicas: 0, password, tls, args, patient: false }
    }

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
        let certificates = Certificates::generate(dir.path(), Tls::Server);
        self.tls = Some((dir, certificates));
        self
    }

    /// A server that does not answer for seconds is not taken for dead: a machine that does other things is no reason to fail
    /// over, or to serve nobody.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
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
        // A machine that stands still for a second must not make a primary of one that is to be a replica.
        cluster.set("cluster-replica-no-failover", "yes");
        cluster.attach_replicas(self.primaries);
        cluster.settled();
        if self.patient {
            // Only now: servers get to know each other in a part of this time.
            cluster.set("cluster-node-timeout", "60000");
            // A machine that stood still just before it may have cost somebody's good name.
            cluster.settled();
        }
        cluster.set("cluster-replica-no-failover", "no");
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
        // A replica that has everything is taken for one only a moment later.
        let replicas = self.nodes.len() / primaries - 1;
        for node in self.nodes.iter().take(primaries) {
            wait("a primary has its replicas", || {
                let info = text(&node.run(&["INFO", "replication"]));
                info.matches("state=online").count() == replicas
            });
        }
    }

    fn set(&self, setting: &str, value: &str) {
        for node in &self.nodes {
            node.run(&["CONFIG", "SET", setting, value]);
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
