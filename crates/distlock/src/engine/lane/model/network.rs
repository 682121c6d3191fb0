//! Messages between processes and the store.

use std::mem::discriminant;
use std::time::Duration;

use super::super::digest::Digest;
use super::super::{AttemptReply, Effect, Effects, LaneEvent, Op, StepId, StepReply, Ticket, Want};
use super::world::{LEASE, Numbers, Planted, World, next_hold};
use crate::engine::vitals::Life;
use crate::env::Moment;
use crate::error::ErrorKind;
use crate::owner::Owner;
use crate::store::machine::fair::FairEntry as Entry;
use crate::store::machine::{Machine, MachineContext, Wake};
use crate::store::{Attempt, Claim, ClaimKind, Released};

/// A step on its way.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) process: usize,
    pub(super) step: StepId,
    pub(super) payload: Payload,
    /// The caller that sends it itself.
    pub(super) caller: Option<usize>,
    pub(super) sent: Moment,
    /// What the store replied, or the client made of the silence.
    pub(super) reply: Option<Answer>,
    /// The client has given it up.
    pub(super) is_late: bool,
    /// For a pause: it may end.
    is_over: bool,
    /// The lease that was asked for.
    lease: Duration,
    /// The stay of the hold that it is about.
    stay: Option<Owner>,
}

#[derive(Debug)]
pub(super) enum Payload {
    Attempt { want: Want, ticket: Option<Ticket> },
    Told(Op<Numbers>),
    Listen,
}

impl Clone for Payload {
    fn clone(&self) -> Payload {
        match self {
            Payload::Attempt { want, ticket } => Payload::Attempt { want: *want, ticket: *ticket },
            Payload::Told(op) => Payload::Told(op.clone()),
            Payload::Listen => Payload::Listen,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    /// With the number that the hold will have.
    Acquired(u32),
    Busy,
    Freed(u32),
    StillHeld,
    NotHeld,
    Held,
    Gone,
    Done,
    Failed(bool),
}

/// A mutex asks for nothing of this.
struct Nothing;

impl MachineContext for Nothing {
    fn listens(&self, _: Owner) -> bool {
        false
    }

    fn token(&self) -> u64 {
        0
    }
}

impl Message {
    pub(super) fn new(
        process: usize,
        step: StepId,
        payload: Payload,
        caller: Option<usize>,
        sent: Moment,
        stay: Option<Owner>,
    ) -> Message {
        let lease = match &payload {
            Payload::Attempt { want, .. } => want.lease.unwrap_or(LEASE),
            Payload::Told(Op::Pass { lease, .. }) => *lease,
            Payload::Told(Op::Renew { least, .. }) => *least,
            _ => LEASE,
        };
        let (reply, is_late, is_over) = (None, false, false);
        Message { process, step, payload, caller, sent, reply, is_late, is_over, lease, stay }
    }

    pub(super) fn is_told(&self) -> bool {
        matches!(&self.payload, Payload::Told(op) if !matches!(op, Op::Pause { .. }))
    }

    pub(super) fn reaches_the_store(&self) -> bool {
        self.is_told() || matches!(self.payload, Payload::Attempt { .. })
    }

    pub(super) fn pause(&self) -> Option<Moment> {
        match self.payload {
            Payload::Told(Op::Pause { until }) => Some(until),
            _ => None,
        }
    }

    pub(super) fn end_pause(&mut self) {
        self.is_over = true;
    }

    pub(super) fn may_arrive(&self, now: Moment) -> bool {
        self.is_over || self.pause().is_none_or(|until| until <= now)
    }

    pub(super) fn accepted_hold(&self) -> Option<u32> {
        match self.reply {
            Some(Answer::Acquired(hold)) => Some(hold),
            _ => None,
        }
    }

    pub(super) fn digest(&self, to: &mut Digest) {
        to.add((self.process, self.caller, self.is_late, self.is_over));
        to.step(self.process, self.step);
        match &self.payload {
            Payload::Attempt { want, ticket } => {
                to.add((0_u8, ticket.is_some()));
                to.owner(want.stay);
            }
            Payload::Listen => to.add(1_u8),
            Payload::Told(op) => {
                to.add((2_u8, discriminant(op)));
                match op {
                    Op::Release { stay, .. } | Op::Forget { stay, .. } => to.owner(*stay),
                    Op::Pass { from, stay, .. } => {
                        to.owner(*from);
                        to.owner(*stay);
                    }
                    Op::Shrink { hold, depth }
                    | Op::Reenter { hold, depth, .. }
                    | Op::Renew { hold, depth, .. } => {
                        to.hold(*hold);
                        to.add(depth);
                    }
                    Op::Pause { until } => to.time(*until),
                    Op::Acquire(_) => {}
                }
            }
        }
        match self.reply {
            Some(Answer::Acquired(_)) => to.add(99_u8),
            other => to.add(other),
        }
        to.add(self.lease);
        to.age(self.sent);
    }
}

impl World {
    pub(super) fn apply(&mut self, at: usize) -> Result<(), String> {
        let message = self.messages[at].clone();
        let answer = match &message.payload {
            Payload::Listen => {
                self.processes[message.process].listens = true;
                Answer::Done
            }
            Payload::Told(Op::Pause { .. }) => Answer::Done,
            _ => self.apply_to_store(&message),
        };
        self.messages[at].reply = Some(answer);
        Ok(())
    }

    fn claim_of(&self, message: &Message) -> Option<Claim> {
        let claim = |owner: Owner, depth: u32, lease: Duration, heir_of: Option<Owner>| Claim {
            name: "k".into(),
            owner,
            lease,
            depth,
            heir_of,
            kind: ClaimKind::Exclusive,
            info: None,
        };
        Some(match &message.payload {
            Payload::Attempt { want, .. } => claim(want.stay, 1, message.lease, None),
            Payload::Told(op) => match op {
                Op::Release { stay, .. } | Op::Forget { stay, .. } => {
                    claim(*stay, 0, Duration::ZERO, None)
                }
                Op::Pass { from, stay, .. } => claim(*stay, 1, message.lease, Some(*from)),
                Op::Shrink { depth, .. } => claim(message.stay?, *depth, Duration::ZERO, None),
                Op::Reenter { depth, .. } | Op::Renew { depth, .. } => {
                    claim(message.stay?, *depth, message.lease, None)
                }
                Op::Pause { .. } | Op::Acquire(_) => return None,
            },
            Payload::Listen => return None,
        })
    }

    pub(super) fn apply_to_store(&mut self, message: &Message) -> Answer {
        let Some(mut claim) = self.claim_of(message) else { return Answer::Failed(false) };
        let entry = self.entry.take().filter(|entry| entry.is_live(self.now));
        self.before = entry.clone();
        let is_release = matches!(
            message.payload,
            Payload::Told(Op::Release { .. } | Op::Shrink { .. } | Op::Forget { .. })
        );
        if is_release
            && self.planted == Some(Planted::ReleasesAnybody)
            && let Some(held) = entry.as_ref().and_then(|entry| entry.held.as_ref())
        {
            claim.owner = held.owner;
        }
        let (answer, wake);
        if is_release {
            let done = Entry::release(entry, &claim, self.now, &Nothing);
            (self.entry, wake) = (done.entry, done.wake);
            answer = match done.answer {
                Released::Freed { .. } => Answer::Freed(self.listeners()),
                Released::StillHeld => Answer::StillHeld,
                _ => Answer::NotHeld,
            };
        } else if matches!(message.payload, Payload::Told(Op::Renew { .. })) {
            let shortens = self.planted == Some(Planted::RenewalShortens);
            let done = Entry::renew(entry, &claim, self.now);
            (self.entry, wake) = (done.entry, done.wake);
            if shortens
                && done.answer.is_held()
                && let Some(held) = self.entry.as_mut().and_then(|entry| entry.held.as_mut())
            {
                held.expires = self.now.after(claim.lease);
            }
            answer = if done.answer.is_held() { Answer::Held } else { Answer::Gone };
        } else {
            let done = Entry::acquire(entry, &claim, self.now, &Nothing);
            (self.entry, wake) = (done.entry, done.wake);
            answer = match done.answer {
                Attempt::Acquired { .. } => Answer::Acquired(next_hold()),
                _ => Answer::Busy,
            };
        }
        if wake == Wake::All {
            let listening = self.processes.iter_mut().filter(|process| process.listens);
            listening.for_each(|process| process.heard += 1);
        }
        answer
    }

    fn listeners(&self) -> u32 {
        self.processes.iter().filter(|process| process.listens).count() as u32
    }

    /// No reply comes, or the connection fails.
    pub(super) fn fail(&mut self, at: usize, kind: ErrorKind) -> Result<(), String> {
        self.faults += 1;
        self.messages[at].reply = Some(Answer::Failed(kind == ErrorKind::Indeterminate));
        Ok(())
    }

    pub(super) fn abandon(&mut self, at: usize) -> Result<(), String> {
        let message = self.messages.remove(at);
        if message.reaches_the_store() {
            let late = Message { is_late: true, ..message.clone() };
            self.messages.push(late);
        }
        let want = match message.payload {
            Payload::Attempt { want, .. } => Some(want),
            _ => None,
        };
        if let Some(caller) = message.caller {
            self.callers[caller].stage = super::world::Stage::Done;
        }
        let event = LaneEvent::Abandoned { step: message.step, want };
        self.feed(message.process, event, None)
    }

    /// The answer reaches the process.
    pub(super) fn reply(&mut self, at: usize) -> Result<(), String> {
        let message = self.messages.remove(at);
        let process = message.process;
        let Some(answer) = message.reply else { return Ok(()) };
        self.processes[process].store_answers = !matches!(answer, Answer::Failed(_));
        let sent = match self.planted {
            Some(Planted::DeadlineFromReply) => self.now,
            _ => message.sent,
        };
        let event = match &message.payload {
            Payload::Listen => {
                LaneEvent::Listening { step: message.step, result: Ok(()), chance: 0 }
            }
            Payload::Attempt { want, .. } => {
                let reply = match answer {
                    Answer::Acquired(hold) => {
                        let late = self.now >= Life::fresh(sent, message.lease).deadline;
                        match late {
                            true => AttemptReply::TooLate(None),
                            false => {
                                AttemptReply::Acquired { hold, lease: message.lease, here: true }
                            }
                        }
                    }
                    Answer::Failed(doubt) => AttemptReply::Failed(failure(doubt)),
                    _ => AttemptReply::Busy { ttl: self.ttl() },
                };
                let (step, want) = (message.step, *want);
                LaneEvent::Attempted { step, want, sent, reply, doubt: false, chance: 0 }
            }
            Payload::Told(_) => {
                let lease = message.lease;
                let reply = match answer {
                    Answer::Acquired(_) => StepReply::Acquired { lease },
                    Answer::Busy => StepReply::Busy,
                    Answer::Freed(heard_by) => StepReply::Released(Released::Freed { heard_by }),
                    Answer::StillHeld => StepReply::Released(Released::StillHeld),
                    Answer::NotHeld => StepReply::Released(Released::NotHeld),
                    Answer::Held => StepReply::Held { lease },
                    Answer::Gone => StepReply::Gone,
                    Answer::Done => StepReply::Paused,
                    Answer::Failed(doubt) => StepReply::Failed(failure(doubt)),
                };
                let reply = match (&message.payload, reply) {
                    (Payload::Told(Op::Forget { .. }), StepReply::Released(_)) => {
                        StepReply::Forgotten
                    }
                    (_, reply) => reply,
                };
                LaneEvent::Told { step: message.step, sent, reply }
            }
        };
        let mut out = Effects::default();
        self.processes[process].lane.on(event, self.now, &mut out);
        let retry = out.take(|effect| matches!(effect, Effect::Retry(_)));
        if retry.is_some() {
            let again = Message { reply: None, sent: self.now, ..message.clone() };
            self.messages.push(again);
        }
        self.carry_out(process, out, message.caller)
    }

    fn ttl(&self) -> Duration {
        let held = self.entry.as_ref().and_then(|entry| entry.held.as_ref());
        held.map_or(Duration::ZERO, |held| held.expires.since(self.now))
    }
}

fn failure(doubt: bool) -> crate::error::Error {
    World::error(if doubt { ErrorKind::Indeterminate } else { ErrorKind::Unavailable })
}
