//! The network: connections that keep their order, and everything that can happen to what they carry.
//!
//! All of a run's state is here, behind one mutex: the run has one thread. Events are kept in a queue by time; one task applies them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use distlock::store::Topic;
use distlock::{Owner, Result};
use fastrand::Rng;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::check::{Begun, Checker};
use super::plan::{Millis, Mode, Plan};
use super::process::Gate;
use super::server::{Answer, Published, Request, Server};
use super::trace::Trace;

/// The connections of a process: of its tasks, of the library's own, of the watchdog, and the one for subscriptions.
pub(super) const LANES: usize = 4;
pub(super) const SUBSCRIPTIONS: usize = 3;

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
pub(super) struct World {
    pub(super) plan: Arc<Plan>,
    origin: Instant,
    changed: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) server: Server,
    pub(super) trace: Trace,
    pub(super) checker: Checker,
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
pub(super) struct After {
    topics: Vec<Arc<Topic>>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    acknowledged: Vec<oneshot::Sender<()>>,
    dropped: Vec<BTreeMap<u64, oneshot::Sender<Answer>>>,
}

impl After {
    pub(super) fn run(self) {
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
pub(super) enum Unsent {
    /// The process is dead: nothing comes back, ever.
    Dead,
    /// No connection can be made, which is known after so long.
    Unreachable(Millis),
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) connection: usize,
    pub(super) message: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
}

macro_rules! log {
    ($state:expr, $now:expr, $($text:tt)*) => {
        $state.trace.line($now, format_args!($($text)*))
    };
}
pub(super) use log;

impl World {
    pub(super) fn new(plan: Arc<Plan>, gates: &[Arc<Gate>]) -> World {
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

    pub(super) fn now(&self) -> Millis {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn instant(&self, at: Millis) -> Instant {
        self.origin + Duration::from_millis(at)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the client waits for a reply: as the library's Redis store has it.
    pub(super) fn reply_timeout(&self) -> Duration {
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

    pub(super) fn send(
        &self,
        process: usize,
        lane: usize,
        request: Request,
    ) -> Result<Sent, Unsent> {
        let limit = u64::try_from(self.reply_timeout().as_millis()).unwrap_or(u64::MAX);
        self.with(|state, plan, now, after| {
            state.send(plan, process, lane, request, limit, now, after)
        })
    }

    /// The client does not wait for this connection any more.
    pub(super) fn give_up(&self, connection: usize) {
        self.with(|state, plan, now, after| state.give_up(plan, connection, now, after));
    }

    /// Takes a subscription in; the receiver is told when the server has acknowledged it.
    pub(super) fn subscribe(
        &self,
        process: usize,
        name: Arc<str>,
        waiter: Option<Owner>,
        topic: Arc<Topic>,
    ) -> (u64, oneshot::Receiver<()>) {
        let (tell, told) = oneshot::channel();
        let number = self.with(|state, plan, now, after| {
            let number = state.number();
            let subscription = Subscription { name, waiter, topic, acknowledged: Some(tell) };
            state.clients[process].subscriptions.insert(number, subscription);
            state.subscribe(plan, process, number, now, after);
            number
        });
        (number, told)
    }

    pub(super) fn unsubscribe(&self, process: usize, number: u64) {
        self.with(|state, plan, now, after| {
            let client = &mut state.clients[process];
            let removed = client.subscriptions.remove(&number);
            if removed.is_some() && client.lanes[SUBSCRIPTIONS].is_some() {
                let unlisten = Request::Unlisten(number);
                let _ = state.send(plan, process, SUBSCRIPTIONS, unlisten, 0, now, after);
            }
        });
    }

    pub(super) fn term(&self, process: usize) -> u64 {
        self.state().clients[process].term
    }

    pub(super) fn cut(&self, process: usize) {
        self.with(|state, _, now, after| {
            for connection in state.open_of(process) {
                let lag = state.rng.u64(..20);
                state.at(now + lag, Happening::HangUp(connection));
                state.reset(connection, now, after);
            }
        });
    }

    /// What is under way comes out at its end.
    pub(super) fn partition(&self, process: usize, until: Millis) {
        self.with(|state, _, _, _| {
            state.clients[process].partitioned_until = until;
            for connection in state.open_of(process) {
                let connection = &mut state.connections[connection];
                connection.up_free = connection.up_free.max(until);
                connection.down_free = connection.down_free.max(until);
            }
        });
    }

    /// The process is gone; its machine closes the connections, or is gone as well.
    pub(super) fn vanish(&self, process: usize) {
        self.with(|state, _, now, after| {
            let silent = if state.rng.bool() { state.rng.u64(..3_000) } else { 0 };
            for connection in state.open_of(process) {
                state.at(now + silent, Happening::HangUp(connection));
                let connection = &mut state.connections[connection];
                connection.client_open = false;
                after.dropped.push(std::mem::take(&mut connection.waiting));
            }
        });
    }

    pub(super) fn pause(&self, until: Millis) {
        self.with(|state, _, _, _| state.paused_until = until);
    }

    /// Every connection breaks, and none can be made for some time.
    pub(super) fn down(&self, until: Millis, change: impl FnOnce(&mut State, Millis)) {
        self.with(|state, _, now, _| {
            state.down_until = until;
            for number in 0..state.connections.len() {
                if state.connections[number].server_open {
                    state.hang_up(number);
                    let lag = state.rng.u64(1..30);
                    state.at(now + lag, Happening::Reset(number));
                }
            }
            change(state, now);
        });
    }

    /// A new primary.
    pub(super) fn new_term(&self) {
        self.state().term += 1;
    }

    /// No message is lost from now on, and none that is sent from now on is late.
    pub(super) fn calm(&self) {
        self.with(|state, _, now, after| {
            state.calm = true;
            let dead = |connection: &Connection| connection.up_dead || connection.down_dead;
            let numbers = 0..state.connections.len();
            let dead: Vec<usize> = numbers.filter(|&at| dead(&state.connections[at])).collect();
            dead.into_iter().for_each(|connection| state.reset(connection, now, after));
            log!(state, now, "calm");
        });
    }

    /// Applies everything at its time, for ever.
    pub(super) async fn run(&self) {
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

    fn delay(&mut self, plan: &Plan) -> Millis {
        match self.chance(plan.delays.long_chance) {
            true => self.rng.u64(plan.delays.long.clone()),
            false => self.rng.u64(plan.delays.usual.clone()),
        }
    }

    fn open_of(&self, process: usize) -> Vec<usize> {
        self.clients[process].lanes.iter().flatten().copied().collect()
    }

    fn is_dead(&self, process: usize) -> bool {
        self.clients[process].gate.is_dead()
    }

    #[allow(clippy::too_many_arguments)]
    fn send(
        &mut self,
        plan: &Plan,
        process: usize,
        lane: usize,
        request: Request,
        limit: Millis,
        now: Millis,
        after: &mut After,
    ) -> Result<Sent, Unsent> {
        if self.is_dead(process) {
            return Err(Unsent::Dead);
        }
        let client = &self.clients[process];
        let connection = match client.lanes[lane] {
            Some(connection) => connection,
            None if client.partitioned_until > now => return Err(Unsent::Unreachable(limit)),
            None if self.down_until > now => {
                return Err(Unsent::Unreachable(self.delay(plan).min(limit)));
            }
            None => self.connect(plan, process, lane, now),
        };
        let message = self.number();
        let kills = self.clients[process].kills.clone();
        let duplicate = self.chance(plan.delays.duplicate);
        let delay = self.delay(plan);
        let at = {
            let connection = &mut self.connections[connection];
            connection.up_free = connection.up_free.max(now + delay);
            connection.up_free
        };
        if self.chance(plan.delays.late) {
            // Packets were lost: the kernel sends them again, and all that follows waits for them.
            let lag = self.rng.u64(20..LATEST);
            self.connections[connection].up_free = at + lag;
        }
        let at = self.connections[connection].up_free;
        if self.chance(plan.delays.lost) {
            self.connections[connection].up_dead = true;
            self.ping(connection, now);
        }
        let (tell, answer) = oneshot::channel();
        let what = self.describe(process, &request);
        let fate = if self.connections[connection].up_dead { ", never arrives" } else { "" };
        let again = if duplicate { ", twice" } else { "" };
        log!(
            self,
            now,
            "p{process} sends {message} on c{connection}: {what} (arrives after {} ms{fate}{again})",
            at - now
        );
        self.connections[connection].waiting.insert(message, tell);
        if !self.connections[connection].up_dead {
            let carried = Message { connection, request, kills, duplicate };
            self.messages.insert(message, carried);
            self.at(at, Happening::Arrive(message));
        }
        if self.chance(plan.delays.cut) {
            let lag = self.rng.u64(..20);
            self.at(now + lag, Happening::HangUp(connection));
            let lag = self.rng.u64(1..20);
            self.at(now + lag, Happening::Reset(connection));
        }
        let _ = after;
        Ok(Sent { connection, message, answer })
    }

    fn connect(&mut self, plan: &Plan, process: usize, lane: usize, now: Millis) -> usize {
        let number = self.connections.len();
        let handshake = self.delay(plan) + self.delay(plan);
        self.connections.push(Connection {
            process,
            lane,
            client_open: true,
            server_open: true,
            up_free: now + handshake,
            down_free: now + handshake,
            up_dead: false,
            down_dead: false,
            waiting: BTreeMap::new(),
        });
        self.clients[process].lanes[lane] = Some(number);
        log!(self, now, "p{process} connects c{number} for {lane}");
        number
    }

    fn give_up(&mut self, plan: &Plan, connection: usize, now: Millis, after: &mut After) {
        let Connection { client_open, process, .. } = self.connections[connection];
        if !client_open {
            return;
        }
        if plan.ends_connections {
            self.clients[process].kills.push(connection);
        }
        self.reset(connection, now, after);
    }

    /// The client's side of a connection ends.
    fn reset(&mut self, connection: usize, now: Millis, after: &mut After) {
        let gone = &mut self.connections[connection];
        if !std::mem::take(&mut gone.client_open) {
            return;
        }
        let (process, lane, up_dead) = (gone.process, gone.lane, gone.up_dead);
        after.dropped.push(std::mem::take(&mut gone.waiting));
        if gone.server_open {
            // The end comes after what was sent. A server that hears nothing any more finds out by itself.
            let end = gone.up_free.max(now + 1);
            let silence = if up_dead { self.rng.u64(..LATEST) } else { 0 };
            self.at(end + silence, Happening::HangUp(connection));
        }
        if self.clients[process].lanes[lane] == Some(connection) {
            self.clients[process].lanes[lane] = None;
        }
        log!(self, now, "p{process} has lost c{connection}");
        if lane == SUBSCRIPTIONS {
            self.resubscribe_later(process, now);
        }
    }

    /// A connection for subscriptions over which nothing comes any more is noticed by a ping.
    fn ping(&mut self, connection: usize, now: Millis) {
        if self.connections[connection].lane == SUBSCRIPTIONS {
            self.at(now + 1_000, Happening::Reset(connection));
        }
    }

    fn resubscribe_later(&mut self, process: usize, now: Millis) {
        if !std::mem::replace(&mut self.clients[process].resubscribing, true) {
            let pause = self.rng.u64(1..100);
            self.at(now + pause, Happening::Resubscribe(process));
        }
    }

    fn subscribe(
        &mut self,
        plan: &Plan,
        process: usize,
        number: u64,
        now: Millis,
        after: &mut After,
    ) {
        let Some(subscription) = self.clients[process].subscriptions.get(&number) else { return };
        let listen = Request::Listen(number, subscription.name.clone(), subscription.waiter);
        match self.send(plan, process, SUBSCRIPTIONS, listen, 0, now, after) {
            Ok(Sent { connection, message, .. }) => {
                // What answers it is looked up by the subscription's number; silence is noticed by a ping.
                self.connections[connection].waiting.remove(&message);
            }
            Err(_) => self.resubscribe_later(process, now),
        }
    }

    fn hang_up(&mut self, connection: usize) {
        self.connections[connection].server_open = false;
        self.server.hang_up(connection);
    }

    fn happen(&mut self, plan: &Plan, now: Millis, after: &mut After) {
        let Some(Reverse((_, number))) = self.queue.pop() else { return };
        let Some(happening) = self.happenings.remove(&number) else { return };
        match happening {
            Happening::Arrive(message) => self.arrive(plan, message, now, after),
            Happening::Answer { connection, message, answer } => {
                let to = &mut self.connections[connection];
                if to.client_open && !self.clients[to.process].gate.is_dead() {
                    self.clients[to.process].term = self.term;
                    if let Some(to) = to.waiting.remove(&message) {
                        log!(
                            self,
                            now,
                            "p{} has its answer to {message}",
                            self.connections[connection].process
                        );
                        after.answers.push((to, answer));
                    }
                }
            }
            Happening::Notify { connection, subscription } => {
                let to = &self.connections[connection];
                let (process, open) = (to.process, to.client_open);
                let client = &mut self.clients[process];
                if !open || client.gate.is_dead() {
                    return;
                }
                if client.gate.stalled_until() > now {
                    let until = client.gate.stalled_until();
                    return self.at(until, Happening::Notify { connection, subscription });
                }
                if let Some(subscription) = client.subscriptions.get_mut(&subscription) {
                    log!(self, now, "p{process} hears of {}", subscription.name);
                    after.acknowledged.extend(subscription.acknowledged.take());
                    after.topics.push(subscription.topic.clone());
                }
            }
            Happening::Reset(connection) => self.reset(connection, now, after),
            Happening::HangUp(connection) => {
                self.hang_up(connection);
                self.at(now + 1, Happening::Reset(connection));
            }
            Happening::Resubscribe(process) => {
                let client = &mut self.clients[process];
                client.resubscribing = false;
                if client.gate.is_dead() || client.lanes[SUBSCRIPTIONS].is_some() {
                    return;
                }
                let numbers: Vec<u64> = client.subscriptions.keys().copied().collect();
                for number in numbers {
                    self.subscribe(plan, process, number, now, after);
                }
            }
        }
    }

    fn arrive(&mut self, plan: &Plan, number: u64, now: Millis, after: &mut After) {
        let Some(message) = self.messages.get(&number) else { return };
        let connection = message.connection;
        if !self.connections[connection].server_open {
            self.messages.remove(&number);
            log!(self, now, "{number} comes over a connection that is gone");
            return;
        }
        if self.paused_until > now {
            let until = self.paused_until;
            return self.at(until, Happening::Arrive(number));
        }
        let Some(Message { request, kills, duplicate, .. }) = self.messages.remove(&number) else {
            return;
        };
        let process = self.connections[connection].process;
        for killed in kills {
            self.hang_up(killed);
            self.clients[process].kills.retain(|&listed| listed != killed);
        }
        let mut published = Published::default();
        let mut answer = self.server.apply(connection, &request, false, now, &mut published);
        if duplicate && is_idempotent(&request) {
            answer = self.server.apply(connection, &request, true, now, &mut published);
        }
        let what = self.describe(process, &request);
        let told = published.to.len();
        let brief = brief(&answer);
        log!(self, now, "server applies {number} of p{process}: {what} -> {brief}, tells {told}");
        for (subscription, connection) in published.to {
            self.push(plan, connection, Happening::Notify { connection, subscription }, now);
        }
        if self.chance(plan.delays.reply_lost) {
            self.connections[connection].down_dead = true;
            self.ping(connection, now);
        }
        let back = match (&request, answer) {
            (Request::Listen(subscription, ..), _) => {
                Happening::Notify { connection, subscription: *subscription }
            }
            (_, answer) => Happening::Answer { connection, message: number, answer },
        };
        self.push(plan, connection, back, now);
        let _ = after;
    }

    /// From the server to the client.
    fn push(&mut self, plan: &Plan, connection: usize, what: Happening, now: Millis) {
        let delay = self.delay(plan);
        let over = &mut self.connections[connection];
        if over.down_dead {
            return;
        }
        over.down_free = over.down_free.max(now + delay);
        let at = over.down_free;
        self.at(at, what);
    }

    fn describe(&mut self, process: usize, request: &Request) -> String {
        let mut claimed = |claim: &distlock::store::Claim| {
            let owner = self.trace.owner(process, claim.owner).to_owned();
            let heir = match claim.heir_of {
                Some(before) => format!(", heir of {}", self.trace.owner(process, before)),
                None => String::new(),
            };
            let (name, depth, lease) = (&claim.name, claim.depth, claim.lease);
            format!("{name} {:?} for {owner} at {depth}, {lease:?}{heir}", claim.what)
        };
        let mut all = |claims: &[_]| claims.iter().map(&mut claimed).collect::<Vec<_>>().join("; ");
        match request {
            Request::Acquire(claim) => format!("acquire {}", claimed(claim)),
            Request::AcquireAll(claims) => format!("acquire all [{}]", all(claims)),
            Request::Release(claim) => format!("release {}", claimed(claim)),
            Request::Renew(claims) => format!("renew [{}]", all(claims)),
            Request::GiveUp(claim) => format!("give up {}", claimed(claim)),
            Request::Listen(number, name, _) => format!("listen {number} to {name}"),
            Request::Unlisten(number) => format!("unlisten {number}"),
            Request::Inspect(name) => format!("inspect {name}"),
            Request::Force(what, name) => format!("force {name} {what:?}"),
            Request::List(prefix) => format!("list {prefix:?}"),
            Request::Admin(name, distlock::store::Admin::Latch(_)) => format!("latch {name}"),
            Request::Admin(name, op) => format!("admin {name} {op:?}"),
        }
    }

    /// Enters a hold into the ledger, as of now.
    pub(super) fn begin(&mut self, begun: Begun, now: Millis) -> u64 {
        let clients = &self.clients;
        let is_dead = |process: usize| clients[process].gate.is_dead();
        self.checker.begin(&self.server, begun, is_dead, now)
    }

    /// Logs the violations from this one on.
    pub(super) fn show_violations(&mut self, from: usize, now: Millis) {
        for violation in &self.checker.violations[from..] {
            log!(self, now, "VIOLATION: {violation}");
        }
    }

    /// How many subscriptions the clients have.
    pub(super) fn subscribed(&self) -> usize {
        let alive = self.clients.iter().filter(|client| !client.gate.is_dead());
        alive.map(|client| client.subscriptions.len()).sum()
    }
}

/// An answer without the ids of owners, which differ from run to run.
fn brief(answer: &Answer) -> String {
    match answer {
        Answer::Seen(Ok(seen)) => format!("{} holders, {:?} left", seen.holders.len(), seen.ttl),
        Answer::Listed(all) => format!("{} locks", all.len()),
        other => format!("{other:?}"),
    }
}

/// Whether the store's contract has a request mean the same when it arrives twice.
fn is_idempotent(request: &Request) -> bool {
    match request {
        Request::Admin(_, op) => op.is_idempotent(),
        Request::Force(..) => false,
        _ => true,
    }
}

impl Plan {
    /// Whether faults end.
    pub(super) fn is_liveness(&self) -> bool {
        self.mode == Mode::Liveness
    }
}
