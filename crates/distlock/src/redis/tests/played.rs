//! A server that the test plays, line by line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Tracing;
use crate::env::{BoxFuture, Virtual};
use crate::locks::Durability;
use crate::redis::{Connector, Endpoint, Stream, Surroundings};

/// How long its answers may take, on tokio's clock.
pub(in crate::redis) const LIMIT: Duration = Duration::from_secs(1);

/// How long the test waits for something to be said: for ever, but a test that waits in vain is to fail.
const IN_VAIN: Duration = Duration::from_secs(3600);

/// Hands every connection that is made to the test.
#[derive(Debug)]
struct Stage(UnboundedSender<DuplexStream>);

impl Connector for Stage {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let (near, far) = duplex(65_536);
        self.0.send(far).expect("the test plays on");
        Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
    }
}

/// The server's side of the connections to come, and how many came.
pub(in crate::redis) struct Played(UnboundedReceiver<DuplexStream>, u64);

impl Played {
    pub(in crate::redis) fn new(durability: Durability) -> (Surroundings, Played) {
        let (made, connections) = unbounded_channel();
        let surroundings = Surroundings {
            env: Arc::new(Virtual::new()),
            connector: Arc::new(Stage(made)),
            observer: Arc::new(Tracing),
            reply_timeout: LIMIT,
            durability,
            holder_info: false,
        };
        (surroundings, Played(connections, 0))
    }

    /// The next connection, logged in, and known by a number, from 1 on, and an address that ends in it.
    pub(in crate::redis) async fn next(&mut self) -> Peer {
        let mut peer = self.next_asking_who().await;
        let id = self.1;
        let said = format!("id={id} addr=10.0.0.1:{id} laddr=10.0.0.2:6379 fd=8 name= age=0");
        peer.answer(&format!("${}\r\n{said}\r\n:0\r\n", said.len())).await;
        peer
    }

    /// The next connection, logged in, which waits for the answers to `CLIENT INFO` and to a `CLIENT KILL` of nobody.
    pub(in crate::redis) async fn next_asking_who(&mut self) -> Peer {
        let mut peer = self.next_listener().await;
        peer.asked("0.0.0.0:0").await;
        peer
    }

    /// The next connection, logged in. One for subscriptions is not asked for its number.
    pub(in crate::redis) async fn next_listener(&mut self) -> Peer {
        let next = tokio::time::timeout(IN_VAIN, self.0.recv()).await;
        let mut peer = Peer(next.ok().flatten().expect("another connection"));
        self.1 += 1;
        peer.asked("LIB-VER").await;
        peer.answer("%1\r\n+proto\r\n:3\r\n+OK\r\n+OK\r\n").await;
        peer
    }
}

/// The server's side of a connection.
pub(in crate::redis) struct Peer(DuplexStream);

impl Peer {
    /// Everything that is said up to the end of what has this word in it.
    pub(in crate::redis) async fn asked(&mut self, word: &str) -> String {
        let (mut said, mut more) = (String::new(), [0; 4096]);
        while !said.contains(word) {
            let read = tokio::time::timeout(IN_VAIN, self.0.read(&mut more)).await;
            let read = read.unwrap_or_else(|_| panic!("never {word}, but {said}"));
            let read = read.expect("a duplex");
            assert!(read > 0, "the connection ended before {word}, after {said}");
            said += &String::from_utf8_lossy(&more[..read]);
        }
        said
    }

    /// Everything that is said until the connection ends.
    pub(in crate::redis) async fn rest(&mut self) -> String {
        let mut said = String::new();
        self.0.read_to_string(&mut said).await.expect("a text");
        said
    }

    pub(in crate::redis) async fn answer(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("the connection is there");
    }
}
