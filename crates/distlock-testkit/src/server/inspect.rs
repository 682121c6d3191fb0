//! What a test asks a server behind the library's back.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{FromRedisValue, InfoDict, RedisResult, Value};

use super::Server;
use super::launch::apart;

/// What `INFO commandstats` says of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Calls that ran, whether they succeeded or not.
    pub calls: u64,
    /// Calls refused before they ran.
    pub rejected: u64,
    /// Calls that ran and answered with an error.
    pub failed: u64,
}

impl Server {
    /// Sends one command over a connection of its own and gives what the server answers; an error
    /// reply is an `Err`.
    pub async fn try_cli(&self, args: &[&str]) -> RedisResult<Value> {
        let command = command(args);
        let access = Arc::clone(&self.access);
        apart(move || command.query(&mut access.connect()?)).await
    }

    /// [`try_cli`](Server::try_cli) for a test without a runtime.
    pub fn try_cli_blocking(&self, args: &[&str]) -> RedisResult<Value> {
        command(args).query(&mut self.access.connect()?)
    }

    /// Sends one command and gives its reply.
    ///
    /// # Panics
    /// When the server cannot be reached or answers with an error.
    pub async fn cli(&self, args: &[&str]) -> Value {
        self.try_cli(args).await.unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// [`cli`](Server::cli) with the reply turned into what the test wants.
    ///
    /// # Panics
    /// Like [`cli`](Server::cli), and when the reply is something else.
    pub async fn ask<T: FromRedisValue>(&self, args: &[&str]) -> T {
        let reply = self.cli(args).await;
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// The keys that match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", pattern]).await;
        keys.sort();
        keys
    }

    /// A hash, sorted by field; empty when there is none.
    pub async fn hgetall(&self, key: &str) -> BTreeMap<String, String> {
        self.ask(&["HGETALL", key]).await
    }

    /// What is left of a key's time in milliseconds; −1 for ever, −2 no such key.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.ask(&["PTTL", key]).await
    }

    /// Whether there is such a key.
    pub async fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).await
    }

    /// The channels somebody is subscribed to, sorted; shard channels (Redis 7) too.
    pub async fn pubsub_channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.ask(&["PUBSUB", "CHANNELS"]).await;
        // Redis 6.2 has no shard channels and answers with an error.
        if let Ok(reply) = self.try_cli(&["PUBSUB", "SHARDCHANNELS"]).await {
            let shard: Vec<String> = redis::from_redis_value(reply).expect("a list of channels");
            channels.extend(shard);
        }
        channels.sort();
        channels
    }

    /// `CLIENT LIST`, without the connection that asks.
    pub async fn clients(&self) -> Vec<String> {
        let access = Arc::clone(&self.access);
        let (own, list): (u64, String) = apart(move || {
            let mut connection = access.connect()?;
            redis::pipe().cmd("CLIENT").arg("ID").cmd("CLIENT").arg("LIST").query(&mut connection)
        })
        .await
        .unwrap_or_else(|error| panic!("CLIENT LIST: {error}"));
        let own = format!("id={own} ");
        list.lines().filter(|line| !line.starts_with(&own)).map(str::to_owned).collect()
    }

    /// How many connections there are, without the one that asks.
    pub async fn client_count(&self) -> usize {
        self.clients().await.len()
    }

    /// A field of `INFO`, from any section.
    pub async fn info_field(&self, field: &str) -> Option<String> {
        let info: InfoDict = self.ask(&["INFO", "everything"]).await;
        info.get(field)
    }

    /// How often each command ran since the start or [`reset_stats`](Server::reset_stats), by its
    /// name in lower case (`evalsha`, `client|list`); commands inside scripts count too. The kit's
    /// own questions count like any other.
    pub async fn command_stats(&self) -> BTreeMap<String, CommandStats> {
        let text: String = self.ask(&["INFO", "commandstats"]).await;
        let stats = text.lines().filter_map(|line| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let field = |key: &str| {
                let mut pairs = fields.split(',').filter_map(|pair| pair.split_once('='));
                pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.parse().ok())
            };
            let stats = CommandStats {
                calls: field("calls").unwrap_or_default(),
                rejected: field("rejected_calls").unwrap_or_default(),
                failed: field("failed_calls").unwrap_or_default(),
            };
            Some((name.to_owned(), stats))
        });
        stats.collect()
    }

    /// How often one command ran; 0 when it never did.
    pub async fn calls(&self, command: &str) -> u64 {
        self.command_stats().await.get(command).copied().unwrap_or_default().calls
    }

    /// `CONFIG RESETSTAT`: counters start again from 0.
    pub async fn reset_stats(&self) {
        self.cli(&["CONFIG", "RESETSTAT"]).await;
    }
}

fn command(args: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for arg in args {
        command.arg(arg);
    }
    command
}
