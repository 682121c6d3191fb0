//! What the scripts of semaphores and latches leave on the server, and what they call out.

mod latch;
mod leased;
mod plain;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::server::{Raw, Server, connect, owner, patient};
use crate::store::{Admin, Attempt, Claim, ClaimKind, Released, Store};
use crate::{Error, ErrorKind, Owner};

const TAKEN: Attempt = Attempt::Acquired { token: None, lease: Duration::from_secs(30) };

fn claim(name: &str, owner: Owner, what: ClaimKind) -> Claim {
    let lease = Duration::from_secs(30);
    Claim { name: name.into(), owner, lease, depth: 1, heir_of: None, kind: what, info: None }
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

/// How many permits of a kind.
type Permits = fn(u32) -> ClaimKind;

/// Whatever stands under these names is no such semaphore, and stays as it is.
async fn are_conflicts(
    (store, raw): (&dyn Store, &mut Raw),
    some: Permits,
    names: &[&str],
    ops: &[Admin],
) {
    for name in names {
        let before: Vec<u8> = raw.run(&format!("DUMP {name}")).await;
        is_conflict(store.acquire(&claim(name, owner(), some(1))).await.unwrap_err());
        is_conflict(store.release(&claim(name, owner(), some(1))).await.unwrap_err());
        is_conflict(store.inspect(some(1), name).await.unwrap_err());
        is_conflict(store.force(some(1), name).await.unwrap_err());
        for op in ops {
            is_conflict(store.admin(name, op).await.unwrap_err());
        }
        assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {name}")).await, before, "{name}");
    }
}

/// Takes two of five permits, and gives them back to a server that is out of memory.
async fn two_come_back_without_memory((store, raw): (&dyn Store, &mut Raw), some: Permits) {
    let mine = claim("s", owner(), some(2));
    raw.run::<()>("SET s 5").await;
    store.acquire(&mine).await.unwrap();
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    let error = store.acquire(&claim("s", owner(), some(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(raw.run::<String>("GET s").await, "3");
    assert_eq!(store.release(&mine).await.unwrap(), Released::Freed { heard_by: 0 });
    assert_eq!((keys(raw).await, raw.run::<i64>("GET s").await), (vec!["s".to_owned()], 5));
}

/// One may take and not give back, another may give back and not take: neither gets half-way, with these permissions besides.
async fn a_permission_is_missing_half_way(some: Permits, can: &str, out: &str) {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = format!("+hello +evalsha +script|load +get ~* {can}");
    raw.run::<()>(&format!("ACL SETUSER taker on >word -@all {can} +decrby")).await;
    raw.run::<()>(&format!("ACL SETUSER giver on >word -@all {can} +incrby")).await;
    let url = |user| format!("redis://{user}:word@127.0.0.1:{}", server.port());
    let (taker, giver) = (connect(&url("taker")).await.unwrap(), connect(&url("giver")).await);
    let (giver, mine) = (giver.unwrap(), claim("s", owner(), some(2)));
    raw.run::<()>("SET s 5").await;

    let error = giver.acquire(&mine).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!((keys(&mut raw).await, raw.run::<i64>("GET s").await), (vec!["s".to_owned()], 5));

    taker.acquire(&mine).await.unwrap();
    let before: Vec<u8> = raw.run(&format!("DUMP {out}")).await;
    assert!(!before.is_empty());
    let error = taker.release(&mine).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {out}")).await, before);
    // This one may give back, but tell nobody.
    assert_eq!(giver.release(&mine).await.unwrap(), Released::Freed { heard_by: 0 });
    assert_eq!((keys(&mut raw).await, raw.run::<i64>("GET s").await), (vec!["s".to_owned()], 5));
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
        let config = patient().set_push_sender(sender);
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
