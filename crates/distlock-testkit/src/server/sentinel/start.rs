//! Starting a primary, its replicas and its sentinels.

use std::sync::Arc;
use std::time::Duration;

use super::{NAME, SentinelSet};
use crate::scratch::Scratch;
use crate::server::launch::apart;
use crate::server::{Builder, Certificates, Flavor, Server, Tls, text, wait};

/// How many there are, and how many must agree that the primary is gone.
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// Says what a set should be like. See [`SentinelSet::builder`].
#[derive(Clone, Debug)]
pub struct SentinelBuilder {
    flavor: Flavor,
    replicas: usize,
    down_after: Duration,
    password: Option<String>,
    sentinel_password: Option<String>,
    tls: Option<(Arc<Scratch>, Certificates)>,
    args: Vec<String>,
}

impl SentinelBuilder {
    pub(super) fn new(flavor: Flavor) -> SentinelBuilder {
        SentinelBuilder {
            flavor,
            replicas: 1,
            down_after: Duration::from_secs(1),
            password: None,
            sentinel_password: None,
            tls: None,
            args: Vec::new(),
        }
    }

    /// So many replicas; one unless said.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// After this time without an answer a sentinel takes a server for dead; a second unless said.
    #[must_use]
    pub fn down_after(mut self, time: Duration) -> Self {
        self.down_after = time;
        self
    }

    /// The servers ask for this password. Letters and digits only: it goes into URLs as it is.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The sentinels ask for this password. Letters and digits only: it goes into URLs as it is.
    #[must_use]
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// All speak TLS with everybody, with certificates of one authority on both sides.
    #[must_use]
    pub fn tls(mut self) -> Self {
        let dir = Arc::new(Scratch::new());
        let certificates = Certificates::generate(dir.path());
        self.tls = Some((dir, certificates));
        self
    }

    /// A primary takes no writes while fewer than these replicas have answered it within the last second.
    #[must_use]
    pub fn min_replicas(self, count: usize) -> Self {
        let count = count.to_string();
        self.args(&["--min-replicas-to-write", &count, "--min-replicas-max-lag", "1"])
    }

    /// More arguments for every server that keeps data.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Starts all and waits until they know each other and the replicas are up to date.
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn start(self) -> SentinelSet {
        apart(move || self.start_blocking()).await
    }

    /// [`start`](SentinelBuilder::start) for a test without a runtime.
    ///
    /// # Panics
    /// Like [`start`](SentinelBuilder::start).
    pub fn start_blocking(self) -> SentinelSet {
        let primary = self.server().start_blocking();
        let port = primary.port().to_string();
        let replicas = (0..self.replicas)
            .map(|_| self.server().args(["--replicaof", "127.0.0.1", &port]))
            .map(started)
            .collect::<Vec<_>>();
        let replicas: Vec<Arc<Server>> = replicas.into_iter().map(joined).collect();
        for replica in &replicas {
            // Before the sentinels come: they hear of those who are there, and of others ten seconds later.
            wait("a replica is up to date", || {
                text(&replica.run(&["INFO", "replication"])).contains("master_link_status:up")
            });
        }
        let sentinels = (0..SENTINELS).map(|_| started(self.sentinel(&port))).collect::<Vec<_>>();
        let servers = [Arc::new(primary)].into_iter().chain(replicas);
        let set = SentinelSet {
            servers: servers.collect(),
            sentinels: sentinels.into_iter().map(joined).collect(),
            password: self.password,
            sentinel_password: self.sentinel_password,
            tls: self.tls,
        };
        set.settled(self.replicas);
        set
    }

    fn server(&self) -> Builder {
        let mut builder = self.any().args(["--repl-diskless-sync-delay", "0"]);
        builder = builder.args(self.args.iter().cloned());
        if let Some(password) = &self.password {
            builder = builder.password(password).args(["--masterauth", password]);
        }
        builder
    }

    fn sentinel(&self, port: &str) -> Builder {
        let millis = self.down_after.as_millis();
        let mut settings = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} {QUORUM}\n\
             sentinel down-after-milliseconds {NAME} {millis}\n\
             sentinel failover-timeout {NAME} 3000\n"
        );
        if let Some(password) = &self.password {
            settings += &format!("sentinel auth-pass {NAME} {password}\n");
        }
        let mut builder = self.any();
        if let Some(password) = &self.sentinel_password {
            builder = builder.password(password);
        }
        builder.sentinel = Some(settings);
        builder
    }

    /// What all have in common.
    fn any(&self) -> Builder {
        let mut builder = Server::builder(self.flavor);
        if let Some((_, certificates)) = &self.tls {
            builder.tls = Some(Tls::Mutual);
            builder.certificates = Some(certificates.clone());
            builder = builder.args(["--tls-replication", "yes"]);
        }
        builder
    }
}

fn joined(start: std::thread::JoinHandle<Server>) -> Arc<Server> {
    Arc::new(start.join().expect("a server"))
}

fn started(builder: Builder) -> std::thread::JoinHandle<Server> {
    std::thread::spawn(move || builder.start_blocking())
}

impl SentinelSet {
    fn settled(&self, replicas: usize) {
        let has = |sentinel: &Server, what: &str, count: usize| {
            let info = text(&sentinel.run(&["INFO", "sentinel"]));
            info.contains(&format!("{what}={count}"))
        };
        for sentinel in &self.sentinels {
            wait("a sentinel knows everybody", || {
                has(sentinel, "sentinels", SENTINELS) && has(sentinel, "slaves", replicas)
            });
        }
    }
}
