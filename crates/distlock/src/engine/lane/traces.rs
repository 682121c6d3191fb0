//! Races of the past, each as the events that made it. What each cost is in CHANGELOG.md under "Fixed".

use std::sync::Arc;
use std::time::Duration;

use super::model::{Numbers, mint, want};
use super::{
    AttemptReply, Effect, Effects, Lane, LaneEvent, Op, Rules, Step, StepId, StepReply, Tried,
    Until, Want, Way,
};
use crate::env::Moment;
use crate::error::{Error, ErrorKind};
use crate::locks::config;
use crate::store::Released;

const LEASE: Duration = Duration::from_secs(30);
const HOLD: u32 = 1_000_000;

/// A lane, and what it wanted done last.
struct Scene {
    lane: Lane<Numbers>,
    now: Moment,
    out: Vec<Effect<Numbers>>,
}

impl Scene {
    fn new() -> Scene {
        let rules = Rules {
            watchdog: LEASE,
            recheck: config::recheck(LEASE),
            passes_on: true,
            acks: false,
        };
        let now = Moment::from_origin(Duration::from_secs(1));
        Scene { lane: Lane::new(Arc::new(rules), false, true), now, out: Vec::new() }
    }

    fn on(&mut self, event: LaneEvent<Numbers>) -> &mut Scene {
        let mut out = Effects::default();
        self.lane.on(event, self.now, &mut out);
        self.out = out.into_iter().collect();
        self
    }

    fn after(&mut self, time: Duration) -> &mut Scene {
        self.now = self.now.after(time);
        self
    }

    fn has(&self, so: impl Fn(&Effect<Numbers>) -> bool) -> bool {
        self.out.iter().any(so)
    }

    /// The step that the lane wants sent.
    fn step(&self, so: impl Fn(&Op<Numbers>) -> bool) -> Option<StepId> {
        self.out.iter().find_map(|effect| match effect {
            Effect::Step(Step { id, op }) if so(op) => Some(*id),
            _ => None,
        })
    }

    fn releases(&self) -> Option<StepId> {
        self.step(|op| matches!(op, Op::Release { .. }))
    }

    fn way(&self) -> Option<Way<u32>> {
        self.out.iter().find_map(|effect| match effect {
            Effect::Way(way) => Some(way.clone()),
            _ => None,
        })
    }

    fn ask(&mut self, want: Want) -> StepId {
        self.on(LaneEvent::Ask { want, releasing: false });
        match self.way() {
            Some(Way::Attempt { step, .. } | Way::Reenter { step, .. }) => step,
            way => panic!("{way:?}"),
        }
    }

    fn acquired(&mut self, want: Want, lease: Duration) -> &mut Scene {
        let step = self.ask(want);
        let reply = AttemptReply::Acquired { hold: HOLD, lease, here: true };
        self.attempted(step, want, reply)
    }

    fn attempted(&mut self, step: StepId, want: Want, reply: AttemptReply<u32>) -> &mut Scene {
        let (sent, doubt, chance) = (self.now, false, 0);
        self.on(LaneEvent::Attempted { step, want, sent, reply, doubt, chance })
    }

    fn join(&mut self, want: Want, waiter: u8, doubt: bool) -> &mut Scene {
        let joined = self.now;
        self.on(LaneEvent::Join { want, waiter, joined, doubt, tried: false })
    }

    fn told(&mut self, step: StepId, reply: StepReply) -> &mut Scene {
        let sent = self.now;
        self.on(LaneEvent::Told { step, sent, reply })
    }

    fn let_go(&mut self, watched: bool, receipt: Option<u8>) -> &mut Scene {
        self.on(LaneEvent::LetGo { hold: HOLD, watched, receipt })
    }

    fn renewal(&mut self) -> StepId {
        self.on(LaneEvent::RenewDue(HOLD));
        self.step(|op| matches!(op, Op::Renew { .. })).expect("it is renewed")
    }
}

fn failed(kind: ErrorKind) -> Error {
    Error::new(kind, "as the trace wants it")
}

fn freed() -> StepReply {
    StepReply::Released(Released::Freed { heard_by: 0 })
}

#[test]
fn a_release_names_the_stay_that_ends_and_the_next_one_is_another() {
    let mut scene = Scene::new();
    let first = want(None, false, None);
    scene.acquired(first, LEASE).let_go(true, None);
    let stay = |op: &Op<Numbers>| matches!(op, Op::Release { stay, .. } if *stay == first.stay);
    let release = scene.step(stay).expect("it is released");
    scene.told(release, freed());
    let second = Want { owner: mint(), stay: mint(), ..first };
    scene.acquired(second, LEASE).let_go(true, None);
    assert!(scene.step(stay).is_none(), "a late release of the first would free the second");
}

#[test]
fn what_is_renewed_in_the_moment_of_its_loss_is_released() {
    let mut scene = Scene::new();
    let renewal = scene.acquired(want(None, false, None), LEASE).renewal();
    scene.after(LEASE).on(LaneEvent::Expired(HOLD));
    assert!(scene.has(|effect| matches!(effect, Effect::Lost(HOLD))));
    scene.told(renewal, StepReply::Held { lease: LEASE });
    assert!(scene.releases().is_some(), "the store has what no task holds");
}

#[test]
fn a_single_try_comes_after_the_drop_before_it() {
    let mut scene = Scene::new();
    let renewal = scene.acquired(want(None, false, None), LEASE).renewal();
    scene.let_go(true, None);
    scene.on(LaneEvent::Ask { want: want(None, true, None), releasing: false });
    assert_eq!(scene.way(), Some(Way::Settle(Until::LetGo)), "the renewal is in the way");
    scene.told(renewal, StepReply::Held { lease: LEASE });
    let release = scene.releases().expect("it follows");
    scene.told(release, freed());
    scene.on(LaneEvent::Ask { want: want(None, true, None), releasing: false });
    assert!(matches!(scene.way(), Some(Way::Attempt { leads: true, .. })));
}

#[test]
fn a_reentry_without_an_end_does_not_keep_the_hold_from_being_renewed() {
    let mut scene = Scene::new();
    let me = want(None, false, Some(mint()));
    scene.acquired(me, LEASE);
    let deeper = scene.ask(Want { retry_until: Moment::NEVER, ..me });
    scene.told(deeper, StepReply::Failed(failed(ErrorKind::Unavailable)));
    assert!(scene.has(|effect| matches!(effect, Effect::Retry(step) if *step == deeper)));
    let renewal = scene.renewal();
    scene.told(renewal, StepReply::Held { lease: LEASE });
    assert!(scene.lane.is_held_by(&HOLD));
}

#[test]
fn a_reentry_in_doubt_is_told_to_the_store_when_it_is_undone() {
    let mut scene = Scene::new();
    let me = want(None, false, Some(mint()));
    let deeper = scene.acquired(me, LEASE).ask(me);
    scene.told(deeper, StepReply::Failed(failed(ErrorKind::Indeterminate)));
    assert!(scene.has(|effect| matches!(effect, Effect::Tried(Tried::Failed { .. }))));
    scene.let_go(true, None);
    let shrink = scene.step(|op| matches!(op, Op::Shrink { depth: 1, .. }));
    assert!(shrink.is_some(), "the store may have two levels");
}

#[test]
fn a_reentry_after_the_loss_of_the_outer_hold_is_none() {
    let mut scene = Scene::new();
    let me = want(Some(LEASE), false, Some(mint()));
    let deeper = scene.acquired(me, LEASE).ask(me);
    scene.after(LEASE).told(deeper, StepReply::Acquired { lease: LEASE });
    assert!(scene.has(|effect| matches!(effect, Effect::Tried(Tried::Busy { .. }))));
    assert!(scene.releases().is_some(), "what the store has is of no task");
}

#[test]
fn a_forget_that_is_taken_without_an_answer_of_the_store_prolongs_no_wait() {
    let mut scene = Scene::new();
    let first = want(None, false, None);
    let step = scene.ask(first);
    scene.attempted(step, first, AttemptReply::Failed(failed(ErrorKind::Indeterminate)));
    let (what, stay) = (first.what, first.stay);
    scene.on(LaneEvent::Forget { what, stay, lease: LEASE, receipt: None });
    let forget = scene.step(|op| matches!(op, Op::Forget { .. })).expect("it is taken back");
    scene.join(want(None, false, None), 1, false);
    scene.after(Duration::from_millis(10)).told(forget, StepReply::Forgotten);
    let asked = scene.step(|op| matches!(op, Op::Acquire(_))).expect("the waiter is asked for");
    let reply = AttemptReply::Failed(failed(ErrorKind::Unavailable));
    scene.after(config::COMMAND_TIMEOUT).attempted(asked, want(None, false, None), reply);
    assert!(scene.has(|effect| matches!(effect, Effect::Refuse(1, _))), "it had no answer");
}

#[test]
fn a_waiter_in_doubt_is_asked_for_before_the_others() {
    let mut scene = Scene::new();
    let step = scene.ask(want(None, false, None));
    scene.join(want(None, false, None), 1, false);
    let mine = want(None, false, None);
    scene.attempted(step, mine, AttemptReply::Failed(failed(ErrorKind::Indeterminate)));
    let first = scene.step(|op| matches!(op, Op::Acquire(_))).expect("the first is asked for");
    scene.join(mine, 2, true);
    scene.attempted(first, want(None, false, None), AttemptReply::Busy { ttl: LEASE });
    let listen = scene.out.iter().find_map(|effect| match effect {
        Effect::Listen { step, .. } => Some(*step),
        _ => None,
    });
    let step = listen.expect("it subscribes");
    scene.on(LaneEvent::Listening { step, result: Ok(()), chance: 0 });
    let asks = |op: &Op<Numbers>| matches!(op, Op::Acquire(ask) if ask.want.stay == mine.stay);
    assert!(scene.step(asks).is_some(), "the store may have given it the lock");
}

#[test]
fn an_outage_that_is_over_is_no_answer() {
    let mut scene = Scene::new();
    scene.join(want(None, false, None), 1, false);
    let asked = scene.step(|op| matches!(op, Op::Acquire(_))).expect("it is asked for");
    let reply = AttemptReply::Failed(failed(ErrorKind::Unavailable));
    scene.attempted(asked, want(None, false, None), reply);
    assert!(scene.lane.outage_since(Moment::from_nanos(0)).is_some());
    scene.after(Duration::from_secs(1)).on(LaneEvent::Tick);
    let asked = scene.step(|op| matches!(op, Op::Acquire(_))).expect("it is asked for again");
    scene.attempted(asked, want(None, false, None), AttemptReply::Busy { ttl: LEASE });
    assert!(scene.lane.outage_since(Moment::from_nanos(0)).is_none());
}

#[test]
fn what_a_caller_does_not_poll_is_polled_elsewhere() {
    let mut scene = Scene::new();
    scene.ask(want(None, false, None));
    scene.join(want(None, false, None), 1, false);
    assert!(!scene.has(|effect| matches!(effect, Effect::Adopt)));
    scene.after(config::ADOPT_AFTER).on(LaneEvent::Tick);
    assert!(scene.has(|effect| matches!(effect, Effect::Adopt)));
}

#[test]
fn closing_waits_for_attempts_under_way() {
    let mut scene = Scene::new();
    let (first, beside) = (want(None, false, None), want(None, true, None));
    scene.ask(first);
    let step = scene.ask(beside);
    scene.on(LaneEvent::Close(failed(ErrorKind::Closed)));
    assert!(!scene.lane.is(Until::Quiet));
    let reply = AttemptReply::Acquired { hold: HOLD, lease: LEASE, here: true };
    scene.attempted(step, beside, reply).on(LaneEvent::Revoke);
    assert!(scene.releases().is_some(), "what was won after that is released");
}

#[test]
fn an_answer_that_took_longer_than_the_lease_is_taken_back() {
    let mut scene = Scene::new();
    let asks = want(Some(LEASE), false, None);
    let step = scene.ask(asks);
    scene.after(LEASE).attempted(step, asks, AttemptReply::TooLate(None));
    let doubt = scene.has(|effect| matches!(effect, Effect::Tried(Tried::Busy { doubt: true })));
    assert!(doubt && scene.lane.hold().is_none());
}

#[test]
fn a_lease_of_few_milliseconds_is_not_lost_at_once() {
    let mut scene = Scene::new();
    let short = Duration::from_millis(3);
    scene.acquired(want(Some(short), false, None), short).on(LaneEvent::Expired(HOLD));
    assert!(scene.lane.is_held_by(&HOLD));
}

#[test]
fn a_guard_with_a_lease_beside_one_without_ends_the_watch_only_with_the_last() {
    let mut scene = Scene::new();
    let me = want(None, false, Some(mint()));
    let fixed = Want { lease: Some(LEASE), ..me };
    let deeper = scene.acquired(me, LEASE).ask(fixed);
    scene.let_go(true, None);
    let watch = |watch| move |effect: &Effect<Numbers>| matches!(effect, Effect::Watch { watched, .. } if *watched == watch);
    assert!(scene.has(watch(false)), "the guard that was watched is gone");
    scene.told(deeper, StepReply::Acquired { lease: LEASE });
    assert!(scene.has(watch(false)) && !scene.has(watch(true)), "it would be renewed for ever");
}

#[test]
fn a_leak_beside_a_renewal_frees_nothing() {
    let mut scene = Scene::new();
    let renewal = scene.acquired(want(None, false, None), LEASE).renewal();
    scene.on(LaneEvent::Leak { hold: HOLD, watched: true });
    scene.told(renewal, StepReply::Held { lease: LEASE });
    assert!(scene.releases().is_none());
    assert!(scene.lane.is_over());
}

#[test]
fn a_release_whose_future_is_dropped_is_told_again() {
    let mut scene = Scene::new();
    scene.acquired(want(None, false, None), LEASE).let_go(true, Some(7));
    let step = scene.releases().expect("it is released");
    scene.on(LaneEvent::Abandoned { step, want: None });
    assert!(scene.has(|effect| matches!(effect, Effect::Receipts(answer) if answer.how.is_none())));
    assert!(scene.releases().is_some_and(|again| again != step));
}

#[test]
fn a_burst_that_ended_counts_its_own_message_also_if_that_comes_before_the_reply() {
    let mut scene = Scene::new();
    scene.acquired(want(None, false, None), LEASE);
    scene.join(want(None, false, None), 1, false);
    scene.after(config::LOCAL_PATIENCE).on(LaneEvent::Tick); // it subscribes behind the holder
    let listen = scene.out.iter().find_map(|effect| match effect {
        Effect::Listen { step, .. } => Some(*step),
        _ => None,
    });
    let step = listen.expect("it subscribes");
    scene.on(LaneEvent::Listening { step, result: Ok(()), chance: 0 });
    let renewal = scene.step(|op| matches!(op, Op::Renew { .. })).expect("it asks for the holder");
    scene.told(renewal, StepReply::Held { lease: LEASE });
    scene.after(config::BURST_TIME).let_go(true, None);
    let release = scene.releases().expect("the burst is over");
    scene.on(LaneEvent::Heard(1));
    scene.told(release, StepReply::Released(Released::Freed { heard_by: 2 }));
    assert!(scene.step(|op| matches!(op, Op::Acquire(_))).is_none(), "the other one comes first");
    scene.on(LaneEvent::Heard(1));
    assert!(scene.step(|op| matches!(op, Op::Acquire(_))).is_some(), "the other one had its turn");
}
