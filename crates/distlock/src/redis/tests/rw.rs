//! What the scripts for read-write locks leave on the server, compared with what Redisson does.

mod data;
mod leases;
mod trouble;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::{Raw, Server};
use crate::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Released};

const ACQUIRED: Attempt = Attempt::Acquired { token: None, lease: Duration::from_secs(30) };
const LEFT: Released = Released::Freed { heard_by: 0 };

const WRITE: ClaimKind = ClaimKind::Write { waits: false };
const WAITING: ClaimKind = ClaimKind::Write { waits: true };

/// A claim on `k` for thirty seconds.
fn claim(what: ClaimKind, owner: Owner, depth: u32) -> Claim {
    let lease = Duration::from_secs(30);
    Claim { name: "k".into(), owner, lease, depth, heir_of: None, kind: what, info: None }
}

fn read(owner: Owner, depth: u32) -> Claim {
    claim(ClaimKind::Read, owner, depth)
}

fn write(owner: Owner, depth: u32) -> Claim {
    claim(WRITE, owner, depth)
}

fn for_secs(claim: Claim, secs: u64) -> Claim {
    Claim { lease: Duration::from_secs(secs), ..claim }
}

fn is_busy(answer: &Attempt) -> bool {
    matches!(answer, Attempt::Busy { .. })
}

/// For how long it is busy, in milliseconds.
fn busy_for(answer: Attempt) -> u128 {
    let Attempt::Busy { ttl } = answer else { panic!("acquired") };
    ttl.as_millis()
}

/// The key of a read hold of the lock `k`.
fn hold(owner: Owner, n: u32) -> String {
    format!("{{k}}:{owner}:rwlock_timeout:{n}")
}

impl Raw {
    /// The hash under `k`.
    async fn hash(&mut self) -> BTreeMap<String, String> {
        self.run("HGETALL k").await
    }

    /// Every key there is, in order.
    async fn all_keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = self.run("KEYS *").await;
        keys.sort();
        keys
    }

    async fn ttl(&mut self, key: &str) -> i64 {
        self.run(&format!("PTTL {key}")).await
    }
}

fn fields<const N: usize>(fields: [(&str, &str); N]) -> BTreeMap<String, String> {
    fields.map(|(field, value)| (field.to_owned(), value.to_owned())).into()
}

/// A subscription by hand: the messages as they are on the wire.
struct Messages(TcpStream);

impl Messages {
    async fn of(server: &Server, channel: &str) -> Messages {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stream.write_all(format!("SUBSCRIBE {channel}\r\n").as_bytes()).await.unwrap();
        let mut messages = Messages(stream);
        let hello = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len());
        assert_eq!(messages.read(hello.len()).await, hello);
        messages
    }

    /// The next message, which is one character.
    async fn next(&mut self, channel: &str) -> String {
        let before = format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n$1\r\n", channel.len());
        let text = self.read(before.len() + 3).await;
        text.strip_prefix(&before).unwrap_or(&text).trim_end().to_owned()
    }

    async fn read(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        let read = self.0.read_exact(&mut bytes);
        tokio::time::timeout(Duration::from_secs(30), read).await.expect("no message").unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
