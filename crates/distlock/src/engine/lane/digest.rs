//! Lanes as the model compares them: ids by the order in which they appear, times as distances from now.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use super::holding::{Occupant, Op, StoreView, Telling, Under};
use super::waiting::{Asking, Waiting};
use super::{Lane, Parties, StepId};
use crate::env::Moment;
use crate::owner::Owner;

/// Two worlds with the same digest behave alike.
pub(super) struct Digest {
    hasher: DefaultHasher,
    now: Moment,
    owners: Vec<Owner>,
    steps: Vec<StepId>,
    holds: Vec<u32>,
}

impl Digest {
    pub(super) fn new(now: Moment) -> Digest {
        let (owners, steps, holds) = (Vec::new(), Vec::new(), Vec::new());
        Digest { hasher: DefaultHasher::new(), now, owners, steps, holds }
    }

    pub(super) fn finish(&self) -> u64 {
        self.hasher.finish()
    }

    pub(super) fn add(&mut self, value: impl Hash) {
        value.hash(&mut self.hasher);
    }

    pub(super) fn time(&mut self, at: Moment) {
        let left =
            if at == Moment::NEVER { u64::MAX } else { at.since(self.now).as_nanos() as u64 };
        self.add(left);
    }

    pub(super) fn age(&mut self, at: Moment) {
        self.add(self.now.since(at));
    }

    pub(super) fn owner(&mut self, owner: Owner) {
        let at = position(&mut self.owners, owner);
        self.add(at);
    }

    /// Of one process: `process` keeps those of several apart.
    pub(super) fn step(&mut self, process: usize, step: StepId) {
        let at = position(&mut self.steps, step * 8 + process as u32);
        self.add(at);
    }

    pub(super) fn hold(&mut self, hold: u32) {
        let at = position(&mut self.holds, hold);
        self.add(at);
    }
}

fn position<T: PartialEq>(known: &mut Vec<T>, one: T) -> usize {
    known.iter().position(|other| *other == one).unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    })
}

impl<P: Parties<Waiter = u8, Receipt = u8, Hold = u32>> Lane<P> {
    pub(super) fn copy(&self) -> Lane<P> {
        let telling = match &self.telling {
            Telling::Under(Under { step, op, retry_until, doubt, receipts }) => {
                Telling::Under(Under {
                    step: *step,
                    op: op.clone(),
                    retry_until: *retry_until,
                    doubt: *doubt,
                    receipts: receipts.clone(),
                })
            }
            _ => Telling::Idle,
        };
        Lane {
            rules: self.rules.clone(),
            holder: self.holder.clone(),
            telling,
            renewing: self.renewing.clone(),
            receipts: self.receipts.clone(),
            doubts: self.doubts.clone(),
            queue: self.queue.clone(),
            outage: self.outage.clone(),
            ..*self
        }
    }

    /// Until when the present hold is believed in.
    pub(super) fn deadline(&self) -> Option<Moment> {
        match &self.holder {
            Occupant::Held(held) => Some(held.life.deadline),
            _ => None,
        }
    }

    /// The present hold's id at the store.
    pub(super) fn stay(&self) -> Option<Owner> {
        match &self.holder {
            Occupant::Held(held) => Some(held.stay),
            _ => None,
        }
    }

    pub(super) fn stands_back(&self, now: Moment) -> bool {
        self.stand_back.is_some_and(|stand_back| stand_back.is_on(now))
    }

    pub(super) fn digest(&self, process: usize, to: &mut Digest) {
        to.add(discriminant(&self.holder));
        match &self.holder {
            Occupant::Vacant => {}
            Occupant::Held(held) => {
                to.hold(held.hold);
                to.owner(held.owner);
                to.owner(held.stay);
                to.add((held.depth, held.watched, held.leaked, held.suspect));
                to.time(held.life.deadline);
            }
            Occupant::LeftBehind { hold, stay, .. } => {
                to.hold(*hold);
                to.owner(*stay);
            }
        }
        if let StoreView::Has { stay, depth, until, .. } = self.view {
            to.owner(stay);
            to.add(depth);
            to.time(until);
        }
        to.add(discriminant(&self.telling));
        if let Telling::Under(under) = &self.telling {
            to.step(process, under.step);
            to.add((discriminant(&under.op), under.doubt));
            self.digest_op(&under.op, to);
            to.time(under.retry_until);
            under.receipts.clone().into_iter().for_each(|receipt| to.add(receipt));
        }
        to.add(self.renewing.is_some());
        if let Some(renewing) = &self.renewing {
            to.step(process, renewing.step);
            to.hold(renewing.hold);
            to.owner(renewing.stay);
            to.add(renewing.depth);
        }
        self.receipts.clone().into_iter().for_each(|receipt| to.add(receipt));
        to.add((self.renew_wanted, self.burst, self.burst_spent, self.heard_early, self.beside));
        to.age(self.burst_since.unwrap_or(to.now));
        to.time(self.next_pass.unwrap_or(to.now));
        for doubt in &self.doubts {
            to.step(process, doubt.step);
            to.owner(doubt.stay);
        }
        to.add(discriminant(&self.asking));
        match self.asking {
            Asking::Nobody => {}
            Asking::Caller(step) => to.step(process, step),
            Asking::Driver { step, ticket } => {
                to.step(process, step);
                to.add(self.place(ticket));
            }
        }
        for waiter in &self.queue {
            to.owner(waiter.want.owner);
            to.owner(waiter.want.stay);
            to.add((waiter.handle, waiter.doubt));
        }
        to.add(discriminant(&self.waiting));
        match self.waiting {
            Waiting::Off | Waiting::Looking => {}
            Waiting::Subscribing { step, then } => {
                to.step(process, step);
                to.add(discriminant(&then));
            }
            Waiting::Resting { until } => to.time(until),
        }
        self.driver.digest(to);
        to.add((self.stand_back.is_some(), self.outage.is_some(), self.answered.is_some()));
    }

    fn digest_op(&self, op: &Op<P>, to: &mut Digest) {
        match op {
            Op::Release { stay, .. } | Op::Forget { stay, .. } => to.owner(*stay),
            Op::Pass { from, stay, .. } => {
                to.owner(*from);
                to.owner(*stay);
            }
            Op::Shrink { hold, depth } | Op::Reenter { hold, depth, .. } => {
                to.hold(*hold);
                to.add(depth);
            }
            Op::Pause { until } => to.time(*until),
            Op::Acquire(_) | Op::Renew { .. } => {}
        }
    }
}
