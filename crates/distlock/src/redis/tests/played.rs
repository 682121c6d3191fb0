//! A server that the test plays, line by line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Tracing;
use crate::durability::Durability;
use crate::env::{BoxFuture, Virtual};
use crate::redis::{Connector, Endpoint, Stream, Surroundings};

/// How long its answers may take, on tokio's clock.
pub(in crate::redis) const LIMIT: Duration = Duration::from_secs(1);

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

/// The server's side of the connections to come.
pub(in crate::redis) struct Played(UnboundedReceiver<DuplexStream>);

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
        (surroundings, Played(connections))
    }

    /// The next connection, logged in.
    pub(in crate::redis) async fn next(&mut self) -> Peer {
        let mut peer = Peer(self.0.recv().await.expect("another connection"));
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
            let read = self.0.read(&mut more).await.expect("a duplex");
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
