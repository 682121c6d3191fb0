//! What the scripts of semaphores and latches leave on the server, and what they call out.

mod latch;
mod leased;
mod plain;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::server::{Raw, Server};
use crate::store::{Attempt, Claim, What};
use crate::{Error, ErrorKind, Owner};

const TAKEN: Attempt = Attempt::Acquired { token: None };

fn claim(name: &str, owner: Owner, what: What) -> Claim {
    let lease = Duration::from_secs(30);
    Claim { name: name.into(), owner, lease, depth: 1, heir_of: None, what }
}

fn busy(answer: Attempt) -> Duration {
    match answer {
        Attempt::Busy { ttl } => ttl,
        other => panic!("{other:?}"),
    }
}

/// Everything on the server.
async fn keys(raw: &mut Raw) -> Vec<String> {
    let mut keys: Vec<String> = raw.run("KEYS *").await;
    keys.sort();
    keys
}

fn is_conflict(error: Error) {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// Hears one channel from the outside, as a Java process would.
struct Ear {
    channel: String,
    pushed: UnboundedReceiver<PushInfo>,
    _connection: MultiplexedConnection,
}

impl Ear {
    async fn on(server: &Server, channel: &str) -> Ear {
        let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
        let (sender, pushed) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await.unwrap();
        connection.subscribe(channel).await.unwrap();
        Ear { channel: channel.to_owned(), pushed, _connection: connection }
    }

    /// The messages since the last time.
    async fn heard(&mut self, raw: &mut Raw) -> Vec<String> {
        raw.run::<i64>(&format!("PUBLISH {} end", self.channel)).await;
        let mut heard = Vec::new();
        while let Some(push) = self.pushed.recv().await {
            if push.kind != PushKind::Message {
                continue;
            }
            let Some(Value::BulkString(text)) = push.data.last() else { panic!("{push:?}") };
            match String::from_utf8(text.clone()).unwrap() {
                end if end == "end" => return heard,
                text => heard.push(text),
            }
        }
        panic!("the connection is gone");
    }
}
