//! Waiting until several servers agree.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};

use super::Server;

/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "never came true within {PATIENCE:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "never came true within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until no server that answers has a key or a channel with `prefix` in its name.
pub(super) async fn nothing_left(servers: &[Arc<Server>], prefix: &str) {
    let clean = async || {
        for server in servers {
            if server.is_stopped() || server.try_cli(&["PING"]).await.is_err() {
                continue;
            }
            let mut left = server.keys(&format!("*{prefix}*")).await;
            // The one thing that is meant to stay: the counter of a fenced lock.
            left.retain(|key| !key.starts_with("redisson_lock_token:"));
            left.extend(server.pubsub_channels().await);
            // What sentinels tell each other.
            left.retain(|name| name != "__sentinel__:hello");
            if left.iter().any(|name| name.contains(prefix)) {
                return false;
            }
        }
        true
    };
    until("no key and no subscription is left", clean).await;
}

pub(super) fn text(reply: &Value) -> String {
    String::from_redis_value_ref(reply).unwrap_or_default()
}

impl Server {
    /// Asks a server that has just been started.
    pub(super) fn run(&self, args: &[&str]) -> Value {
        let shown = &args[..args.len().min(2)];
        self.try_cli_blocking(args).unwrap_or_else(|error| panic!("{shown:?}: {error}"))
    }
}
