//! One connection through the proxy.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::late::Holding;
use super::resp::{self, Kind};
use super::rules::{Fault, Request, Strike};
use super::shared::Shared;

/// How a connection ends.
enum End {
    /// As TCP ends it: what was sent arrives, then the end.
    Closed,
    /// At once, with a reset on both sides.
    Reset,
}

/// A command the server has been given and whose answer is to come.
struct Expected {
    answer: Answer,
    strike: Option<Strike>,
    /// Where the reply to a command goes besides that was delivered late.
    late: Option<oneshot::Sender<Vec<u8>>>,
}

/// What becomes of a request.
enum Admission {
    Passes,
    Lost,
    HeldBack(Request, Holding),
}

enum Answer {
    Reply,
    /// As many confirmations of this name.
    Confirmations(String, usize),
}

#[derive(Default)]
struct State {
    expected: VecDeque<Expected>,
    subscribed: bool,
    /// Nothing reaches the server any more: it would arrive behind a hole.
    requests_lost: bool,
    /// Nothing reaches the client any more: it would be taken for the reply that was lost.
    replies_lost: bool,
    /// Something is or was held back here: the connection outlives its client until the server has answered everything.
    delayed: bool,
    /// The client of a delayed connection has gone, and everything that it sent was delivered.
    finishing: bool,
    /// Not the Redis protocol (TLS, for one): bytes pass as they are.
    opaque: bool,
}

pub(super) struct Link {
    shared: Arc<Shared>,
    id: u64,
    state: Mutex<State>,
}

type Outgoing = (Instant, Vec<u8>);

impl Link {
    pub(super) fn new(shared: Arc<Shared>, id: u64) -> Self {
        Link { shared, id, state: Mutex::default() }
    }

    /// Carries the connection to its end.
    pub(super) async fn run(self, client: TcpStream, mut reset: watch::Receiver<bool>) {
        self.carry(client, &mut reset).await;
        // Only now, with the sockets closed: `reset_all` waits for this.
        drop(reset);
    }

    async fn carry(&self, mut client: TcpStream, reset: &mut watch::Receiver<bool>) {
        let server = tokio::select! {
            server = TcpStream::connect(self.shared.upstream()) => server,
            _ = reset.wait_for(|reset| *reset) => Err(io::ErrorKind::ConnectionReset.into()),
        };
        let Ok(mut server) = server else {
            abort(&client);
            return;
        };
        // Small frames are to leave at once; where that cannot be set, they leave a little later.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));

        let end = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            tokio::select! {
                end = self.pump_requests(from_client, to_server) => end,
                end = self.pump_replies(from_server, to_client) => end,
                _ = reset.wait_for(|reset| *reset) => End::Reset,
            }
        };
        if matches!(end, End::Reset) {
            abort(&client);
            abort(&server);
        }
    }

    async fn pump_requests(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
        let mut buffer = Vec::new();
        let mut open = true;
        while open {
            self.shared.requests_flow().await;
            match from.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return End::Closed,
                Ok(_) => {}
            }
            self.shared.requests_flow().await;
            while let Some(frame) = self.next_frame(&mut buffer) {
                match self.admit(&frame) {
                    Admission::Lost => continue,
                    Admission::Passes => {}
                    Admission::HeldBack(request, Holding { go, answer }) => {
                        let delivered = gather(go, &mut from, &mut buffer, &mut open).await;
                        let mut state = self.state();
                        if !delivered {
                            state.requests_lost = true;
                            continue;
                        }
                        state.expect(&request, None, Some(answer));
                    }
                }
                if to.write_all(&frame).await.is_err() {
                    return End::Closed;
                }
            }
        }
        if self.state().finish() {
            return End::Closed;
        }
        // The last reply ends it.
        std::future::pending().await
    }

    /// What becomes of a request.
    fn admit(&self, frame: &[u8]) -> Admission {
        let mut state = self.state();
        if state.opaque {
            return Admission::Passes;
        }
        let Ok(args) = resp::arguments(frame) else {
            state.opaque = true;
            return Admission::Passes;
        };
        let request = Request::new(args);
        self.shared.count(self.id, &request.name());
        let strike = self.shared.decide(&request, state.requests_lost || state.replies_lost);
        if state.requests_lost {
            return Admission::Lost;
        }
        match strike.as_ref().map(|strike| (strike.fault, strike)) {
            Some((Fault::DropRequest, strike)) => {
                state.requests_lost = true;
                strike.report();
                return Admission::Lost;
            }
            Some((Fault::DeliverLate, strike)) => {
                state.delayed = true;
                return Admission::HeldBack(request, strike.hold_back());
            }
            _ => {}
        }
        state.expect(&request, strike, None);
        Admission::Passes
    }

    async fn pump_replies(&self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let mut writer = pin!(self.write_replies(to, queue));
        tokio::select! {
            end = self.read_replies(from, outgoing) => {
                // What came before the end still arrives, in its time.
                writer.await;
                end
            }
            () = &mut writer => End::Closed,
        }
    }

    async fn read_replies(
        &self,
        mut from: ReadHalf<'_>,
        outgoing: mpsc::UnboundedSender<Outgoing>,
    ) -> End {
        let mut buffer = Vec::new();
        loop {
            match from.read_buf(&mut buffer).await {
                Ok(0) => return End::Closed,
                Err(_) => return End::Reset,
                Ok(_) => {}
            }
            let due = Instant::now() + self.shared.latency();
            while let Some(frame) = self.next_frame(&mut buffer) {
                match self.settle(&frame) {
                    Some(Fault::SwallowReply) => {}
                    Some(_) => return End::Reset,
                    // Fails only when the writer has met the end of the connection.
                    None if outgoing.send((due, frame)).is_err() => return End::Closed,
                    None => {}
                }
                if self.state().is_finished() {
                    return End::Closed;
                }
            }
        }
    }

    /// Finds the command a frame from the server answers, and what was meant for its reply.
    fn settle(&self, frame: &[u8]) -> Option<Fault> {
        let mut state = self.state();
        if state.opaque {
            return None;
        }
        if state.replies_lost {
            return Some(Fault::SwallowReply);
        }
        let kind = resp::classify(frame, state.subscribed);
        let strike = state.answered(&kind, frame)?;
        strike.report();
        state.replies_lost = true;
        Some(strike.fault)
    }

    async fn write_replies(
        &self,
        mut to: WriteHalf<'_>,
        mut queue: mpsc::UnboundedReceiver<Outgoing>,
    ) {
        while let Some((due, frame)) = queue.recv().await {
            tokio::time::sleep_until(due).await;
            self.shared.replies_flow().await;
            let allowed = self.shared.spend(frame.len());
            let written = to.write_all(&frame[..allowed]).await;
            // The client of a delayed connection may have gone: its replies go nowhere.
            if allowed < frame.len() || written.is_err() && !self.state().delayed {
                return;
            }
        }
    }

    /// Takes the next complete frame out of the buffer, or all of it when the protocol is unknown.
    fn next_frame(&self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        let mut state = self.state();
        if buffer.is_empty() {
            return None;
        }
        let len = match resp::frame_len(buffer) {
            Ok(len) if !state.opaque => len?,
            Ok(_) => buffer.len(),
            Err(resp::Malformed) => {
                state.opaque = true;
                buffer.len()
            }
        };
        let rest = buffer.split_off(len);
        Some(std::mem::replace(buffer, rest))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with a link's state locked")
    }
}

impl State {
    /// Notes that the server is given this command.
    fn expect(
        &mut self,
        request: &Request,
        strike: Option<Strike>,
        late: Option<oneshot::Sender<Vec<u8>>>,
    ) {
        let name = request.name();
        let answer = if name.ends_with("SUBSCRIBE") {
            self.subscribed = true;
            let channels = request.args().len() - 1;
            Answer::Confirmations(name.to_ascii_lowercase(), channels.max(1))
        } else {
            Answer::Reply
        };
        self.expected.push_back(Expected { answer, strike, late });
    }

    /// Nothing more comes from the client. Whether nothing more comes from the server either.
    fn finish(&mut self) -> bool {
        self.finishing = true;
        self.is_finished()
    }

    fn is_finished(&self) -> bool {
        self.finishing && self.expected.is_empty()
    }

    /// Takes a frame off what is expected; gives the fault meant for the command it answers.
    fn answered(&mut self, kind: &Kind, frame: &[u8]) -> Option<Strike> {
        let front = self.expected.front_mut()?;
        match (kind, &mut front.answer) {
            (Kind::Push, _) => None,
            (Kind::Confirmation(name), Answer::Confirmations(command, left)) => {
                // Another name: the server's own doing, or more than was asked for by count.
                if name != command {
                    return None;
                }
                *left -= 1;
                if *left > 0 {
                    return front.strike.clone();
                }
                self.expected.pop_front()?.report(frame)
            }
            (Kind::Confirmation(_), Answer::Reply) => None,
            (Kind::Reply, Answer::Confirmations(..)) => {
                self.expected.pop_front();
                self.answered(kind, frame)
            }
            (Kind::Reply | Kind::Error, _) => self.expected.pop_front()?.report(frame),
        }
    }
}

impl Expected {
    /// Tells the test of the reply to a command that was delivered late; gives the fault meant for it.
    fn report(self, frame: &[u8]) -> Option<Strike> {
        if let Some(late) = self.late {
            // The test may have given up waiting.
            let _ = late.send(frame.to_vec());
        }
        self.strike
    }
}

/// Gathers what the client sends until the test has it delivered; `open` turns false when the client closes the connection. Returns
/// false if it is never to be delivered.
async fn gather(
    mut go: oneshot::Receiver<()>,
    from: &mut ReadHalf<'_>,
    buffer: &mut Vec<u8>,
    open: &mut bool,
) -> bool {
    loop {
        tokio::select! {
            biased;
            go = &mut go => return go.is_ok(),
            read = from.read_buf(buffer), if *open => {
                *open = matches!(read, Ok(bytes) if bytes > 0);
            }
        }
    }
}

/// The next close of this socket sends a reset.
fn abort(socket: &TcpStream) {
    // Fails only on a socket that is already dead.
    let _ = socket.set_zero_linger();
}
