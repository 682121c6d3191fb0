//! A state of the model, and what may happen to it.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::super::digest::Digest;
use super::super::{
    AskFor, Effect, Effects, Heir, Lane, LaneEvent, Op, Parties, Rules, StepId, Ticket, Tried,
    Until, Want, Way,
};
use super::network::{Message, Payload};
use crate::engine::vitals::Life;
use crate::env::Moment;
use crate::error::{Error, ErrorKind};
use crate::locks::config;
use crate::owner::Owner;
use crate::store::ClaimKind;
use crate::store::machine::fair::FairEntry as Entry;

pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The parties of the model: small numbers.
#[derive(Debug)]
pub(in super::super) enum Numbers {}

impl Parties for Numbers {
    type Waiter = u8;
    type About = ();
    type Hold = u32;
    type Receipt = u8;

    fn about(_: &u8) {}

    fn heir(_: &u32, _: &u8, want: &Want, anew: bool, _: Life) -> Heir<u32> {
        let stay = if anew { mint() } else { want.stay };
        let owner = if want.explicit { want.owner } else { stay };
        Heir { hold: next_hold(), owner, stay }
    }
}

pub(in super::super) fn mint() -> Owner {
    Owner::mint(Uuid::nil())
}

pub(super) fn next_hold() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a caller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It has not called yet, or must ask the lane again.
    Idle,
    Settling(Until),
    Attempting,
    /// It goes one level deeper into this.
    Reentering(u32),
    Queued(Ticket),
    Holding(u32),
    /// It has dropped its future while an attempt was under way: what that wins is released at once.
    Gone,
    /// It waits for the result of its release.
    Unlocking,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) process: usize,
    pub(super) stage: Stage,
    pub(super) want: Want,
    /// How often it locks, one after the other.
    pub(super) rounds: u8,
    /// A level inside the first one.
    pub(super) inner: bool,
    /// The wait ended with an error of an outage although the store had answered since.
    pub(super) misled: bool,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) lane: Lane<Numbers>,
    pub(super) is_alive: bool,
    /// It has a subscription at the store.
    pub(super) listens: bool,
    /// Messages of releases that it has not looked at.
    pub(super) heard: u32,
    /// The last step was answered by the store.
    pub(super) store_answers: bool,
}

impl Clone for Process {
    fn clone(&self) -> Process {
        Process { lane: self.lane.copy(), ..*self }
    }
}

/// How much of what may go wrong does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Requests or replies lost, and requests delivered late.
    pub(super) network: u8,
    pub(super) late: u8,
    pub(super) refused: u8,
    pub(super) abandoned: u8,
    pub(super) cancelled: u8,
    pub(super) crashes: u8,
    pub(super) forced: u8,
    pub(super) failovers: u8,
    pub(super) extensions: u8,
    pub(super) renewals: u8,
    /// Times that timers fire, and that something reaches its end.
    pub(super) timers: u8,
    pub(super) ends: u8,
}

/// Bugs outside the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planted {
    /// The store releases the lock without a look at the owner that holds it.
    ReleasesAnybody,
    /// A renewal sets the time to live also if there was more.
    RenewalShortens,
    /// The deadline counts from the reply.
    DeadlineFromReply,
    /// A caller asks again under the id of its last stay.
    SameStayAgain,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Moment,
    pub(super) processes: Vec<Process>,
    pub(super) callers: Vec<Caller>,
    pub(super) messages: Vec<Message>,
    pub(super) entry: Option<Entry>,
    /// What the store had before its last change: what a replica may have.
    pub(super) before: Option<Entry>,
    pub(super) budget: Budget,
    pub(super) faults: u32,
    /// The store may come to hold it for no caller: what was sent may be applied after it was given up, or its process is gone.
    pub(super) orphans: bool,
    /// Holds that the store has lost: their holders learn of it at the next step about them.
    pub(super) excused: Vec<u32>,
    pub(super) planted: Option<Planted>,
}

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A caller goes on: it asks, or looks again.
    Call(usize),
    Unlock(usize),
    Drop(usize),
    Cancel(usize),
    /// The wait of a caller is over.
    TimeOut(usize),
    Extend(usize),
    /// The message with this number: at the store, with its reply, or not.
    Apply(usize),
    Reply(usize),
    LoseRequest(usize),
    LoseReply(usize),
    /// The client gives it up; the store gets it later.
    DeliverLate(usize),
    ApplyLate(usize),
    Refuse(usize),
    Abandon(usize),
    /// A process looks at the messages of releases.
    Hear(usize),
    Crash(usize),
    RenewDue(usize),
    Force,
    Failover,
    /// Time goes on: to the next timer, or to the next end of a lease.
    Timer,
    End,
}

impl World {
    pub(super) fn new(callers: &[(usize, Want, u8, bool)], budget: Budget) -> World {
        let rules = Arc::new(Rules {
            watchdog: LEASE,
            recheck: config::recheck(LEASE),
            passes_on: true,
            acks: false,
        });
        let processes = callers.iter().map(|caller| caller.0).max().unwrap_or(0) + 1;
        let process = |_| Process {
            lane: Lane::new(rules.clone(), false, true),
            is_alive: true,
            listens: false,
            heard: 0,
            store_answers: false,
        };
        let caller = |&(process, want, rounds, inner): &(usize, Want, u8, bool)| Caller {
            process,
            stage: Stage::Idle,
            want,
            rounds,
            inner,
            misled: false,
        };
        World {
            now: Moment::from_origin(Duration::from_secs(1000)),
            processes: (0..processes).map(process).collect(),
            callers: callers.iter().map(caller).collect(),
            messages: Vec::new(),
            entry: None,
            before: None,
            budget,
            faults: 0,
            orphans: false,
            excused: Vec::new(),
            planted: None,
        }
    }

    pub(super) fn digest(&self) -> u64 {
        let mut to = Digest::new(self.now);
        to.add((self.budget, self.faults > 0, self.orphans));
        for entry in [&self.entry, &self.before] {
            let held = entry.as_ref().and_then(|entry| entry.held.as_ref());
            to.add(held.is_some());
            if let Some(held) = held {
                to.owner(held.owner);
                to.add(held.depth);
                to.time(held.expires);
            }
        }
        for (at, process) in self.processes.iter().enumerate() {
            to.add((process.is_alive, process.listens, process.heard, process.store_answers));
            process.lane.digest(at, &mut to);
        }
        for caller in &self.callers {
            match caller.stage {
                Stage::Holding(hold) | Stage::Reentering(hold) => {
                    to.add(caller.stage == Stage::Holding(hold));
                    to.hold(hold);
                }
                Stage::Queued(_) => to.add(1_u8),
                Stage::Settling(until) => to.add(until as u8),
                stage => to.add(std::mem::discriminant(&stage)),
            }
            to.owner(caller.want.owner);
            to.owner(caller.want.stay);
            to.add((caller.rounds, caller.inner));
        }
        for hold in &self.excused {
            to.hold(*hold);
        }
        for message in &self.messages {
            message.digest(&mut to);
        }
        to.finish()
    }

    /// What may happen next.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut may = |is: bool, action: Action| {
            if is {
                actions.push(action);
            }
        };
        let budget = &self.budget;
        for (at, caller) in self.callers.iter().enumerate() {
            let process = &self.processes[caller.process];
            if !process.is_alive {
                continue;
            }
            match caller.stage {
                Stage::Idle => may(true, Action::Call(at)),
                Stage::Settling(until) => may(process.lane.is(until), Action::Call(at)),
                Stage::Holding(_) => {
                    may(caller.inner, Action::Call(at));
                    may(true, Action::Unlock(at));
                    may(true, Action::Drop(at));
                    may(budget.extensions > 0, Action::Extend(at));
                }
                Stage::Queued(_) => {
                    may(budget.cancelled > 0, Action::Cancel(at));
                    may(budget.cancelled > 0, Action::TimeOut(at));
                }
                Stage::Attempting => may(budget.cancelled > 0, Action::Cancel(at)),
                Stage::Reentering(_) | Stage::Gone | Stage::Unlocking | Stage::Done => {}
            }
        }
        for (at, message) in self.messages.iter().enumerate() {
            let faulty = message.is_told() || matches!(message.payload, Payload::Attempt { .. });
            match &message.reply {
                _ if message.is_late => may(true, Action::ApplyLate(at)),
                Some(_) => {
                    may(message.may_arrive(self.now), Action::Reply(at));
                    may(faulty && budget.network > 0, Action::LoseReply(at));
                }
                None => {
                    may(true, Action::Apply(at));
                    may(faulty && budget.network > 0, Action::LoseRequest(at));
                    may(faulty && budget.late > 0, Action::DeliverLate(at));
                    may(faulty && budget.refused > 0, Action::Refuse(at));
                    may(budget.abandoned > 0, Action::Abandon(at));
                }
            }
        }
        for (at, process) in self.processes.iter().enumerate() {
            let rests = process.lane.rests_until().is_some();
            may(process.is_alive && process.heard > 0 && rests, Action::Hear(at));
            may(
                process.is_alive && budget.crashes > 0 && !process.lane.is_over(),
                Action::Crash(at),
            );
            let watched = process.lane.hold().is_some();
            may(process.is_alive && watched && budget.renewals > 0, Action::RenewDue(at));
        }
        let held = self.entry.is_some();
        may(held && budget.forced > 0, Action::Force);
        may(budget.failovers > 0 && self.before != self.entry, Action::Failover);
        may(budget.timers > 0 && self.next_timer().is_some(), Action::Timer);
        may(budget.ends > 0 && self.next_end().is_some(), Action::End);
        actions
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        let alive = self.processes.iter().filter(|process| process.is_alive);
        let rests = alive.filter_map(|process| process.lane.rests_until());
        let pauses = self.messages.iter().filter_map(Message::pause);
        rests.chain(pauses).filter(|at| *at != Moment::NEVER && *at >= self.now).min()
    }

    pub(super) fn next_end(&self) -> Option<Moment> {
        let deadlines = self.processes.iter().filter_map(|process| process.lane.deadline());
        let held = self.entry.as_ref().and_then(|entry| entry.held.as_ref());
        let expires = held.map(|held| held.expires);
        deadlines.chain(expires).filter(|at| *at > self.now).min()
    }

    /// Lets it happen. Returns what is wrong with it, if anything is.
    pub(super) fn take(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Call(at) => self.call(at),
            Action::Unlock(at) => self.let_go(at, true),
            Action::Drop(at) => self.let_go(at, false),
            Action::Cancel(at) => {
                self.budget.cancelled -= 1;
                self.cancel(at)
            }
            Action::TimeOut(at) => {
                self.budget.cancelled -= 1;
                self.time_out(at)
            }
            Action::Extend(at) => {
                self.budget.extensions -= 1;
                self.extend(at)
            }
            Action::Apply(at) => self.apply(at),
            Action::Reply(at) => self.reply(at),
            Action::LoseRequest(at) | Action::LoseReply(at) => {
                self.budget.network -= 1;
                self.fail(at, ErrorKind::Indeterminate)
            }
            Action::DeliverLate(at) => {
                self.budget.late -= 1;
                self.orphans = true;
                let mut late = self.messages[at].clone();
                late.is_late = true;
                self.messages.push(late);
                self.fail(at, ErrorKind::Indeterminate)
            }
            Action::ApplyLate(at) => {
                let late = self.messages.remove(at);
                self.apply_to_store(&late);
                Ok(())
            }
            Action::Refuse(at) => {
                self.budget.refused -= 1;
                self.fail(at, ErrorKind::Unavailable)
            }
            Action::Abandon(at) => {
                self.budget.abandoned -= 1;
                self.orphans = true;
                self.faults += 1;
                self.abandon(at)
            }
            Action::Hear(at) => {
                let heard = std::mem::take(&mut self.processes[at].heard);
                self.feed(at, LaneEvent::Heard(u64::from(heard)), None)
            }
            Action::Crash(at) => {
                self.budget.crashes -= 1;
                self.orphans = true;
                self.faults += 1;
                self.crash(at);
                Ok(())
            }
            Action::RenewDue(at) => {
                self.budget.renewals -= 1;
                let Some(hold) = self.processes[at].lane.hold().copied() else { return Ok(()) };
                self.feed(at, LaneEvent::RenewDue(hold), None)
            }
            Action::Force => {
                self.budget.forced -= 1;
                self.faults += 1;
                self.lose_data(None);
                Ok(())
            }
            Action::Failover => {
                self.budget.failovers -= 1;
                self.orphans = true;
                self.faults += 1;
                let before = self.before.clone();
                self.lose_data(before);
                Ok(())
            }
            Action::Timer => {
                self.budget.timers -= 1;
                let Some(at) = self.next_timer() else { return Ok(()) };
                self.now = at;
                self.fire_timers()
            }
            Action::End => {
                self.budget.ends -= 1;
                let Some(at) = self.next_end() else { return Ok(()) };
                self.now = at;
                self.fire_timers()
            }
        }
    }

    pub(super) fn fire_timers(&mut self) -> Result<(), String> {
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            if !process.is_alive {
                continue;
            }
            if let Some(hold) = process.lane.hold().copied() {
                self.feed(at, LaneEvent::Expired(hold), None)?;
            }
            if self.processes[at].lane.rests_until().is_some_and(|until| until <= self.now) {
                self.feed(at, LaneEvent::Tick, None)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, at: usize) -> Result<(), String> {
        let caller = &mut self.callers[at];
        let process = caller.process;
        if let Stage::Holding(_) = caller.stage {
            caller.inner = false;
        }
        let want = caller.want;
        let mut out = Effects::default();
        let event = LaneEvent::Ask { want, releasing: false };
        self.processes[process].lane.on(event, self.now, &mut out);
        match out.take_way() {
            Some(Way::Attempt { step, .. }) => {
                self.mint_stay(at);
                let caller = &mut self.callers[at];
                caller.stage = Stage::Attempting;
                let payload = Payload::Attempt { want: caller.want, ticket: None };
                let message = self.message(process, step, payload, Some(at));
                self.messages.push(message);
            }
            Some(Way::Reenter { step, .. }) => {
                if let Stage::Holding(hold) = self.callers[at].stage {
                    self.callers[at].stage = Stage::Reentering(hold);
                }
                if let Some(op) = out.take_step(step) {
                    let payload = Payload::Told(op);
                    let message = self.message(process, step, payload, Some(at));
                    self.messages.push(message);
                }
            }
            Some(Way::Settle(until)) => self.callers[at].stage = Stage::Settling(until),
            Some(Way::Queue | Way::Lost) | None => self.join(at, false, false, &mut out),
        }
        self.carry_out(process, out, Some(at))
    }

    fn mint_stay(&mut self, at: usize) {
        let again = self.planted == Some(Planted::SameStayAgain);
        let caller = &mut self.callers[at];
        if !again {
            caller.want.stay = mint();
            if !caller.want.explicit {
                caller.want.owner = caller.want.stay;
            }
        }
    }

    fn join(&mut self, at: usize, tried: bool, doubt: bool, out: &mut Effects<Numbers>) {
        let caller = &self.callers[at];
        let (want, waiter) = (caller.want, at as u8);
        let event = LaneEvent::Join { want, waiter, joined: self.now, doubt, tried };
        self.processes[caller.process].lane.on(event, self.now, out);
        if let Some(Effect::Queued(ticket)) = out.take(|e| matches!(e, Effect::Queued(_))) {
            self.callers[at].stage = Stage::Queued(ticket);
        }
    }

    fn let_go(&mut self, at: usize, with_receipt: bool) -> Result<(), String> {
        let caller = &mut self.callers[at];
        let (process, watched) = (caller.process, caller.want.lease.is_none());
        let Stage::Holding(hold) = caller.stage else { return Ok(()) };
        caller.stage = if with_receipt { Stage::Unlocking } else { Stage::Done };
        if !with_receipt {
            self.next_round(at);
        }
        let receipt = with_receipt.then_some(at as u8);
        self.feed(process, LaneEvent::LetGo { hold, watched, receipt }, Some(at))
    }

    pub(super) fn next_round(&mut self, at: usize) {
        let caller = &mut self.callers[at];
        caller.rounds = caller.rounds.saturating_sub(1);
        caller.stage = if caller.rounds > 0 { Stage::Idle } else { Stage::Done };
    }

    fn cancel(&mut self, at: usize) -> Result<(), String> {
        let caller = &mut self.callers[at];
        match std::mem::replace(&mut caller.stage, Stage::Done) {
            Stage::Queued(ticket) => {
                let process = caller.process;
                self.feed(process, LaneEvent::Leave(ticket), Some(at))
            }
            Stage::Attempting => {
                caller.stage = Stage::Gone;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn time_out(&mut self, at: usize) -> Result<(), String> {
        let Stage::Queued(ticket) = self.callers[at].stage else { return Ok(()) };
        let process = self.callers[at].process;
        self.callers[at].stage = Stage::Done;
        let start = Moment::from_nanos(0);
        let misled = self.processes[process].lane.outage_since(start).is_some()
            && self.processes[process].store_answers;
        self.callers[at].misled = misled;
        self.feed(process, LaneEvent::Leave(ticket), Some(at))
    }

    fn extend(&mut self, at: usize) -> Result<(), String> {
        let caller = &self.callers[at];
        let (process, Stage::Holding(hold)) = (caller.process, caller.stage) else { return Ok(()) };
        let (lease, retry_until) = (LEASE * 4, self.now);
        let mut out = Effects::default();
        let event = LaneEvent::Extend { hold, lease, retry_until };
        self.processes[process].lane.on(event, self.now, &mut out);
        let _ = out.take_way();
        self.carry_out(process, out, None)
    }

    fn crash(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.is_alive = false;
        process.listens = false;
        // Requests on their way arrive or not.
        self.messages.retain_mut(|message| {
            let own = message.process == at && !message.is_late;
            if own && message.reply.is_none() && message.reaches_the_store() {
                message.is_late = true;
                return true;
            }
            !own
        });
        for caller in self.callers.iter_mut().filter(|caller| caller.process == at) {
            caller.stage = Stage::Done;
        }
    }

    /// The store has this now instead of what it had.
    fn lose_data(&mut self, entry: Option<Entry>) {
        self.entry = entry;
        let holds = self.processes.iter().filter_map(|process| process.lane.hold().copied());
        self.excused.extend(holds);
        // What is on its way may have been accepted by then.
        let pending = self.messages.iter().filter_map(Message::accepted_hold);
        self.excused.extend(pending);
        self.processes.iter_mut().for_each(|process| process.heard += u32::from(process.listens));
    }

    /// Feeds a lane an event, and carries out its effects.
    pub(super) fn feed(
        &mut self,
        process: usize,
        event: LaneEvent<Numbers>,
        caller: Option<usize>,
    ) -> Result<(), String> {
        let mut out = Effects::default();
        self.processes[process].lane.on(event, self.now, &mut out);
        self.carry_out(process, out, caller)
    }

    pub(super) fn carry_out(
        &mut self,
        process: usize,
        out: Effects<Numbers>,
        caller: Option<usize>,
    ) -> Result<(), String> {
        for effect in out {
            match effect {
                Effect::Step(step) => {
                    self.check_sent(process, &step.op)?;
                    let payload = match step.op {
                        Op::Acquire(ask) => self.ask_for(process, *ask),
                        op => Payload::Told(op),
                    };
                    self.send(process, step.id, payload, None)?;
                }
                Effect::Listen { step, .. } => {
                    self.send(process, step, Payload::Listen, None)?;
                }
                Effect::Unlisten => {
                    self.processes[process].listens = false;
                    self.processes[process].heard = 0;
                }
                Effect::Retry(step) => return Err(format!("a retry of {step} is not handled")),
                Effect::Grant { waiter, hold, .. } => {
                    self.callers[waiter as usize].stage = Stage::Holding(hold);
                }
                Effect::AskAgain(waiter) => self.callers[waiter as usize].stage = Stage::Idle,
                Effect::Refuse(waiter, _) => self.callers[waiter as usize].stage = Stage::Done,
                Effect::Receipts(answer) => {
                    for receipt in answer.to {
                        self.receive(receipt as usize)?;
                    }
                }
                Effect::Tried(tried) => self.tried(process, tried, caller)?,
                Effect::Lost(hold) => {
                    // Its holder stops believing in it before the store drops it.
                    self.orphans = true;
                    self.excused.retain(|excused| *excused != hold);
                }
                Effect::Changed => {
                    let own = |message: &&mut Message| message.process == process;
                    self.messages.iter_mut().filter(own).for_each(Message::end_pause);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        process: usize,
        step: StepId,
        payload: Payload,
        caller: Option<usize>,
    ) -> Result<(), String> {
        let twice =
            self.messages.iter().any(|m| m.process == process && m.step == step && !m.is_late);
        if twice {
            return Err(format!("step {step} is sent twice"));
        }
        let message = self.message(process, step, payload, caller);
        self.messages.push(message);
        Ok(())
    }

    fn message(
        &self,
        process: usize,
        step: StepId,
        payload: Payload,
        caller: Option<usize>,
    ) -> Message {
        let stay = self.processes[process].lane.stay();
        Message::new(process, step, payload, caller, self.now, stay)
    }

    fn ask_for(&mut self, process: usize, ask: AskFor<Numbers>) -> Payload {
        let mut want = ask.want;
        if ask.anew && self.planted != Some(Planted::SameStayAgain) {
            want.stay = mint();
            if !want.explicit {
                want.owner = want.stay;
            }
            let (ticket, owner, stay) = (ask.ticket, want.owner, want.stay);
            let mut out = Effects::default();
            let event = LaneEvent::Renamed { ticket, owner, stay };
            self.processes[process].lane.on(event, self.now, &mut out);
        }
        Payload::Attempt { want, ticket: Some(ask.ticket) }
    }

    fn receive(&mut self, at: usize) -> Result<(), String> {
        if self.callers[at].stage != Stage::Unlocking {
            return Err(format!("caller {at} gets a second receipt"));
        }
        self.next_round(at);
        Ok(())
    }

    /// The attempt of a caller has ended.
    fn tried(
        &mut self,
        process: usize,
        tried: Tried<u32>,
        caller: Option<usize>,
    ) -> Result<(), String> {
        let Some(at) = caller else { return Err("an attempt of no caller has ended".into()) };
        let stage = self.callers[at].stage;
        let want = self.callers[at].want;
        if let Stage::Reentering(hold) = stage {
            // The inner guard is let go at once.
            self.callers[at].stage = Stage::Holding(hold);
            let watched = want.lease.is_none();
            return self.feed(process, LaneEvent::LetGo { hold, watched, receipt: None }, None);
        }
        match tried {
            Tried::Won { hold, watched } if stage == Stage::Gone => {
                self.callers[at].stage = Stage::Done;
                self.feed(process, LaneEvent::LetGo { hold, watched, receipt: None }, None)
            }
            Tried::Won { hold, .. } => {
                self.callers[at].stage = Stage::Holding(hold);
                Ok(())
            }
            Tried::Busy { doubt } | Tried::Failed { doubt, .. }
                if stage == Stage::Gone || want.once =>
            {
                self.callers[at].stage = Stage::Done;
                match doubt {
                    true => {
                        let (what, stay, lease) = (want.what, want.stay, LEASE);
                        let event = LaneEvent::Forget { what, stay, lease, receipt: None };
                        self.feed(process, event, None)
                    }
                    false => Ok(()),
                }
            }
            Tried::Busy { doubt } => self.wait(at, true, doubt),
            Tried::Failed { error, doubt } if error.is_passing() => self.wait(at, false, doubt),
            Tried::Failed { .. } => {
                self.callers[at].stage = Stage::Done;
                Ok(())
            }
        }
    }

    fn wait(&mut self, at: usize, tried: bool, doubt: bool) -> Result<(), String> {
        let mut out = Effects::default();
        self.join(at, tried, doubt, &mut out);
        self.carry_out(self.callers[at].process, out, Some(at))
    }

    pub(super) fn error(kind: ErrorKind) -> Error {
        Error::new(kind, "as the model wants it")
    }
}

pub(in super::super) fn want(lease: Option<Duration>, once: bool, named: Option<Owner>) -> Want {
    let owner = named.unwrap_or_else(mint);
    Want {
        what: ClaimKind::Exclusive,
        owner,
        stay: owner,
        explicit: named.is_some(),
        lease,
        once,
        retry_until: Moment::from_nanos(0),
        spin: None,
    }
}
