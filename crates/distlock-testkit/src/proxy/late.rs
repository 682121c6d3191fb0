//! Requests that the proxy holds back and delivers later, on the connection they came on.

use std::fmt;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::rules::Rule;

/// How long [`Late::deliver`] waits for a request to be held back, and then for the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests that [`Proxy::deliver_late`](super::Proxy::deliver_late) holds back. Dropping this loses those that were not delivered.
#[derive(Debug)]
pub struct Late {
    rule: Rule,
    held: mpsc::UnboundedReceiver<HeldBack>,
}

/// What the server did with a request that arrived late.
#[derive(Clone, PartialEq, Eq)]
pub enum Delivered {
    /// The server ran it and answered with this frame.
    Ran(Vec<u8>),
    /// The server did not run it: the server, or a reset of the proxy, had ended its connection.
    Refused,
}

impl Late {
    pub(super) fn new(rule: Rule, held: mpsc::UnboundedReceiver<HeldBack>) -> Late {
        Late { rule, held }
    }

    /// How many requests were held back so far, delivered ones included.
    pub fn hits(&self) -> u64 {
        self.rule.hits()
    }

    /// Waits until `times` requests in all were held back.
    ///
    /// # Panics
    /// When they were not after 30 s.
    pub async fn fired(&self, times: u64) {
        self.rule.fired(times).await;
    }

    /// Sends the oldest request that is held back, and what came behind it on its connection, to the server. Waits until the server
    /// has answered that request or has ended the connection.
    ///
    /// # Panics
    /// When no request was held back after 30 s, or when the server does neither within 30 s.
    pub async fn deliver(&mut self) -> Delivered {
        let held = timeout(PATIENCE, self.held.recv()).await;
        let held = held.expect("a request is held back in time").expect("the rule is in force");
        // Fails if the connection has ended: then nothing answers either.
        let _ = held.go.send(());
        let answer = timeout(PATIENCE, held.answer).await;
        match answer.expect("the server answers or ends the connection in time") {
            Ok(reply) => Delivered::Ran(reply),
            Err(_) => Delivered::Refused,
        }
    }
}

impl Delivered {
    /// Whether the server ran it.
    pub fn ran(&self) -> bool {
        matches!(self, Delivered::Ran(_))
    }

    /// The first line of the server's reply, without its end; `None` if the server did not run the request.
    pub fn first_line(&self) -> Option<String> {
        match self {
            Delivered::Ran(reply) => {
                let end = reply.windows(2).position(|pair| pair == b"\r\n").unwrap_or(reply.len());
                Some(String::from_utf8_lossy(&reply[..end]).into_owned())
            }
            Delivered::Refused => None,
        }
    }
}

impl fmt::Debug for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delivered::Ran(reply) => write!(f, "Ran({:?})", String::from_utf8_lossy(reply)),
            Delivered::Refused => f.write_str("Refused"),
        }
    }
}

/// One request that is held back, as the test sees it.
#[derive(Debug)]
pub(super) struct HeldBack {
    /// Delivers it.
    go: oneshot::Sender<()>,
    /// The server's reply; closed without one when the connection ends first.
    answer: oneshot::Receiver<Vec<u8>>,
}

/// The same request, as its connection sees it.
#[derive(Debug)]
pub(super) struct Holding {
    /// Closed without a message when the test does not want it delivered any more.
    pub(super) go: oneshot::Receiver<()>,
    pub(super) answer: oneshot::Sender<Vec<u8>>,
}

pub(super) fn hold_back() -> (HeldBack, Holding) {
    let (go, gone) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    (HeldBack { go, answer: answered }, Holding { go: gone, answer })
}
