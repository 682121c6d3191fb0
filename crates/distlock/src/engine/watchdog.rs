//! Keeps holds alive and says when they are dead.
//!
//! One loop for all holds of a `Locks`, on a thread that no user task can block. It renews in batches, each batch beside
//! the others, so that a slow or poisoned one costs nobody else; and it declares loss when a deadline passes, whatever
//! became of the renewals.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::detach::Adopt;
use super::hold::Tenure;
use super::release::{self, withdraw};
use super::tell::Stepping;
use super::vitals::State;
use super::waiters::Step;
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::observe::Event;
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

/// Timers are late by up to this; a loss must not be.
const TIMER_SLACK: Duration = Duration::from_millis(2);

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

    /// Watches over a tenure from now on. Fixed leases too: somebody must call out their end.
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

    /// Who is due, who is dead, who is held for long, and when to look again.
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
                // Whoever renews it sets this again; until then it is not due.
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
    tenure.vitals.deadline().before(TIMER_SLACK.min(tenure.lease.min(tenure.granted()) / 4))
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
            // Those before it took their time: a renewal may have come through.
            if deadline(&tenure) <= dog.env.now() {
                tenure.lose();
            }
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
                () = poked => {}
                () = sleep => {}
            }
        }
    }
}

/// A renewal under way: the tenure, what was asked, and the lane's right to ask it.
struct Renewal {
    tenure: Arc<Tenure>,
    claim: Claim,
    /// It was in question when this was sent: an answer to something older says nothing of another server.
    asked: bool,
    /// `None` if the caller has it.
    stepping: Option<Stepping>,
}

impl Renewal {
    /// `None` if another step of the lane is under way; it is tried again soon.
    fn begin(tenure: &Arc<Tenure>, lease: Duration) -> Option<Renewal> {
        let mut state = tenure.lane.state();
        if state.stepping.is_some() {
            drop(state);
            tenure.lane.adopt(); // it may have no end otherwise, and the hold would not outlive that
            return None;
        }
        if !state.sits(tenure) {
            return None;
        }
        state.stepping = Some(Step::Renew);
        let depth = state.wire.map_or(1, |(_, depth)| depth);
        drop(state);
        let claim = tenure.claim(tenure.at_least(lease), depth);
        let stepping = Stepping::taken(&tenure.engine, &tenure.lane);
        let (tenure, asked) = (tenure.clone(), tenure.is_asked());
        Some(Renewal { tenure, claim, asked, stepping: Some(stepping) })
    }

    /// The store has answered, or not.
    fn end(self, sent: Moment, answer: Result<Renewed>) -> Result<bool> {
        let tenure = self.tenure;
        let (stay, depth) = (tenure.stay, self.claim.depth);
        if answer.is_ok() {
            tenure.lane.state().heard(sent);
        }
        if answer.is_ok() && self.asked {
            tenure.ask(Moment::NEVER);
        }
        let answer = answer.map(|renewed| match renewed {
            Renewed::Held { for_ } => tenure.confirm(stay, depth, sent, for_),
            Renewed::Gone => false,
        });
        match &answer {
            Ok(true) => tenure.observe(Event::Renewed),
            Ok(false) => tenure.lose(),
            Err(_) => tenure.doubt(),
        }
        drop(self.stepping);
        answer
    }
}

async fn renew_batch(store: Arc<dyn Store>, tenures: Vec<Arc<Tenure>>) {
    let Some(first) = tenures.first() else { return };
    let engine = first.engine.clone();
    let timeout = engine.tuning.watchdog;
    let retry = (timeout / 30).min(config::RETRY_LONGEST);
    let mut renewals = Vec::with_capacity(tenures.len());
    for tenure in &tenures {
        match Renewal::begin(tenure, what_is_due(tenure)) {
            Some(renewal) => renewals.push(renewal),
            None => again(tenure, retry),
        }
    }
    let claims: Vec<Claim> = renewals.iter().map(|renewal| renewal.claim.clone()).collect();
    let sent = engine.env.now();
    let answers = store.renew(&claims).await;
    for (renewal, answer) in renewals.into_iter().zip(answers) {
        let tenure = renewal.tenure.clone();
        if renewal.end(sent, answer).is_err() {
            again(&tenure, retry);
        }
    }
}

/// The least that a hold is renewed for: in full if that is the watchdog's to do, else for what is left of it.
fn what_is_due(tenure: &Tenure) -> Duration {
    match tenure.is_watched() {
        true => tenure.engine.tuning.watchdog,
        false => Duration::ZERO,
    }
}

/// Asks the store whether it still has this hold, by renewing it.
pub(super) async fn verify(tenure: &Arc<Tenure>) {
    if let Some(renewal) = Renewal::begin(tenure, what_is_due(tenure)) {
        let claims = [renewal.claim.clone()];
        let sent = tenure.engine.env.now();
        let answer = tenure.engine.store.renew(&claims).await.pop().unwrap_or(Ok(Renewed::Gone));
        let _ = renewal.end(sent, answer);
    }
}

/// Renews it if that is due. For a step that has no end yet: the watchdog waits for it, and the hold would not outlive that.
pub(super) async fn renew_meanwhile(tenure: &Arc<Tenure>) {
    let (engine, lease) = (&tenure.engine, tenure.engine.tuning.watchdog);
    let sent = engine.env.now();
    let granted = lease.min(tenure.granted());
    if !tenure.is_watched() || tenure.vitals.expires().since(sent) + tenure.period() > granted {
        return;
    }
    let depth = tenure.lane.state().wire.map_or(1, |(_, depth)| depth);
    let claim = tenure.claim(tenure.at_least(lease), depth);
    let (tenure, asked) = (tenure.clone(), tenure.is_asked());
    let answer = engine.store.renew(std::slice::from_ref(&claim)).await.pop();
    let renewal = Renewal { tenure, claim, asked, stepping: None };
    let _ = renewal.end(sent, answer.unwrap_or(Ok(Renewed::Gone)));
}

/// Tries it again soon, if there is anything to try.
fn again(tenure: &Tenure, retry: Duration) {
    tenure.reschedule(tenure.engine.env.now().after(retry));
    tenure.engine.watchdog.wake_by(tenure.renewal());
}

/// Makes a hold last at least `lease` from now.
pub(crate) async fn extend(
    tenure: Arc<Tenure>,
    lease: Duration,
    adoptable: Weak<dyn Adopt>,
) -> Result<()> {
    let engine = tenure.engine.clone();
    let patience = engine.env.now().after(config::COMMAND_TIMEOUT);
    let mut retry = super::retry::Retry::default();
    loop {
        if tenure.vitals.state(engine.env.now()) == State::Lost {
            return Err(release::lost());
        }
        if tenure.lane.state().stepping.is_some() {
            tenure.lane.adopt();
        }
        tokio::select! {
            () = tenure.lane.settled() => {}
            () = engine.env.sleep_in_background(patience) => {
                let limit = config::COMMAND_TIMEOUT;
                let text = format!(
                    "the store did not reply to an earlier operation on this lock within {limit:?}: nothing was done; retry later"
                );
                return Err(Error::new(ErrorKind::Unavailable, text));
            }
        }
        let Some(renewal) = Renewal::begin(&tenure, lease) else { continue };
        tenure.lane.state().step_work = Some(adoptable.clone());
        let claims = [renewal.claim.clone()];
        let sent = engine.env.now();
        let answer = engine.store.renew(&claims).await.pop().unwrap_or(Ok(Renewed::Gone));
        match renewal.end(sent, answer) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(release::lost()),
            Err(e) if !e.is_retryable() || engine.env.now() >= patience => return Err(e),
            Err(_) => engine.env.sleep_in_background(retry.next(&*engine.env)).await,
        }
    }
}
