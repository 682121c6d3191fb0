//! Asking the store for several locks in one step.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::acquiring::Ask;
use super::detach::Adoptable;
use super::hold::{Hold, Tenure};
use super::lane::{AttemptReply, Effect, LaneEvent, Tried, Way};
use super::lanes::LaneRef;
use super::multi::Part;
use super::releasing::{disown, take_back};
use super::shell::{Lent, Runs, carry_out};
use super::steps::{Sending, Sends, Sent, acquired, until_answered};
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, Result};
use crate::locks::config;
use crate::observe::Event;
use crate::runtime::join::join_all;
use crate::store::{AttemptAll, Claim, Grant};

/// How an attempt for several ended.
pub(super) enum OneStep {
    Won(Vec<Hold>),
    /// Which one was in the way.
    Busy(usize),
    /// They must be asked for one by one.
    OneByOne,
}

/// Asks the store for several locks of one engine in one step. As one attempt does, it asks again after a failure, for as
/// long as a command may take.
pub(super) async fn attempt_in_one_step(parts: Vec<Part>, adoptable: Adoptable) -> Result<OneStep> {
    let Some((engine, ..)) = parts.first() else { return Ok(OneStep::OneByOne) };
    let engine = engine.clone();
    let until = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut asked = Vec::with_capacity(parts.len());
    for (_, name, mut ask) in parts {
        let lane = engine.lanes.to_wait(&engine, &name, ask.what, ask.owner, ask.explicit);
        let want = ask.want(until);
        let mut left = lane.on(&engine, LaneEvent::AskTogether { want });
        let way = left.effects.take_way();
        carry_out(&engine, &lane, left, Runs::Here);
        let Some(Way::Attempt { step, leads }) = way else {
            // Single tries know what to wait for.
            unsent(&engine, asked);
            return Ok(OneStep::OneByOne);
        };
        if leads {
            lane.lend(Lent::Attempt, adoptable.clone());
        }
        if ask.explicit {
            ask.stay = engine.stay_of(&name, ask.what, ask.owner);
        }
        let sending = Sending::begin(&engine, &lane, step, Some(ask.want(until)));
        asked.push(Asked { sending, lane, ask });
    }
    let start = engine.env.now();
    let env = engine.env.clone();
    until_answered(&*env, AskingAll { engine, asked, start, until, doubt: false }).await
}

/// One of them.
struct Asked {
    sending: Sending,
    lane: LaneRef,
    ask: Ask,
}

impl Asked {
    fn claim(&self, engine: &Engine) -> Claim {
        self.ask.claim(engine, &self.lane.name)
    }

    /// Feeds the reply to the lane.
    fn answer(
        &mut self,
        engine: &Arc<Engine>,
        sent: Moment,
        reply: AttemptReply<Arc<Tenure>>,
    ) -> Option<Tried<Arc<Tenure>>> {
        let (step, want) = (self.sending.id(), self.ask.want(Moment::from_nanos(0)));
        let event = LaneEvent::Attempted { step, want, sent, reply, doubt: false, chance: 0 };
        let (mut left, _) = self.sending.answer(event);
        let tried = left.effects.take(|effect| matches!(effect, Effect::Tried(_)));
        carry_out(engine, &self.lane, left, Runs::Here);
        match tried {
            Some(Effect::Tried(tried)) => Some(tried),
            _ => None,
        }
    }
}

/// Nothing was sent.
fn unsent(engine: &Arc<Engine>, asked: Vec<Asked>) {
    for mut one in asked {
        let step = one.sending.id();
        let (left, _) = one.sending.answer(LaneEvent::Unsent(step));
        carry_out(engine, &one.lane, left, Runs::Here);
    }
}

struct AskingAll {
    engine: Arc<Engine>,
    asked: Vec<Asked>,
    start: Moment,
    until: Moment,
    /// An earlier send got no answer.
    doubt: bool,
}

impl AskingAll {
    fn observe(&self, event: Event) {
        for one in &self.asked {
            self.engine.observe(one.ask.kind, &one.lane.name, event);
        }
    }

    fn gave_up(&self) {
        let waited = self.engine.env.now().since(self.start);
        self.observe(Event::GaveUp { waited });
    }

    fn won(&mut self, claims: &[Claim], sent: Moment, grants: &[Grant]) -> Result<OneStep> {
        let engine = self.engine.clone();
        let mut holds = Vec::with_capacity(self.asked.len());
        let mut late: Option<(usize, Option<Error>)> = None;
        for (at, one) in self.asked.iter_mut().enumerate() {
            let grant = grants.get(at).copied().unwrap_or(Grant::new(Duration::ZERO));
            let reply = acquired(&engine, &one.lane, &one.ask, &claims[at], sent, grant);
            match one.answer(&engine, sent, reply) {
                Some(Tried::Won { hold, watched }) => holds.push(Hold::granted(hold, watched)),
                // A reply that took longer than the lease proves nothing any more: the store is told to forget it.
                other => {
                    disown(&engine, &one.lane.name, &one.ask);
                    let error = match other {
                        Some(Tried::Failed { error, .. }) => Some(error),
                        _ => None,
                    };
                    late.get_or_insert((at, error));
                }
            }
        }
        match late {
            Some((_, Some(error))) => return Err(error),
            Some((at, None)) => return Ok(OneStep::Busy(at)),
            None => {}
        }
        if engine.is_closed() {
            return Err(Engine::closed_error());
        }
        self.observe(Event::Acquired { waited: engine.env.now().since(self.start) });
        Ok(OneStep::Won(holds))
    }

    /// None was acquired; but if an earlier send got no answer the store may come to have them.
    fn none(&mut self, sent: Moment, reply: impl Fn() -> AttemptReply<Arc<Tenure>>) {
        let (engine, doubt) = (self.engine.clone(), self.doubt);
        for one in &mut self.asked {
            let _ = one.answer(&engine, sent, reply());
            if doubt {
                disown(&engine, &one.lane.name, &one.ask);
            }
        }
    }
}

impl Sends for AskingAll {
    type Answer = Result<OneStep>;

    async fn send(&mut self) -> Sent<Result<OneStep>> {
        let engine = self.engine.clone();
        if engine.is_closed() {
            let error = Engine::closed_error();
            self.none(engine.env.now(), || AttemptReply::Failed(error.clone()));
            return Sent::Done(Err(error));
        }
        self.observe(Event::Attempted);
        let sent = engine.env.now();
        let claims: Vec<Claim> = self.asked.iter().map(|one| one.claim(&engine)).collect();
        match engine.store.acquire_all(&claims).await {
            Ok(AttemptAll::Acquired(grants)) => Sent::Done(self.won(&claims, sent, &grants)),
            Ok(AttemptAll::Busy { at, ttl }) => {
                self.none(sent, || AttemptReply::Busy { ttl });
                self.gave_up();
                Sent::Done(Ok(OneStep::Busy(at)))
            }
            Ok(AttemptAll::NotAtomic) => {
                unsent(&engine, std::mem::take(&mut self.asked));
                Sent::Done(Ok(OneStep::OneByOne))
            }
            Err(e) if e.is_not_durable() => {
                self.observe(Event::NotDurable);
                let back = self.asked.iter().map(|one| -> BoxFuture<'_, ()> {
                    Box::pin(take_back(&engine, &one.lane.name, &one.ask))
                });
                join_all(back.collect()).await;
                self.doubt = false;
                self.none(sent, || AttemptReply::Failed(e.clone()));
                self.gave_up();
                Sent::Done(Err(e))
            }
            Err(e) => {
                self.doubt |= e.is_in_doubt();
                if e.is_retryable() && engine.env.now() < self.until {
                    return Sent::Again(self.until);
                }
                self.none(sent, || AttemptReply::Failed(e.clone()));
                match e.is_retryable() {
                    true => {
                        self.gave_up();
                        Sent::Done(Err(e))
                    }
                    // A single try says whose fault it is.
                    false => Sent::Done(Ok(OneStep::OneByOne)),
                }
            }
        }
    }
}
