//! A TCP proxy in front of a server, with faults that strike at the command a test names.
//!
//! It runs on a thread of its own, with a clock of its own: neither a test that blocks its runtime
//! nor one with paused time stops it.
//!
//! TCP delivers bytes in order or not at all, and so does the proxy. Where a request or a reply is
//! lost, everything behind it on that connection is lost as well, and the connection stays open:
//! the half-open connection of a real network. (Were later replies let through, a client would take
//! them for the one it is missing.) [`Proxy::reset_all`] ends such connections.
//!
//! Not understood: `MONITOR`, `CLIENT REPLY`, and inline commands. A connection with TLS passes as
//! it is; faults by command do not strike it, all others do.

mod late;
mod link;
mod resp;
mod rules;
mod shared;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};

use self::link::Link;
use self::rules::Fault;
use self::shared::Shared;
use crate::port;

pub use self::late::{Delivered, Late};
pub use self::rules::{Match, Request, Rule};

/// Commands by name, for each connection in the order they came.
pub type Seen = BTreeMap<u64, BTreeMap<String, u64>>;

/// The proxy. Its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    control: Option<mpsc::UnboundedSender<Control>>,
    thread: Option<JoinHandle<()>>,
}

enum Control {
    /// Refuse new connections, or accept them again; answered when it is so.
    Refuse(bool, oneshot::Sender<()>),
}

impl Proxy {
    /// Starts a proxy before the server at `upstream`.
    pub async fn start(upstream: SocketAddr) -> Proxy {
        Self::start_blocking(upstream)
    }

    /// [`start`](Proxy::start) for a test without a runtime.
    pub fn start_blocking(upstream: SocketAddr) -> Proxy {
        let listener = port::listener();
        let addr = listener.local_addr().expect("a bound listener has an address");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let shared = Arc::new(Shared::new(upstream));
        let (control, inbox) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("testkit-proxy".into())
            .spawn(move || runtime.block_on(accept(listener, addr, accepting, inbox)))
            .expect("a thread can be started");
        Proxy { addr, shared, control: Some(control), thread: Some(thread) }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where clients connect, as a URL. For a server with a password or TLS, see
    /// [`Server::url_at`](crate::Server::url_at).
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// New connections go to another server.
    pub fn retarget(&self, upstream: SocketAddr) {
        self.shared.settings().upstream = upstream;
    }

    /// Every reply comes this much later. Replies keep their order and do not add up.
    pub fn latency(&self, latency: Duration) {
        self.shared.settings().latency = latency;
    }

    /// Loses the reply to the next command (but for those that open a connection). The server
    /// executes it. The connection stays open and carries nothing more to the client.
    pub fn swallow_next_reply(&self) -> Rule {
        self.swallow_replies_to(Match::any(), 1)
    }

    /// Loses the replies to the next `times` commands that match; the server executes them. Each
    /// connection it strikes stays open and carries nothing more to the client.
    pub fn swallow_replies_to(&self, matcher: impl Into<Match>, times: u64) -> Rule {
        self.shared.settings().rules.add(matcher.into(), Fault::SwallowReply, times)
    }

    /// Resets the connection in place of the reply, for the next `times` commands that match; the
    /// server has executed them.
    pub fn reset_instead_of_replies_to(&self, matcher: impl Into<Match>, times: u64) -> Rule {
        self.shared.settings().rules.add(matcher.into(), Fault::ResetInsteadOfReply, times)
    }

    /// Loses the next `times` commands that match before they reach the server. Each connection it
    /// strikes stays open and carries nothing more to the server.
    pub fn drop_requests_to(&self, matcher: impl Into<Match>, times: u64) -> Rule {
        self.shared.settings().rules.add(matcher.into(), Fault::DropRequest, times)
    }

    /// Holds the next `times` commands that match back, each with everything behind it on its connection, until the test has them
    /// [delivered](Late::deliver) on that same connection: a packet that the network delivers after its sender gave up. The
    /// connection to the server stays open although the client closes its own, and other connections are not affected. A client
    /// that is still there gets the replies.
    pub fn deliver_late(&self, matcher: impl Into<Match>, times: u64) -> Late {
        self.shared.settings().rules.add_late(matcher.into(), times)
    }

    /// Counts commands that match as they pass, and harms nothing.
    pub fn watch(&self, matcher: impl Into<Match>) -> Rule {
        self.shared.settings().rules.add(matcher.into(), Fault::Watch, u64::MAX)
    }

    /// Lets nothing through in either direction, and tells nobody. What was sent meanwhile arrives
    /// when it ends, as TCP would send it again.
    pub fn blackhole(&self, on: bool) {
        self.blackhole_requests(on);
        self.blackhole_replies(on);
    }

    /// The half of [`blackhole`](Proxy::blackhole) towards the server.
    pub fn blackhole_requests(&self, on: bool) {
        self.shared.block_requests(on);
    }

    /// The half of [`blackhole`](Proxy::blackhole) towards the clients: commands are executed.
    pub fn blackhole_replies(&self, on: bool) {
        self.shared.block_replies(on);
    }

    /// Cuts a connection after this many more bytes towards the clients, counted over all
    /// connections, in the middle of a reply if it falls there. Strikes once.
    pub fn cut_after(&self, bytes: usize) {
        self.shared.settings().budget = Some(bytes);
    }

    /// Resets every connection (RST). Returns when they are gone.
    pub async fn reset_all(&self) {
        let links = std::mem::take(&mut self.shared.settings().links);
        for link in links.values() {
            link.send_replace(true);
        }
        for link in links.values() {
            link.closed().await;
        }
    }

    /// Refuses new connections, or accepts them again. Those that are open stay.
    pub async fn refuse(&self, on: bool) {
        let (done, answer) = oneshot::channel();
        let control = self.control.as_ref().expect("the control goes only in drop");
        control.send(Control::Refuse(on, done)).expect("the proxy runs as long as this value");
        answer.await.expect("the proxy answers");
    }

    /// Takes back every fault. Connections that have lost something are beyond repair: use
    /// [`reset_all`](Proxy::reset_all) to end them.
    pub async fn heal(&self) {
        {
            let mut settings = self.shared.settings();
            settings.rules.clear();
            settings.budget = None;
            settings.latency = Duration::ZERO;
        }
        self.blackhole(false);
        self.refuse(false).await;
    }

    /// The commands that have come so far, by connection and name, dropped ones included.
    pub fn seen(&self) -> Seen {
        self.shared.settings().seen.clone()
    }

    /// How often a command has come, over all connections.
    pub fn count(&self, command: &str) -> u64 {
        let command = command.to_ascii_uppercase();
        self.shared.settings().seen.values().filter_map(|client| client.get(&command)).sum()
    }

    /// Starts counting again from 0.
    pub fn forget_seen(&self) {
        self.shared.settings().seen.clear();
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.settings().links.values().filter(|link| !link.is_closed()).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.control.take());
        if let Some(thread) = self.thread.take() {
            // It has panicked already, and said so.
            let _ = thread.join();
        }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    addr: SocketAddr,
    shared: Arc<Shared>,
    mut inbox: mpsc::UnboundedReceiver<Control>,
) {
    let mut listener = Some(TcpListener::from_std(listener).expect("a non-blocking listener"));
    let mut next = 0;
    loop {
        tokio::select! {
            control = inbox.recv() => match control {
                None => return,
                Some(Control::Refuse(on, done)) => {
                    if on {
                        listener = None;
                    } else if listener.is_none() {
                        let again = TcpListener::bind(addr).await;
                        listener = Some(again.expect("nobody took the port meanwhile"));
                    }
                    // The test may have given up waiting.
                    let _ = done.send(());
                }
            },
            client = incoming(listener.as_ref()) => {
                let (sender, reset) = watch::channel(false);
                shared.settings().links.insert(next, sender);
                tokio::spawn(Link::new(Arc::clone(&shared), next).run(client, reset));
                next += 1;
            }
        }
    }
}

/// The next client; none ever while connections are refused.
async fn incoming(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        // An error belongs to a client that has gone already.
        if let Ok((client, _)) = listener.accept().await {
            return client;
        }
    }
}
