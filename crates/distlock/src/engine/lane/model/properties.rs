//! What must hold in every state.

use std::time::Duration;

use super::super::Op;
use super::world::{Action, Numbers, Stage, World};

/// How often the network is let deliver what it has, and time go on, until every caller must be done.
const ROUNDS: usize = 400;

impl World {
    /// What is wrong in this state, if anything is.
    pub(super) fn check(&self) -> Result<(), String> {
        let believes = self.callers.iter().filter(|caller| match caller.stage {
            Stage::Holding(hold) | Stage::Reentering(hold) => {
                let process = &self.processes[caller.process];
                let in_time = process.lane.deadline().is_some_and(|deadline| self.now < deadline);
                let excused = self.excused.contains(&hold);
                process.is_alive && process.lane.is_held_by(&hold) && in_time && !excused
            }
            _ => false,
        });
        if believes.count() > 1 {
            return Err("two hold it within their deadlines".into());
        }
        if self.callers.iter().any(|caller| caller.misled) {
            return Err("a wait ends with the error of an outage that is over".into());
        }
        if !self.is_quiet() {
            return Ok(());
        }
        for (at, process) in self.processes.iter().enumerate().filter(|one| one.1.is_alive) {
            let has = |hold: u32| {
                let own = self.callers.iter().filter(|caller| caller.process == at);
                let stages = [Stage::Holding(hold), Stage::Reentering(hold)];
                own.into_iter().any(|caller| stages.contains(&caller.stage))
            };
            if process.lane.hold().is_some_and(|hold| !has(*hold)) {
                return Err("a hold that no caller has".into());
            }
        }
        let waits = |caller: &super::world::Caller| {
            let process = &self.processes[caller.process];
            // A reply that was long on its way may leave it a moment to rest.
            let soon = self.now.after(Duration::from_secs(1));
            let rests = process.lane.rests_until().is_none_or(|until| until > soon);
            let queued = matches!(caller.stage, Stage::Queued(_)) && rests;
            queued && process.is_alive && !process.lane.stands_back(self.now)
        };
        let is_free = self.entry.as_ref().is_none_or(|entry| entry.held.is_none());
        if self.faults == 0 && is_free && self.callers.iter().any(waits) {
            return Err("the lock is free, nothing is under way, and a caller waits".into());
        }
        Ok(())
    }

    /// Nothing is under way but pauses and waits.
    pub(super) fn is_quiet(&self) -> bool {
        let pauses = |message: &super::network::Message| !message.may_arrive(self.now);
        let heard = self.processes.iter().any(|process| process.is_alive && process.heard > 0);
        self.messages.iter().all(pauses) && !heard
    }

    /// The network heals, callers let go of what they get, and time goes on: every caller must come to its end, and nothing may be
    /// left behind.
    pub(super) fn settle(mut self) -> Result<(), String> {
        self.budget = Default::default();
        for _ in 0..ROUNDS {
            let next = self.actions().into_iter().find(|action| {
                !matches!(action, Action::Unlock(_) | Action::Extend(_))
                    || matches!(action, Action::Unlock(at) if !self.is_inner(*at))
            });
            if let Some(action) = next {
                self.take(action)?;
                self.check()?;
                continue;
            }
            let done = |stage: Stage| stage == Stage::Done;
            let alive = |process: usize| self.processes[process].is_alive;
            let all_done =
                self.callers.iter().all(|caller| done(caller.stage) || !alive(caller.process));
            let held = self.entry.as_ref().and_then(|entry| entry.held.as_ref());
            let is_free = held.is_none_or(|held| held.expires <= self.now);
            let lanes = self.processes.iter().filter(|process| process.is_alive);
            if all_done && is_free {
                return match lanes.clone().all(|process| process.lane.is_over()) {
                    true => Ok(()),
                    false => Err("every caller is done, and a lane is not".into()),
                };
            }
            let later = [self.next_timer(), self.next_end()].into_iter().flatten();
            let Some(at) = later.filter(|at| *at >= self.now).min() else {
                return Err("a caller waits for ever, or the lock is never free".into());
            };
            if held.is_some_and(|held| held.expires == at && self.is_orphan(held.owner)) {
                return Err("the store holds it for no caller until its lease ends".into());
            }
            self.now = at.max(self.now);
            self.fire_timers()?;
        }
        Err("a caller does not come to its end".into())
    }

    fn is_orphan(&self, owner: crate::owner::Owner) -> bool {
        let held = |process: &super::world::Process| process.lane.stay() == Some(owner);
        !self.orphans && !self.processes.iter().any(held)
    }

    fn is_inner(&self, at: usize) -> bool {
        self.callers[at].inner
    }

    /// Nothing is sent for a hold that is not held any more.
    pub(super) fn check_sent(&self, process: usize, op: &Op<Numbers>) -> Result<(), String> {
        let held = |hold: &u32| self.processes[process].lane.is_held_by(hold);
        match op {
            Op::Renew { hold, .. } | Op::Shrink { hold, .. } | Op::Reenter { hold, .. }
                if !held(hold) =>
            {
                Err(format!("{op:?} is sent for a hold that is over"))
            }
            _ => Ok(()),
        }
    }
}
