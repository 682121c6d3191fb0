//! Keeps holds alive and says when they are dead.
//!
//! One loop for all holds of a `Locks`, on a thread that no user task can block. It renews in batches, each batch beside
//! the others, so that a slow or failed one delays no other; and it declares loss when a deadline passes, whether the
//! renewals were answered or not.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::Engine;
use super::detach::Adopt;
use super::hold::Tenure;
use super::lane::{Effect, LaneEvent, Op, StepReply, Until, Way, slack};
use super::lanes::LaneRef;
use super::releasing::{self, withdraw};
use super::shell::{Lent, Runs, carry_out};
use super::steps::{CallersRenewal, Sending, until_answered};
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::store::{Claim, Renewed, Store};

#[derive(Debug)]
pub(super) struct Watchdog {
    /// The engine's. The waiting watchdog must not keep the store open: the drop of the last `Locks` closes it, before the program ends.
    store: Weak<dyn Store>,
    env: Arc<dyn Env>,
    slots: Mutex<Slots>,
    poke: Notify,
}

#[derive(Debug)]
struct Slots {
    tenures: Vec<Option<Arc<Tenure>>>,
    vacant: Vec<usize>,
    running: bool,
    closed: bool,
    /// The store's term when the loop last looked.
    term: u64,
    /// When the loop looks next; a registration that is due earlier pokes it.
    looks_at: Moment,
}

/// A renewal that is due this soon is sent along with those that are due now: fewer, fuller batches.
const TOGETHER: u32 = 30;

impl Watchdog {
    pub(super) fn new(store: &Arc<dyn Store>, env: Arc<dyn Env>) -> Arc<Watchdog> {
        let slots = Slots {
            tenures: Vec::new(),
            vacant: Vec::new(),
            running: false,
            closed: false,
            term: store.term(),
            looks_at: Moment::NEVER,
        };
        let store = Arc::downgrade(store);
        Arc::new(Watchdog { store, env, slots: Mutex::new(slots), poke: Notify::new() })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches over a tenure from now on. Fixed leases too: the watchdog declares their end.
    pub(super) fn register(self: &Arc<Watchdog>, tenure: &Arc<Tenure>) {
        let mut slots = self.slots();
        let slot = match slots.vacant.pop() {
            Some(slot) => {
                slots.tenures[slot] = Some(tenure.clone());
                slot
            }
            None => {
                slots.tenures.push(Some(tenure.clone()));
                slots.tenures.len() - 1
            }
        };
        tenure.slot.store(slot, Ordering::Release);
        let start = !slots.running;
        slots.running = true;
        let due = tenure.renewal().min(deadline(tenure));
        let due = due.min(tenure.slow_at());
        let poke = due < slots.looks_at;
        drop(slots);
        if start {
            self.env.spawn_watchdog(Box::pin(watch(self.clone())));
        } else if poke {
            self.poke.notify_one();
        }
    }

    pub(super) fn forget(&self, tenure: &Tenure) {
        let slot = tenure.slot.swap(usize::MAX, Ordering::AcqRel);
        let mut slots = self.slots();
        let gone = slots.tenures.get_mut(slot).and_then(Option::take);
        if gone.is_some() {
            slots.vacant.push(slot);
        }
        drop(slots);
        drop(gone); // may be the last of its tenure, which must not end under the lock
    }

    /// Something is due by then.
    pub(super) fn wake_by(&self, due: Moment) {
        if due < self.slots().looks_at {
            self.poke.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.slots().closed = true;
        self.poke.notify_one();
    }

    /// Which holds are due, which are dead, which are held for long; returns when to look again, or `None` when it is closed.
    fn look(&self, found: &mut Found) -> Option<Moment> {
        let Found { due, dead, slow, uncollected } = found;
        let now = self.env.now();
        let mut slots = self.slots();
        if slots.closed {
            return None;
        }
        let term = self.store.upgrade()?.term();
        // Another server keeps them now, and may not have heard of all: even what has a fixed lease is asked about.
        let moved = std::mem::replace(&mut slots.term, term) != term;
        let mut next = Moment::NEVER;
        for tenure in slots.tenures.iter().flatten() {
            let deadline = deadline(tenure);
            if deadline <= now {
                dead.push(tenure.clone());
                continue;
            }
            if tenure.is_uncollected(now) {
                uncollected.push(tenure.clone());
            }
            match tenure.slow_at() {
                at if at <= now => slow.push(tenure.clone()),
                at => next = next.min(at),
            }
            if moved {
                tenure.ask(now);
            }
            let renewal = tenure.renewal();
            let together = tenure.period() / TOGETHER;
            if renewal <= now.after(together) {
                due.push(tenure.clone());
                // The answer to the renewal sets this again; until then it is not due.
                tenure.reschedule(now.after(config::COMMAND_TIMEOUT));
                next = next.min(deadline);
            } else {
                next = next.min(renewal).min(deadline);
            }
        }
        // After a suspend, timers are late by its length: look at the clock now and then.
        if next != Moment::NEVER {
            next = next.min(now.after(config::WATCHDOG_TICK));
        }
        slots.looks_at = next;
        Some(next)
    }
}

/// When it is declared lost. A lease of few milliseconds has not that many to spare for late timers.
fn deadline(tenure: &Tenure) -> Moment {
    tenure.vitals.deadline().before(slack(tenure.lease.min(tenure.granted())))
}

/// What a look around finds.
#[derive(Default)]
struct Found {
    due: Vec<Arc<Tenure>>,
    dead: Vec<Arc<Tenure>>,
    slow: Vec<Arc<Tenure>>,
    /// Their callers are not polled.
    uncollected: Vec<Arc<Tenure>>,
}

async fn watch(dog: Arc<Watchdog>) {
    loop {
        let poked = dog.poke.notified();
        let mut found = Found::default();
        let Some(next) = dog.look(&mut found) else { return };
        let Found { mut due, dead, slow, uncollected } = found;
        for tenure in dead {
            // Unless a renewal has come through meanwhile.
            tenure.lane.tell(&tenure.engine, LaneEvent::Expired(tenure.clone()));
        }
        for tenure in slow {
            tenure.warn();
        }
        if !uncollected.is_empty() {
            due.retain(|tenure| !uncollected.iter().any(|other| Arc::ptr_eq(tenure, other)));
            // Not on this thread: a store may block it.
            dog.env
                .spawn_background(Box::pin(async move { uncollected.iter().for_each(withdraw) }));
        }
        // Those whose server is gone are answered late, and must not keep the others waiting.
        let Some(store) = dog.store.upgrade() else { return };
        due.sort_by_cached_key(|tenure| store.failure_domain(&tenure.lane.name));
        let alike = |a: &Arc<Tenure>, b: &Arc<Tenure>| {
            store.failure_domain(&a.lane.name) == store.failure_domain(&b.lane.name)
        };
        for batch in due.chunk_by(alike).flat_map(|share| share.chunks(config::RENEWAL_BATCH)) {
            let work = Box::pin(renew_batch(store.clone(), batch.to_vec()));
            match store.capabilities().may_block {
                true => dog.env.spawn_background(work),
                false => dog.env.spawn_watchdog(work),
            }
        }
        drop((due, store));
        if next == Moment::NEVER {
            poked.await;
        } else {
            let sleep = dog.env.sleep_until(next);
            tokio::select! {
                biased;
                () = poked => {}
                () = sleep => {}
            }
        }
    }
}

/// A renewal that goes with others.
struct Renewal {
    sending: Sending,
    tenure: Arc<Tenure>,
    claim: Claim,
    /// It was in question when this was sent: an answer to something older says nothing of another server.
    asked: bool,
}

impl Renewal {
    /// `None` if another step of the lane is under way: the lane renews it after that.
    fn begin(tenure: &Arc<Tenure>) -> Option<Renewal> {
        let (engine, lane) = (&tenure.engine, &tenure.lane);
        let mut left = lane.on(engine, LaneEvent::RenewDue(tenure.clone()));
        let step = left.effects.take(|effect| matches!(effect, Effect::Step(_)));
        let step = step.and_then(Effect::into_step);
        carry_out(engine, lane, left, Runs::Here);
        let step = step?;
        let Op::Renew { depth, least, .. } = step.op else { return None };
        let claim = tenure.claim(tenure.at_least(least), depth);
        let sending = Sending::begin(engine, lane, step.id, None);
        Some(Renewal { sending, tenure: tenure.clone(), claim, asked: tenure.is_asked() })
    }
}

async fn renew_batch(store: Arc<dyn Store>, tenures: Vec<Arc<Tenure>>) {
    let Some(first) = tenures.first() else { return };
    let engine = first.engine.clone();
    let renewals: Vec<Renewal> = tenures.iter().filter_map(Renewal::begin).collect();
    drop(tenures);
    let claims: Vec<Claim> = renewals.iter().map(|renewal| renewal.claim.clone()).collect();
    if claims.is_empty() {
        return;
    }
    let sent = engine.env.now();
    let answers = store.renew(&claims).await;
    for (mut renewal, answer) in renewals.into_iter().zip(answers) {
        let Renewal { tenure, asked, .. } = &renewal;
        let (reply, step) = (reply(tenure, *asked, Some(answer)), renewal.sending.id());
        let (left, _) = renewal.sending.answer(LaneEvent::Told { step, sent, reply });
        carry_out(&engine, &renewal.tenure.lane, left, Runs::Here);
    }
}

/// What the store replied to a renewal. `asked`: it was in question whether the store has it.
pub(super) fn reply(tenure: &Tenure, asked: bool, answer: Option<Result<Renewed>>) -> StepReply {
    if asked && !matches!(answer, Some(Err(_))) {
        tenure.ask(Moment::NEVER);
    }
    match answer {
        Some(Ok(Renewed::Held { for_: lease })) => StepReply::Held { lease },
        Some(Ok(Renewed::Gone)) | None => StepReply::Gone,
        Some(Err(e)) => StepReply::Failed(e),
    }
}

/// A renewal got no answer: it is tried again soon.
pub(super) fn again(tenure: &Tenure) {
    let engine = &tenure.engine;
    let retry = (engine.tuning.watchdog / 30).min(config::RETRY_LONGEST);
    tenure.reschedule(engine.env.now().after(retry));
    engine.watchdog.wake_by(tenure.renewal());
}

/// Makes a hold last at least `lease` from now.
pub(crate) async fn extend(
    tenure: Arc<Tenure>,
    lease: Duration,
    adoptable: Weak<dyn Adopt>,
) -> Result<()> {
    let (engine, lane) = (tenure.engine.clone(), tenure.lane.clone());
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    loop {
        let hold = tenure.clone();
        let event = LaneEvent::Extend { hold, lease, retry_until: patience };
        let mut left = lane.on(&engine, event);
        let way = left.effects.take_way();
        let op = match way {
            Some(Way::Attempt { step, .. }) => left.effects.take_step(step).map(|op| (step, op)),
            _ => None,
        };
        carry_out(&engine, &lane, left, Runs::Here);
        match (way, op) {
            (_, Some((step, op))) => {
                lane.lend(Lent::Telling, adoptable);
                let sending = Sending::begin(&engine, &lane, step, None);
                let renewal = CallersRenewal { sending, op, retry_until: patience };
                return match until_answered(&*engine.env, renewal).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(releasing::lost()),
                    Err(e) => Err(e),
                };
            }
            (Some(Way::Settle(until)), None) => settle(&engine, &lane, until, patience).await?,
            _ => return Err(releasing::lost()),
        }
    }
}

async fn settle(engine: &Engine, lane: &LaneRef, until: Until, patience: Moment) -> Result<()> {
    tokio::select! {
        biased;
        () = lane.until(until) => Ok(()),
        () = engine.env.sleep_in_background(patience) => {
            let limit = config::COMMAND_TIMEOUT;
            let text = format!(
                "the store did not reply to an earlier operation on this lock within {limit:?}: nothing was done; retry later"
            );
            Err(Error::new(ErrorKind::Unavailable, text))
        }
    }
}
