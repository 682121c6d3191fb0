//! A server of the test's own, and what the tests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use distlock_testkit::{Flavor, Server as RealServer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue};
use uuid::Uuid;

use crate::durability::Durability;
use crate::env::System;
use crate::redis::{Net, RedisStore, Surroundings, Target};
use crate::store::{Claim, What};
use crate::{Event, Observer, Owner, Result, Subject};

/// Ends with the test.
pub(super) struct Server(RealServer);

impl Server {
    pub(super) async fn start() -> Server {
        Server::start_with(&[]).await
    }

    pub(super) async fn start_with(options: &[&str]) -> Server {
        let builder = RealServer::builder(Flavor::Redis).args(["--enable-debug-command", "yes"]);
        Server(builder.args(options.iter().copied()).start().await)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    pub(super) async fn raw(&self) -> Raw {
        let client = redis::Client::open(self.url()).unwrap();
        // Without a limit for replies: whatever the tests look at may come late on a machine that does other things.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Raw(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    pub(super) async fn store(&self) -> Arc<RedisStore> {
        connect(&self.url()).await.unwrap()
    }

    pub(super) fn stop(&self) {
        self.0.stop();
    }

    pub(super) fn cont(&self) {
        self.0.cont();
    }
}

/// A connection beside the store's, to look at the server with.
pub(super) struct Raw(MultiplexedConnection);

impl Raw {
    /// Runs a command written as one line.
    pub(super) async fn run<T: FromRedisValue>(&mut self, line: &str) -> T {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        command.query_async(&mut self.0).await.unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// How many connections of the store's the server has.
    pub(super) async fn connections(&mut self) -> usize {
        self.run::<String>("CLIENT LIST")
            .await
            .lines()
            .filter(|line| line.contains("resp=3"))
            .count()
    }

    /// The channels that anybody is subscribed to.
    pub(super) async fn channels(&mut self) -> Vec<String> {
        self.run("PUBSUB CHANNELS").await
    }
}

#[derive(Debug, Default)]
pub(super) struct Reconnects(pub(super) AtomicU32);

impl Observer for Reconnects {
    fn observe(&self, _: Subject<'_>, event: Event) {
        if event == Event::Reconnected {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(super) async fn connect(url: &str) -> Result<Arc<RedisStore>> {
    connect_observed(url, Arc::default()).await
}

pub(super) async fn connect_observed(url: &str, seen: Arc<Reconnects>) -> Result<Arc<RedisStore>> {
    let target = Target::parse(url)?;
    let surroundings = Surroundings {
        env: Arc::new(System),
        connector: Arc::new(Net),
        observer: seen,
        reply_timeout: Duration::from_secs(1),
        durability: Durability::Primary,
        holder_info: false,
    };
    RedisStore::connect(target, surroundings, false).await
}

pub(super) fn owner() -> Owner {
    Owner::mint(Uuid::new_v4())
}

pub(super) fn claim(name: &str, owner: Owner, depth: u32) -> Claim {
    let lease = Duration::from_secs(30);
    Claim {
        name: name.into(),
        owner,
        lease,
        depth,
        heir_of: None,
        what: What::Exclusive,
        info: None,
    }
}

/// Asks again and again until it is so.
pub(super) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within four seconds: {what}");
}
