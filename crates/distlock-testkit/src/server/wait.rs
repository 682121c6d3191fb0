//! Waiting until several servers agree.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, RedisResult, Value};

use super::Server;
use crate::looks::Looks;

/// How long they may take. A sentinel that was kept from running for two seconds does nothing for the next thirty.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long what is on its way out may take: less than what was forgotten lives.
const LEAVING: Duration = Duration::from_secs(20);

pub(super) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    let mut looks = Looks::default();
    while !is_so() {
        assert!(Instant::now() < until, "never came true within {PATIENCE:?}: {what}");
        std::thread::sleep(looks.next());
    }
}

pub(super) async fn until(what: &str, is_so: impl AsyncFnMut() -> bool) {
    within(PATIENCE, what, is_so).await;
}

async fn within(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + limit;
    let mut looks = Looks::default();
    while !is_so().await {
        assert!(Instant::now() < until, "never came true within {limit:?}: {what}");
        looks.pause().await;
    }
}

/// Waits until no server that runs has a key or a channel with `prefix` in its name.
pub(super) async fn nothing_left(servers: &[Arc<Server>], prefix: &str) {
    let clean = async || {
        for server in servers.iter().filter(|server| !server.is_stopped()) {
            match left(server, prefix).await {
                Ok(left) if left.is_empty() => {}
                Err(error) if error.is_connection_refusal() => {} // it is dead
                // Sentinels cut every connection to a server whose role they change.
                _ => return false,
            }
        }
        true
    };
    within(LEAVING, "no key and no subscription is left", clean).await;
}

async fn left(server: &Server, prefix: &str) -> RedisResult<Vec<String>> {
    let list = async |command: &[&str]| -> RedisResult<Vec<String>> {
        Ok(redis::from_redis_value(server.try_cli(command).await?)?)
    };
    let mut left = list(&["KEYS", &format!("*{prefix}*")]).await?;
    // The one thing that is meant to stay: the counter of a fenced lock.
    left.retain(|key| !key.starts_with("redisson_lock_token:"));
    left.extend(list(&["PUBSUB", "CHANNELS"]).await?);
    // Redis 6.2 has no shard channels and answers with an error.
    left.extend(list(&["PUBSUB", "SHARDCHANNELS"]).await.unwrap_or_default());
    // What sentinels tell each other.
    left.retain(|name| name.contains(prefix) && name != "__sentinel__:hello");
    Ok(left)
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
