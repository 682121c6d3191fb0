//! Asking the store for the lock: the one step that may win it.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::Ask;
use super::detach::Adoptable;
use super::hold::{Begun, Hold, Tenure, Who};
use super::lanes::LaneRef;
use super::retry::Retry;
use super::tell::Stepping;
use super::vitals::{Life, State};
use super::wait::Wait;
use super::watchdog::renew_meanwhile;
use super::{Engine, forget, release};
use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;
use crate::observe::Event;
use crate::store::{Attempt, Claim, ClaimKind};

/// Whether an attempt is the lane's one remote contender, and who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// It goes beside the contender: somebody's single try.
    None,
    Caller,
    Driver,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Tried {
    Won(Hold),
    Busy(Duration, Option<Doubt>),
    Failed(Error, Option<Doubt>),
}

impl Tried {
    /// Takes over the duty to clear up what nobody knows. True if there is something to clear up.
    pub(super) fn take_doubt(&mut self) -> bool {
        match self {
            Tried::Busy(_, doubt) | Tried::Failed(_, doubt) => {
                doubt.take().map(Doubt::settle).is_some()
            }
            Tried::Won(_) => false,
        }
    }
}

/// The store may have given the lock although nobody knows, or keeps a place in its queue. Whoever waits on takes this over
/// and asks again under the same owner, which clears it up; dropped, the store is told to forget it.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) engine: Arc<Engine>,
    pub(super) lane: LaneRef,
    pub(super) what: ClaimKind,
    pub(super) who: Who,
    pub(super) lease: Duration,
    pub(super) armed: bool,
}

impl Doubt {
    fn settle(mut self) {
        self.armed = false;
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        if self.armed {
            forget::disown(&self.engine, &self.lane.name, self.what, self.who, self.lease);
        }
    }
}

/// Asks the store for the lock. One attempt in the caller's eyes: after a failure it asks again, but only if the caller
/// has no queue to go to, and only while its patience lasts.
pub(super) async fn attempt(
    engine: Arc<Engine>,
    lane: LaneRef,
    ask: Ask,
    lead: Lead,
    patience: Moment,
    adoptable: Option<Adoptable>,
) -> Tried {
    let mut claim = ask.claim(&engine, &lane.name);
    let _attempting = Attempting::begin(&lane, lead, adoptable);
    let (what, who, lease) = (claim.kind, ask.who(), claim.lease);
    let mut doubt =
        Doubt { engine: engine.clone(), lane: lane.clone(), what, who, lease, armed: false };
    let mut unsure = false;
    let mut retry = Retry::default();
    loop {
        engine.observe(ask.kind, &lane.name, Event::Attempted);
        let sent = engine.env.now();
        doubt.armed = what.is_held(); // until it is answered
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { token, lease: granted }) => {
                let hold =
                    seat(&engine, &lane, &ask, &claim, sent, granted, lead).with_token(token);
                // A reply that took longer than the lease proves nothing any more.
                if what.is_held() && hold.state() == State::Lost {
                    return match too_late(&engine) {
                        Some(e) => Tried::Failed(e, Some(doubt)),
                        None => Tried::Busy(Duration::ZERO, Some(doubt)),
                    };
                }
                doubt.armed = false;
                return Tried::Won(hold);
            }
            Ok(Attempt::Busy { ttl }) => {
                doubt.armed = what.leaves_traces();
                lane.state().heard(sent);
                return Tried::Busy(ttl, doubt.armed.then_some(doubt));
            }
            // The store answers, so there is no outage to ride out; what it gave is taken back, by now and once.
            Err(e) if e.is_not_durable() => {
                lane.state().heard(sent);
                engine.observe(ask.kind, &lane.name, Event::NotDurable);
                doubt.settle();
                if e.is_in_doubt() {
                    forget::take_back(&engine, &lane.name, what, who, lease).await;
                }
                return Tried::Failed(e, None);
            }
            Err(e) => {
                if e.is_retryable() {
                    release::trouble(&engine, &lane, &e);
                }
                unsure |= e.is_in_doubt();
                doubt.armed = unsure && what.is_held();
                let once = matches!(ask.wait, Wait::Once);
                if !once || !e.is_retryable() || engine.env.now() >= patience {
                    return Tried::Failed(e, doubt.armed.then_some(doubt));
                }
                engine.env.sleep_in_background(retry.next(&*engine.env).min(patience)).await;
                claim.info = ask.claim(&engine, &lane.name).info; // by now
            }
        }
    }
}

/// Where acquisitions wait for replicas, what is left of a lease may be gone by then: an answer that no further attempt makes
/// better.
pub(super) fn too_late(engine: &Engine) -> Option<Error> {
    let text = "the replicas acknowledged the acquire only after its lease had ended";
    let asked = engine.store.capabilities().durability != Durability::Primary;
    asked.then(|| Error::new(ErrorKind::NotDurable, text))
}

/// The lane's mark that an attempt is under way, taken off however that ends.
pub(super) struct Attempting<'a> {
    lane: &'a LaneRef,
    pub(super) lead: Lead,
}

impl Attempting<'_> {
    /// Of one that leads, `attempting` is set.
    pub(super) fn begin(
        lane: &LaneRef,
        lead: Lead,
        adoptable: Option<Adoptable>,
    ) -> Attempting<'_> {
        let mut state = lane.state();
        state.attempts += 1;
        if lead == Lead::Caller {
            state.attempt_work = adoptable;
        }
        drop(state);
        Attempting { lane, lead }
    }
}

impl Drop for Attempting<'_> {
    fn drop(&mut self) {
        let mut state = self.lane.state();
        state.attempts -= 1;
        if self.lead != Lead::None {
            state.attempting = false;
            state.attempt_work = None;
        }
        drop(state);
        self.lane.changed.notify_waiters();
        if self.lead == Lead::Caller {
            self.lane.nudge();
        }
    }
}

/// Seats an accepted acquisition.
pub(super) fn seat(
    engine: &Arc<Engine>,
    lane: &LaneRef,
    ask: &Ask,
    claim: &Claim,
    sent: Moment,
    granted: Duration,
    lead: Lead,
) -> Hold {
    let (watched, expires) = (ask.lease.is_none(), sent.after(granted));
    let (kind, what, lease) = (ask.kind, ask.what, claim.lease);
    let life = Life::fresh(sent, granted);
    lane.state().heard(sent);
    let home = engine.lanes.to_sit(&lane.name, what, ask.owner);
    let info = claim.info.clone();
    let begun = Begun { kind, what, who: ask.who(), lease, granted, watched, info };
    let tenure = Tenure::begin(engine, home.clone(), begun, life);
    if !what.is_held() {
        return Hold::of_nothing(tenure);
    }
    let mut state = home.state();
    let before = state.seat(&tenure, watched);
    let beside = if lead == Lead::Driver { Vec::new() } else { state.same_owner(ask.owner) };
    state.on_the_wire(ask.stay, 1, expires);
    if let ClaimKind::LeasedPermits { count, .. } = what {
        state.wire_permits = count;
    }
    state.burst = 0;
    state.burst_since = Some(engine.env.now());
    state.next_pass = None;
    drop(state);
    release::let_in_beside(engine, &home, beside);
    if let Some(before) = before {
        before.lose();
    }
    if ask.explicit {
        engine.forget_leaked(ask.stay); // it is no longer without a guard
    }
    tenure.observe(Event::Entered);
    Hold::new(tenure, watched)
}

/// Goes one level deeper. `None` if the outer hold turned out to be lost.
pub(super) async fn reenter(
    engine: Arc<Engine>,
    tenure: Arc<Tenure>,
    ask: Ask,
    patience: Moment,
    adoptable: Adoptable,
) -> Result<Option<Hold>> {
    let watched = ask.lease.is_none();
    // From here on dropping it takes the level back, whatever happens.
    let hold = Hold::new(tenure.clone(), watched);
    let stepping = Stepping::taken(&engine, &tenure.lane);
    let depth = {
        let mut state = tenure.lane.state();
        state.step_work = Some(adoptable);
        state.seat.as_ref().filter(|seat| Arc::ptr_eq(&seat.tenure, &tenure)).map(|seat| seat.depth)
    };
    let Some(depth) = depth else { return Ok(None) };
    let mut retry = Retry::default();
    loop {
        // What this level asks for: it may be numbered although the outer one is not.
        let claim = tenure.claim(tenure.at_least(ask.lease(&engine)), depth);
        let claim = Claim { kind: ask.what, ..claim };
        engine.observe(ask.kind, &tenure.lane.name, Event::Attempted);
        let sent = engine.env.now();
        match engine.store.acquire(&claim).await {
            Ok(Attempt::Acquired { token, lease: granted }) => {
                tenure.lane.state().heard(sent);
                if hold.state() == State::Lost {
                    tenure.lose(); // before the store's answer is noted, which it would undo
                }
                if !tenure.confirm(tenure.stay, depth, sent, granted) {
                    return Ok(None);
                }
                if watched {
                    tenure.watch(true);
                }
                return Ok(Some(hold.with_token(token)));
            }
            Ok(Attempt::Busy { .. }) => {
                tenure.lane.state().heard(sent);
                tenure.lose();
                return Ok(None);
            }
            Err(e) if e.is_not_durable() => {
                let (stay, until) = (tenure.stay, sent.after(claim.lease));
                tenure.lane.state().confirm(stay, stay, depth, until);
                engine.observe(ask.kind, &tenure.lane.name, Event::NotDurable);
                drop(stepping);
                // If the hold itself was lost meanwhile, whoever has its guard learns of that.
                drop(release::unlock(hold).await);
                return Err(e);
            }
            Err(e) => {
                if e.is_in_doubt() {
                    tenure.lane.state().may_be_deeper(tenure.stay, depth);
                }
                if !e.is_retryable() || engine.env.now() >= patience {
                    return Err(e);
                }
                tenure.doubt();
                tenure.lane.state().unanswered(engine.env.now(), &e);
                engine.env.sleep_in_background(retry.next(&*engine.env).min(patience)).await;
                if hold.state() == State::Lost {
                    // An outage longer than the lease: another task may have the lock by now, and this is no re-entry.
                    tenure.lose();
                    return Ok(None);
                }
                renew_meanwhile(&tenure).await;
            }
        }
    }
}
