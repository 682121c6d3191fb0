//! A primary with replicas, and no Sentinel: what becomes of them is up to the test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::launch::apart;
use super::{Flavor, Server};

/// How long replicas may take until they have everything.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A primary and its replicas, in step when they are handed out.
#[derive(Debug)]
pub struct Replicas {
    /// The primary.
    pub primary: Server,
    /// Its replicas.
    pub replicas: Vec<Server>,
}

impl Replicas {
    /// So many replicas of a primary of this flavour.
    ///
    /// # Panics
    /// When they do not find together.
    pub async fn start(flavor: Flavor, count: usize) -> Replicas {
        // The first copy is sent at once; the second would otherwise be waited for.
        let args = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
        let primary = Server::builder(flavor).args(args).start().await;
        let port = primary.port().to_string();
        let mut replicas = Vec::new();
        for _ in 0..count {
            let replica = Server::builder(flavor).args(["--replicaof", "127.0.0.1", &port]);
            replicas.push(replica.start().await);
        }
        let set = Replicas { primary, replicas };
        set.in_step().await;
        set
    }

    /// The replica, where there is one.
    ///
    /// # Panics
    /// When there is none.
    pub fn replica(&self) -> &Server {
        &self.replicas[0]
    }

    /// Replicas receive nothing any more, and have not: neither does anything wait for them in a socket. As if the machines
    /// they run on were gone; `kill -STOP` alone would let them have later what was sent meanwhile.
    pub async fn freeze(&self) {
        self.replicas.iter().for_each(Server::stop);
        self.primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    }

    /// Replicas go on, and have everything when this returns.
    ///
    /// # Panics
    /// When they do not find back.
    pub async fn thaw(&self) {
        self.replicas.iter().for_each(Server::cont);
        self.in_step().await;
    }

    /// The primary is gone, and the first replica is the primary from now on, with what it has.
    pub async fn fail_over(&self) {
        self.primary.kill();
        self.replica().cont();
        self.replica().cli(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// Every replica has everything and says so.
    async fn in_step(&self) {
        let (since, count, mut times) = (Instant::now(), self.replicas.len(), 0);
        // Twice: what was written before there was a replica counts as acknowledged as soon as there is one, which may take
        // another second to say anything.
        while times < 2 {
            let access = Arc::clone(&self.primary.access);
            // A connection that has written nothing would be told of any replica that is there.
            let (acked,): (usize,) = apart(move || {
                let mut all = redis::pipe();
                all.cmd("SET").arg("in-step").arg(1).ignore().cmd("DEL").arg("in-step").ignore();
                all.cmd("WAIT").arg(count).arg(100).query(&mut access.connect()?)
            })
            .await
            .unwrap_or_else(|error| panic!("WAIT: {error}"));
            if acked >= count {
                times += 1;
                continue;
            }
            assert!(since.elapsed() < PATIENCE, "replicas do not follow: {}", self.primary.log());
            tokio::time::sleep(LOOK).await;
        }
    }
}
