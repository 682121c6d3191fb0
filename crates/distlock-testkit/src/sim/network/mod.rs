//! The network: connections that keep their order, and everything that can happen to what they carry.
//!
//! All of a run's state is here, behind one mutex: the run has one thread. Events are kept in a queue by time; one task applies them.

mod faults;
mod traffic;
mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock::store::Topic;
use distlock::{Owner, Result};
use fastrand::Rng;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::sim::check::{Begun, Checker};
use crate::sim::message::{Answer, Request};
use crate::sim::plan::{Millis, Plan};
use crate::sim::process::Gate;
use crate::sim::server::Server;
use crate::sim::trace::Trace;

/// The connections of a process: of its tasks, of the library's own, of the watchdog, and the one for subscriptions.
pub(in crate::sim) const LANES: usize = 4;
pub(in crate::sim) const SUBSCRIPTIONS: usize = 3;

/// The longest that an old request stays in the network.
const LATEST: Millis = 5_000;

/// What happens at a time.
#[derive(Debug)]
enum Happening {
    /// A request arrives at the server.
    Arrive(u64),
    /// An answer arrives at the client.
    Answer { connection: usize, message: u64, answer: Answer },
    /// A notification arrives at the client.
    Notify { connection: usize, subscription: u64 },
    /// The client learns that its connection is gone.
    Reset(usize),
    /// The server learns that the client is gone.
    HangUp(usize),
    /// The client subscribes again.
    Resubscribe(usize),
}

#[derive(Debug)]
struct Message {
    connection: usize,
    request: Request,
    /// Connections that the server ends first.
    kills: Vec<usize>,
    duplicate: bool,
}

#[derive(Debug)]
struct Connection {
    process: usize,
    lane: usize,
    client_open: bool,
    server_open: bool,
    /// Before this time nothing else arrives: order is kept.
    up_free: Millis,
    down_free: Millis,
    /// Nothing arrives any more.
    up_dead: bool,
    down_dead: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
}

/// A process as the network knows it.
#[derive(Debug)]
struct Client {
    gate: Arc<Gate>,
    lanes: [Option<usize>; LANES],
    /// Connections that were given up and that the server must end.
    kills: Vec<usize>,
    partitioned_until: Millis,
    subscriptions: BTreeMap<u64, Subscription>,
    resubscribing: bool,
    /// The term that this client knows.
    term: u64,
}

#[derive(Debug)]
struct Subscription {
    name: Arc<str>,
    waiter: Option<Owner>,
    topic: Arc<Topic>,
    acknowledged: Option<oneshot::Sender<()>>,
}

/// Everything of a run.
#[derive(Debug)]
pub(in crate::sim) struct World {
    pub(in crate::sim) plan: Arc<Plan>,
    origin: Instant,
    changed: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(in crate::sim) struct State {
    pub(in crate::sim) server: Server,
    pub(in crate::sim) trace: Trace,
    pub(in crate::sim) checker: Checker,
    rng: Rng,
    connections: Vec<Connection>,
    clients: Vec<Client>,
    messages: BTreeMap<u64, Message>,
    queue: BinaryHeap<Reverse<(Millis, u64)>>,
    happenings: BTreeMap<u64, Happening>,
    numbers: u64,
    down_until: Millis,
    paused_until: Millis,
    term: u64,
    calm: bool,
}

/// What is to be done when the state is not locked any more: it wakes tasks, which may come back.
#[derive(Debug, Default)]
pub(in crate::sim) struct After {
    topics: Vec<Arc<Topic>>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    acknowledged: Vec<oneshot::Sender<()>>,
    dropped: Vec<BTreeMap<u64, oneshot::Sender<Answer>>>,
}

impl After {
    pub(in crate::sim) fn run(self) {
        for (to, answer) in self.answers {
            let _ = to.send(answer); // the caller may be gone
        }
        for to in self.acknowledged {
            let _ = to.send(());
        }
        self.topics.iter().for_each(|topic| topic.wake());
        drop(self.dropped);
    }
}

/// Why a request was not sent.
#[derive(Debug)]
pub(in crate::sim) enum Unsent {
    /// The process is dead: nothing comes back, ever.
    Dead,
    /// No connection can be made, which is known after so long.
    Unreachable(Millis),
}

/// A request that was sent.
#[derive(Debug)]
pub(in crate::sim) struct Sent {
    pub(in crate::sim) connection: usize,
    pub(in crate::sim) message: u64,
    pub(in crate::sim) answer: oneshot::Receiver<Answer>,
}

macro_rules! log {
    ($state:expr, $now:expr, $($text:tt)*) => {
        $state.trace.line($now, format_args!($($text)*))
    };
}
pub(in crate::sim) use log;

impl World {
    pub(in crate::sim) fn new(plan: Arc<Plan>, gates: &[Arc<Gate>]) -> World {
        let client = |gate: &Arc<Gate>| Client {
            gate: gate.clone(),
            lanes: [None; LANES],
            kills: Vec::new(),
            partitioned_until: 0,
            subscriptions: BTreeMap::new(),
            resubscribing: false,
            term: 0,
        };
        let state = State {
            server: Server::new(&plan),
            trace: Trace::default(),
            checker: Checker::default(),
            rng: Rng::with_seed(plan.seed ^ 0x00ff_00ff),
            connections: Vec::new(),
            clients: gates.iter().map(client).collect(),
            messages: BTreeMap::new(),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            numbers: 0,
            down_until: 0,
            paused_until: 0,
            term: 0,
            calm: false,
        };
        let (origin, changed) = (Instant::now(), Notify::new());
        World { plan, origin, changed, state: Mutex::new(state) }
    }

    pub(in crate::sim) fn now(&self) -> Millis {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(in crate::sim) fn instant(&self, at: Millis) -> Instant {
        self.origin + Duration::from_millis(at)
    }

    pub(in crate::sim) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the client waits for a reply: as the library's Redis store has it.
    pub(in crate::sim) fn reply_timeout(&self) -> Duration {
        Duration::from_millis((self.plan.watchdog / 3).clamp(50, 1_000))
    }

    /// Changes the state and then does what follows from it.
    fn with<T>(&self, change: impl FnOnce(&mut State, &Plan, Millis, &mut After) -> T) -> T {
        let mut after = After::default();
        let now = self.now();
        let done = change(&mut self.state(), &self.plan, now, &mut after);
        self.changed.notify_one();
        after.run();
        done
    }

    pub(in crate::sim) fn send(
        &self,
        process: usize,
        lane: usize,
        request: Request,
    ) -> Result<Sent, Unsent> {
        let limit = u64::try_from(self.reply_timeout().as_millis()).unwrap_or(u64::MAX);
        self.with(|state, plan, now, _| state.send(plan, process, lane, request, limit, now))
    }

    /// The client does not wait for this connection any more.
    pub(in crate::sim) fn give_up(&self, connection: usize) {
        self.with(|state, plan, now, after| state.give_up(plan, connection, now, after));
    }

    /// Takes a subscription in; the receiver is told when the server has acknowledged it.
    pub(in crate::sim) fn subscribe(
        &self,
        process: usize,
        name: Arc<str>,
        waiter: Option<Owner>,
        topic: Arc<Topic>,
    ) -> (u64, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        let number = self.with(|state, plan, now, _| {
            let number = state.number();
            let subscription = Subscription { name, waiter, topic, acknowledged: Some(tell) };
            state.clients[process].subscriptions.insert(number, subscription);
            state.subscribe(plan, process, number, now);
            number
        });
        (number, told)
    }

    pub(in crate::sim) fn unsubscribe(&self, process: usize, number: u64) {
        self.with(|state, plan, now, _| {
            let client = &mut state.clients[process];
            let removed = client.subscriptions.remove(&number);
            if removed.is_some() && client.lanes[SUBSCRIPTIONS].is_some() {
                let unlisten = Request::Unlisten(number);
                let _ = state.send(plan, process, SUBSCRIPTIONS, unlisten, 0, now);
            }
        });
    }

    pub(in crate::sim) fn term(&self, process: usize) -> u64 {
        self.state().clients[process].term
    }

    /// Applies everything at its time, for ever.
    pub(in crate::sim) async fn run(&self) {
        loop {
            let next = self.state().queue.peek().map(|Reverse((at, _))| *at);
            match next {
                None => self.changed.notified().await,
                Some(at) if at <= self.now() => {
                    self.with(|state, plan, now, after| state.happen(plan, now, after));
                }
                Some(at) => {
                    let sleep = tokio::time::sleep_until(self.instant(at));
                    tokio::select! {
                        biased;
                        () = sleep => {}
                        () = self.changed.notified() => {}
                    }
                }
            }
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn at(&mut self, at: Millis, happening: Happening) {
        let number = self.number();
        self.queue.push(Reverse((at, number)));
        self.happenings.insert(number, happening);
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        !self.calm && thousandths > 0 && self.rng.u64(..1_000) < thousandths
    }

    /// Enters a hold into the ledger, as of now.
    pub(in crate::sim) fn begin(&mut self, begun: Begun, now: Millis) -> u64 {
        let clients = &self.clients;
        let is_dead = |process: usize| clients[process].gate.is_dead();
        self.checker.begin(&self.server, begun, is_dead, now)
    }

    /// Logs the violations from this one on.
    pub(in crate::sim) fn show_violations(&mut self, from: usize, now: Millis) {
        for violation in &self.checker.violations[from..] {
            log!(self, now, "VIOLATION: {violation}");
        }
    }

    /// How many subscriptions the clients have.
    pub(in crate::sim) fn subscribed(&self) -> usize {
        let alive = self.clients.iter().filter(|client| !client.gate.is_dead());
        alive.map(|client| client.subscriptions.len()).sum()
    }
}
