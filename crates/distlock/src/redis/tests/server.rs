//! A server of the test's own, and what the tests share.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use distlock_testkit::{Flavor, Server as RealServer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue};
use uuid::Uuid;

use crate::env::System;
use crate::locks::Durability;
use crate::redis::{Net, RedisStore, Surroundings, Target};
use crate::store::{Claim, ClaimKind};
use crate::{Event, Observer, Owner, Result, Subject};

/// When a reply is too late: after longer than a machine that does other things stands still, for a step here is sent once.
pub(super) const LATE: Duration = Duration::from_secs(5);

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

    pub(super) fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    pub(super) async fn raw(&self) -> Raw {
        let client = redis::Client::open(self.url()).unwrap();
        Raw(client.get_multiplexed_async_connection_with_config(&patient()).await.unwrap())
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

/// Without limits: whatever the tests look at may come late on a machine that does other things.
pub(super) fn patient() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None)
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
    connect_with(url, seen, LATE).await
}

/// A store that waits so long for a reply.
pub(super) async fn connect_with(
    url: &str,
    seen: Arc<Reconnects>,
    reply_timeout: Duration,
) -> Result<Arc<RedisStore>> {
    let target = Target::parse(url)?;
    let surroundings = Surroundings {
        env: Arc::new(System),
        connector: Arc::new(Net),
        observer: seen,
        reply_timeout,
        durability: Durability::Primary,
        holder_info: false,
    };
    RedisStore::connect(target, surroundings, false).await
}

pub(in crate::redis) fn owner() -> Owner {
    Owner::mint(Uuid::new_v4())
}

pub(in crate::redis) fn claim(name: &str, owner: Owner, depth: u32) -> Claim {
    let lease = Duration::from_secs(30);
    Claim {
        name: name.into(),
        owner,
        lease,
        depth,
        heir_of: None,
        kind: ClaimKind::Exclusive,
        info: None,
    }
}

/// Asks again and again until it is so.
pub(super) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within half a minute: {what}");
}

/// Runs a test of leases that are shorter than a machine may stand still. What fails after more than `limit` is tried again,
/// and has failed if it does so every time.
pub(super) async fn promptly(limit: Duration, test: impl AsyncFn()) {
    for left in (0..10).rev() {
        let began = Instant::now();
        let mut run = pin!(test());
        let ended = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match ended.await {
            Ok(()) => return,
            Err(panic) if left == 0 || began.elapsed() < limit => resume_unwind(panic),
            Err(_) => {}
        }
    }
}
