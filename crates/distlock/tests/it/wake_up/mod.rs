//! Whoever waits gets in when the lock is free, whatever becomes of the message that says so; and waiting costs nothing.
mod subscriptions;
mod waiting;

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock::{Guard, Locks, Result};
use distlock_testkit::Server;
use distlock_testkit::proxy::Proxy;
use distlock_testkit::suites::Recorder;
use tokio::task::JoinHandle;

/// Holders have this much time to live, and waiters look by themselves each third of it.
const LONG: Duration = Duration::from_secs(30);
/// Long before a waiter would have looked by itself.
const SOON: Duration = Duration::from_secs(8);

/// Holders talk to the server, waiters through the proxy.
struct Stage {
    holders: Locks,
    waiters: Locks,
    proxy: Proxy,
    server: Server,
    /// What the waiters do.
    seen: Arc<Recorder>,
    /// How often the lock had been asked for when the last of them began to wait.
    before: AtomicUsize,
}

impl Stage {
    async fn new() -> Stage {
        Stage::with_watchdog(LONG).await
    }

    async fn with_watchdog(watchdog: Duration) -> Stage {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let holders = Locks::connect(&server.url()).await.expect("a connection");
        let seen = Recorder::new();
        let waiters = Locks::builder().url(proxy.url()).watchdog(watchdog).observer(seen.clone());
        let waiters = waiters.connect().await.expect("a connection");
        Stage { holders, waiters, proxy, server, seen, before: AtomicUsize::new(0) }
    }

    fn wait_for(&self, name: &str) -> JoinHandle<Result<Guard>> {
        self.before.store(self.seen.count(name, "attempted"), Ordering::SeqCst);
        tokio::spawn(self.waiters.mutex(name).lock().into_future())
    }

    /// Ends when the server knows that somebody waits for this lock.
    async fn subscribed(&self, name: &str) {
        eventually("subscribed", async || {
            self.server.pubsub_channels().await.iter().any(|channel| channel.contains(name))
        })
        .await;
    }

    /// Ends when the last who began to wait does so for this lock and has stopped looking: from here on only a message, a new
    /// connection or the next look by itself can wake it.
    async fn asleep(&self, name: &str) {
        self.subscribed(name).await;
        // Once, and again after it was subscribed.
        let looks = self.before.load(Ordering::SeqCst) + 2;
        eventually("asked", async || self.seen.count(name, "attempted") >= looks).await;
        let mut asked = self.proxy.count("EVALSHA");
        let mut since = Instant::now();
        eventually("asleep", async || {
            let now = self.proxy.count("EVALSHA");
            if now != asked {
                (asked, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_millis(100)
        })
        .await;
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The waiter is in, and long before it would have looked by itself.
async fn gets_in(waiting: JoinHandle<Result<Guard>>) -> Guard {
    let waited = tokio::time::timeout(SOON, waiting).await;
    waited.expect("the waiter is not woken").expect("no panic").expect("no error")
}
