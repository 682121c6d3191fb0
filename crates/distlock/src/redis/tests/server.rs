//! A `redis-server` of the test's own, and what the tests share.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use uuid::Uuid;

use crate::env::System;
use crate::redis::{Net, RedisStore, Target};
use crate::store::{Claim, What};
use crate::{Event, Observer, Owner, Result, Subject};

/// Ends with the test.
pub(super) struct Server {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Server {
    pub(super) async fn start() -> Server {
        Server::start_with(&[]).await
    }

    pub(super) async fn start_with(options: &[&str]) -> Server {
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let dir = std::env::temp_dir().join(format!("distlock-{}", Uuid::new_v4()));
            std::fs::create_dir(&dir).unwrap();
            let child = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
                .args(["--enable-debug-command", "yes"])
                .arg("--unixsocket")
                .arg(dir.join("s"))
                .arg("--dir")
                .arg(&dir)
                .args(options)
                .stdout(Stdio::null())
                .spawn()
                .expect("redis-server must be installed");
            let mut server = Server { child, port, dir };
            if server.answers().await {
                return server;
            }
        }
        panic!("redis-server does not start");
    }

    /// Whether it is ours that answers: the port was free a moment ago, but ports are taken by others too.
    async fn answers(&mut self) -> bool {
        let own = format!("process_id:{}\r", self.child.id());
        for _ in 0..200 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(mut raw) = self.try_raw().await {
                let info: redis::RedisResult<String> =
                    redis::cmd("INFO").arg("server").query_async(&mut raw).await;
                return info.is_ok_and(|info| info.contains(&own));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    async fn try_raw(&self) -> redis::RedisResult<MultiplexedConnection> {
        let url = format!("redis://127.0.0.1:{}", self.port);
        redis::Client::open(url)?.get_multiplexed_async_connection().await
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    pub(super) async fn raw(&self) -> Raw {
        Raw(self.try_raw().await.unwrap())
    }

    pub(super) async fn store(&self) -> Arc<RedisStore> {
        connect(&self.url()).await.unwrap()
    }

    /// Sends a signal, by `kill -NAME`.
    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
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
    RedisStore::connect(target, Arc::new(System), Arc::new(Net), seen, Duration::from_secs(1)).await
}

pub(super) fn owner() -> Owner {
    Owner::mint(Uuid::new_v4())
}

pub(super) fn claim(name: &str, owner: Owner, depth: u32) -> Claim {
    let lease = Duration::from_secs(30);
    Claim { name: name.into(), owner, lease, depth, heir_of: None, what: What::Exclusive }
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
