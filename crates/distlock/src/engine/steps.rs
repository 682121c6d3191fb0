//! One step to a store, from its send to its answer; and the one retry loop of the engine.

use std::sync::Arc;
use std::time::Duration;

use super::acquiring::Ask;
use super::hold::{Begun, Tenure};
use super::lane::{
    AttemptReply, Effect, Effects, LaneEvent, Op, Step, StepId, StepReply, Tried, Want,
};
use super::lanes::LaneRef;
use super::releasing::take_back;
use super::shell::{self, Runs, Tasks, carry_out};
use super::vitals::Life;
use super::{Engine, watchdog};
use crate::Durability;
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config::{RETRY_FIRST, RETRY_LONGEST};
use crate::observe;
use crate::store::{Attempt, Claim, Grant, Released};

/// The pause after so many failures in a row. It doubles from [`RETRY_FIRST`] to [`RETRY_LONGEST`], and is shortened by up to a half at
/// random, so that processes that lost the same server do not come back in step.
pub(super) fn retry_pause(failures: u32, chance: u64) -> Duration {
    let full = RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_LONGEST);
    let half = full / 2;
    half + Duration::from_nanos(chance % (half.as_nanos() as u64).max(1))
}

/// How one send ended.
pub(super) enum Sent<T> {
    Done(T),
    /// Send it again, at the latest then.
    Again(Moment),
}

/// Something that is sent until it is answered.
pub(super) trait Sends {
    type Answer: Send;

    /// Sends it once.
    fn send(&mut self) -> impl Future<Output = Sent<Self::Answer>> + Send;
}

/// THE retry loop: sends until there is an answer, with growing pauses.
pub(super) async fn until_answered<S: Sends>(env: &dyn Env, mut step: S) -> S::Answer {
    let mut failures = 0;
    loop {
        match step.send().await {
            Sent::Done(answer) => return answer,
            Sent::Again(latest) => {
                let pause = env.now().after(retry_pause(failures, env.random()));
                failures += 1;
                env.sleep_in_background(pause.min(latest)).await;
            }
        }
    }
}

/// A step of a lane that is under way. Dropped before its answer, it says so to the lane: the step may have been applied.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) engine: Arc<Engine>,
    pub(super) lane: LaneRef,
    id: StepId,
    /// For an attempt.
    want: Option<Want>,
    is_answered: bool,
}

impl Sending {
    pub(super) fn begin(
        engine: &Arc<Engine>,
        lane: &LaneRef,
        id: StepId,
        want: Option<Want>,
    ) -> Sending {
        let (engine, lane) = (engine.clone(), lane.clone());
        Sending { engine, lane, id, want, is_answered: false }
    }

    pub(super) fn id(&self) -> StepId {
        self.id
    }

    /// The attempt is for this now.
    pub(super) fn wants(&mut self, want: Want) {
        self.want = Some(want);
    }

    /// The step, unless it was answered.
    pub(super) fn unanswered(&mut self) -> Option<(StepId, Option<Want>)> {
        (!std::mem::replace(&mut self.is_answered, true)).then_some((self.id, self.want))
    }

    /// Feeds the answer to the lane. `true` if the step must be sent again.
    pub(super) fn answer(&mut self, event: LaneEvent<Tasks>) -> (shell::LeftToDo, bool) {
        let mut left = self.lane.on(&self.engine, event);
        let again = left.effects.take(|e| matches!(e, Effect::Retry(id) if *id == self.id));
        self.is_answered = again.is_none();
        (left, again.is_some())
    }
}

/// A caller's attempt, sent until it is answered.
pub(super) struct CallersAttempt {
    pub(super) sending: Sending,
    pub(super) ask: Ask,
    /// Until when it is sent again.
    pub(super) retry_until: Moment,
    /// An earlier one got no answer.
    pub(super) doubt: bool,
}

impl Sends for CallersAttempt {
    type Answer = Tried<Arc<Tenure>>;

    async fn send(&mut self) -> Sent<Tried<Arc<Tenure>>> {
        let (engine, lane) = (self.sending.engine.clone(), self.sending.lane.clone());
        let want = self.ask.want(self.retry_until);
        let event =
            attempt(&engine, &lane, &self.ask, want, self.sending.id, &mut self.doubt).await;
        let (mut left, again) = self.sending.answer(event);
        let tried = take_tried(&mut left.effects);
        carry_out(&engine, &lane, left, Runs::Here);
        match tried {
            Some(tried) if !again => Sent::Done(tried),
            _ => Sent::Again(self.retry_until),
        }
    }
}

/// A caller's re-entry, sent until it is answered.
pub(super) struct CallersReentry {
    pub(super) sending: Sending,
    pub(super) op: Op<Tasks>,
    pub(super) ask: Ask,
    pub(super) retry_until: Moment,
}

impl Sends for CallersReentry {
    type Answer = Tried<Arc<Tenure>>;

    async fn send(&mut self) -> Sent<Tried<Arc<Tenure>>> {
        let (engine, lane) = (self.sending.engine.clone(), self.sending.lane.clone());
        engine.observe(self.ask.kind, &lane.name, observe::Event::Attempted);
        let event = tell_store(&engine, &lane, self.sending.id, &self.op).await;
        let (mut left, again) = self.sending.answer(event);
        let tried = take_tried(&mut left.effects);
        carry_out(&engine, &lane, left, Runs::Here);
        match tried {
            Some(tried) if !again => Sent::Done(tried),
            _ => Sent::Again(self.retry_until),
        }
    }
}

fn take_tried(effects: &mut Effects<Tasks>) -> Option<Tried<Arc<Tenure>>> {
    match effects.take(|effect| matches!(effect, Effect::Tried(_))) {
        Some(Effect::Tried(tried)) => Some(tried),
        _ => None,
    }
}

/// A caller's renewal, sent until it is answered.
pub(super) struct CallersRenewal {
    pub(super) sending: Sending,
    pub(super) op: Op<Tasks>,
    pub(super) retry_until: Moment,
}

impl Sends for CallersRenewal {
    type Answer = Result<bool>;

    async fn send(&mut self) -> Sent<Result<bool>> {
        let (engine, lane) = (self.sending.engine.clone(), self.sending.lane.clone());
        let event = tell_store(&engine, &lane, self.sending.id, &self.op).await;
        let (mut left, again) = self.sending.answer(event);
        let mut held = Ok(false);
        for effect in left.effects.iter_mut() {
            if let Some(Effect::Renewed { held: answer, .. }) = effect {
                held = answer.clone();
            }
        }
        carry_out(&engine, &lane, left, Runs::Here);
        if again { Sent::Again(self.retry_until) } else { Sent::Done(held) }
    }
}

/// A step that a lane tells the store, sent until it is answered.
struct ToldInTurn {
    sending: Sending,
    op: Op<Tasks>,
}

impl Sends for ToldInTurn {
    /// What the lane wants the store to be told next.
    type Answer = Option<Step<Tasks>>;

    async fn send(&mut self) -> Sent<Option<Step<Tasks>>> {
        let (engine, lane) = (self.sending.engine.clone(), self.sending.lane.clone());
        let event = tell_store(&engine, &lane, self.sending.id, &self.op).await;
        let (mut left, again) = self.sending.answer(event);
        let next = left.effects.take(is_told_in_turn);
        carry_out(&engine, &lane, left, Runs::Here);
        let Some(Effect::Step(next)) = next else {
            return if again { Sent::Again(Moment::NEVER) } else { Sent::Done(None) };
        };
        if again {
            // Another one follows while this one is not done.
            shell::start(&engine, tell(&engine, &lane, next), Runs::Here);
            return Sent::Again(Moment::NEVER);
        }
        Sent::Done(Some(next))
    }
}

/// Whether this is a step that follows the present one.
pub(super) fn is_told_in_turn(effect: &Effect<Tasks>) -> bool {
    matches!(effect, Effect::Step(step) if !matches!(step.op, Op::Acquire(_)))
}

/// Tells the store this, and then whatever it must be told in turn.
pub(super) fn tell(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    step: Step<Tasks>,
) -> impl Future<Output = ()> + Send + 'static {
    // Before it is polled at all: it may be dropped without that.
    let first = (Sending::begin(engine, lane, step.id, None), step.op);
    async move {
        let mut next = Some(first);
        while let Some((sending, op)) = next.take() {
            let (engine, lane) = (sending.engine.clone(), sending.lane.clone());
            let step = until_answered(&*engine.env, ToldInTurn { sending, op }).await;
            next = step.map(|step| (Sending::begin(&engine, &lane, step.id, None), step.op));
        }
    }
}

/// Sends a step other than an attempt, once.
async fn tell_store(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    step: StepId,
    op: &Op<Tasks>,
) -> LaneEvent<Tasks> {
    let store = &*engine.store;
    let mut sent = engine.env.now();
    let acquired = |answer: Result<Attempt>| match answer {
        Ok(Attempt::Acquired { lease, .. }) => StepReply::Acquired { lease },
        Ok(Attempt::Busy { .. }) => StepReply::Busy,
        Err(e) => StepReply::Failed(e),
    };
    let released =
        |answer: Result<Released>| answer.map_or_else(StepReply::Failed, StepReply::Released);
    let reply = match op {
        Op::Acquire(_) => return LaneEvent::Tick, // goes another way
        Op::Release { stay, permits, .. } => {
            let claim = last_claim(engine, lane, lane.what(*permits), *stay);
            released(store.release(&claim).await)
        }
        Op::Shrink { hold, depth } => {
            released(store.release(&hold.claim(Duration::ZERO, *depth)).await)
        }
        Op::Pass { from, heir, .. } => {
            let claim = Claim { heir_of: Some(*from), ..heir.claim(heir.lease, 1) };
            acquired(store.acquire(&claim).await)
        }
        Op::Reenter { hold, depth, want } => {
            // What this level asks for: it may be numbered although the outer one is not.
            let lease = hold.at_least(want.lease.unwrap_or(engine.tuning.watchdog));
            let claim = Claim { kind: want.what, ..hold.claim(lease, *depth) };
            let answer = store.acquire(&claim).await;
            if let Ok(Attempt::Acquired { token, .. }) = answer {
                hold.number(token);
            }
            acquired(answer)
        }
        Op::Renew { hold, depth, least } => {
            let claim = hold.claim(hold.at_least(*least), *depth);
            let asked = hold.is_asked();
            let answer = store.renew(std::slice::from_ref(&claim)).await.pop();
            watchdog::reply(hold, asked, answer)
        }
        Op::Forget { what, stay, .. } => {
            let claim = last_claim(engine, lane, *what, *stay);
            store.give_up(&claim).await.map_or_else(StepReply::Failed, |()| StepReply::Forgotten)
        }
        Op::Pause { until } => {
            tokio::select! {
                biased;
                () = lane.change() => {}
                () = engine.env.sleep_in_background(*until) => {}
            }
            sent = engine.env.now();
            StepReply::Paused
        }
    };
    LaneEvent::Told { step, sent, reply }
}

/// The claim that gives up everything this stay has.
pub(super) fn last_claim(
    engine: &Engine,
    lane: &LaneRef,
    what: crate::store::ClaimKind,
    stay: crate::owner::Owner,
) -> Claim {
    Claim {
        name: lane.name.clone(),
        owner: stay,
        lease: Duration::ZERO,
        depth: 0,
        heir_of: None,
        kind: what,
        info: engine.leaving.clone(),
    }
}

/// Asks the store for the lock, once. `doubt`: whether an attempt of the same step got no answer.
pub(super) async fn attempt(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    want: Want,
    step: StepId,
    doubt: &mut bool,
) -> LaneEvent<Tasks> {
    let claim = ask.claim(engine, &lane.name);
    engine.observe(ask.kind, &lane.name, observe::Event::Attempted);
    let sent = engine.env.now();
    let reply = match engine.store.acquire(&claim).await {
        Ok(Attempt::Acquired { token, lease }) => {
            acquired(engine, lane, ask, &claim, sent, Grant::new(lease).with_token(token))
        }
        Ok(Attempt::Busy { ttl }) => AttemptReply::Busy { ttl },
        Err(e) if e.is_not_durable() => {
            engine.observe(ask.kind, &lane.name, observe::Event::NotDurable);
            if e.is_in_doubt() {
                take_back(engine, &lane.name, ask).await;
            }
            AttemptReply::Failed(e)
        }
        Err(e) => AttemptReply::Failed(e),
    };
    let chance = engine.env.random();
    let before = *doubt;
    if let AttemptReply::Failed(e) = &reply {
        *doubt |= e.is_in_doubt();
    }
    LaneEvent::Attempted { step, want, sent, reply, doubt: before, chance }
}

/// Begins the stay that the store has accepted.
pub(super) fn acquired(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    claim: &Claim,
    sent: Moment,
    grant: Grant,
) -> AttemptReply<Arc<Tenure>> {
    let lease = grant.lease;
    let life = Life::fresh(sent, lease);
    // A reply that took longer than the lease proves nothing any more.
    if ask.what.is_held() && engine.env.now() >= life.deadline {
        return AttemptReply::TooLate(too_late(engine));
    }
    let here = ask.what.is_held() && lane.is_at(ask.what.sits_at(ask.owner));
    let home = match here {
        true => lane.clone(),
        false => engine.lanes.to_sit(engine, &lane.name, ask.what, ask.owner),
    };
    let watched = ask.lease.is_none();
    let (kind, what, who) = (ask.kind, ask.what, ask.who());
    let info = claim.info.clone();
    let begun = Begun { kind, what, who, lease: claim.lease, granted: lease, watched, info };
    let hold = Tenure::begin(engine, home.clone(), begun, life);
    hold.number(grant.token);
    if !what.is_held() {
        hold.end_unheld();
    } else if !here {
        let want = ask.want(Moment::NEVER);
        home.tell(engine, LaneEvent::Sit { hold: hold.clone(), want, sent, lease });
    }
    if ask.explicit {
        engine.forget_leaked(ask.stay); // it is no longer without a guard
    }
    AttemptReply::Acquired { hold, lease, here }
}

/// Where acquisitions wait for replicas, what is left of a lease may be gone by then: an answer that no further attempt makes
/// better.
pub(super) fn too_late(engine: &Engine) -> Option<Error> {
    let text = "the replicas acknowledged the acquire only after its lease had ended";
    let asked = engine.store.capabilities().durability != Durability::Primary;
    asked.then(|| Error::new(ErrorKind::NotDurable, text))
}
