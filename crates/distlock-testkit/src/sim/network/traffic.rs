//! What becomes of messages: sent, carried, applied, answered.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tokio::sync::oneshot;

use super::words::brief;
use super::{
    After, Connection, Happening, LATEST, Message, SUBSCRIPTIONS, Sent, State, Unsent, log,
};
use crate::sim::message::Request;
use crate::sim::plan::{Millis, Plan};
use crate::sim::server::Published;

impl State {
    fn delay(&mut self, plan: &Plan) -> Millis {
        match self.chance(plan.delays.long_chance) {
            true => self.rng.u64(plan.delays.long.clone()),
            false => self.rng.u64(plan.delays.usual.clone()),
        }
    }

    pub(super) fn open_of(&self, process: usize) -> Vec<usize> {
        self.clients[process].lanes.iter().flatten().copied().collect()
    }

    fn is_dead(&self, process: usize) -> bool {
        self.clients[process].gate.is_dead()
    }

    pub(super) fn send(
        &mut self,
        plan: &Plan,
        process: usize,
        lane: usize,
        request: Request,
        limit: Millis,
        now: Millis,
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

    pub(super) fn give_up(
        &mut self,
        plan: &Plan,
        connection: usize,
        now: Millis,
        after: &mut After,
    ) {
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
    pub(super) fn reset(&mut self, connection: usize, now: Millis, after: &mut After) {
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

    pub(super) fn subscribe(&mut self, plan: &Plan, process: usize, number: u64, now: Millis) {
        let Some(subscription) = self.clients[process].subscriptions.get(&number) else { return };
        let listen = Request::Listen(number, subscription.name.clone(), subscription.waiter);
        match self.send(plan, process, SUBSCRIPTIONS, listen, 0, now) {
            Ok(Sent { connection, message, .. }) => {
                // What answers it is looked up by the subscription's number; silence is noticed by a ping.
                self.connections[connection].waiting.remove(&message);
            }
            Err(_) => self.resubscribe_later(process, now),
        }
    }

    pub(super) fn hang_up(&mut self, connection: usize) {
        self.connections[connection].server_open = false;
        self.server.hang_up(connection);
    }

    pub(super) fn happen(&mut self, plan: &Plan, now: Millis, after: &mut After) {
        let Some(Reverse((_, number))) = self.queue.pop() else { return };
        let Some(happening) = self.happenings.remove(&number) else { return };
        match happening {
            Happening::Arrive(message) => self.arrive(plan, message, now),
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
                    self.subscribe(plan, process, number, now);
                }
            }
        }
    }

    fn arrive(&mut self, plan: &Plan, number: u64, now: Millis) {
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
}

/// Whether the store's contract has a request mean the same when it arrives twice.
fn is_idempotent(request: &Request) -> bool {
    match request {
        Request::Admin(_, op) => op.is_idempotent(),
        Request::Force(..) => false,
        _ => true,
    }
}
