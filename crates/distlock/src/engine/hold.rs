//! One owner's stay in a lock, and the levels of it that guards have.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::lane::LaneEvent;
use super::lanes::LaneRef;
use super::vitals::{Life, State, Vitals};
use super::{Engine, releasing};
use crate::env::Moment;
use crate::holder::HolderInfo;
use crate::locks::config;
use crate::observe::{Event, Subject};
use crate::owner::Owner;
use crate::store::{Claim, ClaimKind, Kind};

/// Who holds or wants a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// As this process knows it.
    pub(super) owner: Owner,
    /// As the store knows it: see [`Ask::stay`](super::Ask::stay).
    pub(super) stay: Owner,
}

impl Who {
    /// One whose owner the program did not name.
    pub(super) fn new(stay: Owner) -> Who {
        Who { owner: stay, stay }
    }
}

/// One owner's stay in the lock, from acquisition to release; all guards of one owner on one name share it.
pub(crate) struct Tenure {
    pub(crate) engine: Arc<Engine>,
    pub(super) lane: LaneRef,
    pub(crate) kind: Kind,
    pub(crate) what: ClaimKind,
    /// Who holds it, as this process knows it.
    pub(crate) owner: Owner,
    /// Who holds it, as the store knows it.
    pub(crate) stay: Owner,
    /// What the lane knows of its life, for guards to read.
    pub(crate) vitals: Arc<Vitals>,
    /// The newest fencing token; 0 for kinds that have none.
    token: AtomicU64,
    /// The lease that the present hold asks for when it passes to this tenure.
    pub(crate) lease: Duration,
    /// The lease that the store granted last, in nanoseconds.
    granted: AtomicU64,
    /// When the watchdog renews it next; [`Moment::NEVER`] if it does not.
    renew_at: AtomicU64,
    /// When the store is asked whether it has it, also if the watchdog does not renew it; [`Moment::NEVER`] if there is no doubt.
    ask_at: AtomicU64,
    /// Until when its caller must have come for it; [`Moment::NEVER`] once it has, [`WITHDRAWN`] if it did not.
    collect_by: AtomicU64,
    /// That moment has passed once. The process may have stood still until then, and its caller with it: it gets as much time again.
    is_overdue: AtomicBool,
    /// Where the watchdog keeps it.
    pub(super) slot: AtomicUsize,
    pub(super) since: Moment,
    /// When it is worth a warning; [`Moment::NEVER`] if it is not, or has had one.
    slow_at: AtomicU64,
    /// What it says of its holder.
    info: Option<Arc<HolderInfo>>,
}

/// A tenure is equal to itself alone.
impl PartialEq for Tenure {
    fn eq(&self, other: &Tenure) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenure({} of {})", self.stay, self.lane.name)
    }
}

/// What a tenure is made of.
pub(super) struct Begun {
    pub(super) kind: Kind,
    pub(super) what: ClaimKind,
    pub(super) who: Who,
    pub(super) lease: Duration,
    /// What the store granted; for an heir the same as `lease`, until the store has answered.
    pub(super) granted: Duration,
    pub(super) watched: bool,
    pub(super) info: Option<Arc<HolderInfo>>,
}

/// In place of the moment by which a hold must be collected: it was released because it was not.
const WITHDRAWN: u64 = 0;

impl Tenure {
    /// A hold accepted by the store, or passed on by its last holder.
    pub(super) fn begin(
        engine: &Arc<Engine>,
        lane: LaneRef,
        begun: Begun,
        life: Life,
    ) -> Arc<Tenure> {
        let Begun { kind, what, who, lease, granted, watched, info } = begun;
        let since = engine.env.now();
        let slow_at = engine.tuning.slow_hold.map_or(Moment::NEVER, |slow| since.after(slow));
        let tenure = Arc::new(Tenure {
            engine: engine.clone(),
            lane,
            kind,
            what,
            owner: who.owner,
            stay: who.stay,
            vitals: Arc::new(Vitals::new(life)),
            token: AtomicU64::new(0),
            lease,
            granted: AtomicU64::new(nanos(granted)),
            renew_at: AtomicU64::new(Moment::NEVER.as_nanos()),
            ask_at: AtomicU64::new(Moment::NEVER.as_nanos()),
            collect_by: AtomicU64::new(since.after(config::UNCOLLECTED).as_nanos()),
            is_overdue: AtomicBool::new(false),
            slot: AtomicUsize::new(usize::MAX),
            since,
            slow_at: AtomicU64::new(slow_at.as_nanos()),
            info,
        });
        if watched {
            let at = life.expires.before(granted).after(tenure.period());
            tenure.renew_at.store(at.as_nanos(), Ordering::Release);
        }
        engine.watchdog.register(&tenure);
        tenure
    }

    /// The time between two renewals: a third of the watchdog's timeout, or of the lease that the store grants if that is shorter.
    pub(super) fn period(&self) -> Duration {
        self.engine.tuning.watchdog.min(self.granted()) / config::RENEWALS_PER_TIMEOUT
    }

    pub(super) fn granted(&self) -> Duration {
        Duration::from_nanos(self.granted.load(Ordering::Acquire))
    }

    pub(crate) fn token(&self) -> u64 {
        self.token.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.lane.name
    }

    /// When the watchdog has something to send about it.
    pub(super) fn renewal(&self) -> Moment {
        let (renew, ask) = (&self.renew_at, &self.ask_at);
        Moment::from_nanos(renew.load(Ordering::Acquire).min(ask.load(Ordering::Acquire)))
    }

    /// Another server keeps it now and may not have heard of it: that is asked until there is an answer.
    pub(super) fn ask(&self, at: Moment) {
        self.ask_at.store(at.as_nanos(), Ordering::Release);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.ask_at.load(Ordering::Acquire) != Moment::NEVER.as_nanos()
    }

    /// The caller has come for it. False if it was withdrawn before.
    pub(super) fn collect(&self) -> bool {
        let collect = |by| (by != WITHDRAWN).then_some(Moment::NEVER.as_nanos());
        self.collect_by.fetch_update(Ordering::AcqRel, Ordering::Acquire, collect).is_ok()
    }

    /// The caller, which has not come for it yet, is at work: it gets so much more time.
    pub(super) fn reserve(&self, more: Duration) {
        let until = self.engine.env.now().after(more).as_nanos();
        let never = Moment::NEVER.as_nanos();
        let put_off = |by| (by != WITHDRAWN && by != never).then_some(until.max(by));
        let _ = self.collect_by.fetch_update(Ordering::AcqRel, Ordering::Acquire, put_off);
    }

    /// Whether its caller should have come for it by now. Asked by the watchdog alone.
    pub(super) fn is_uncollected(&self, now: Moment) -> bool {
        let by = self.collect_by.load(Ordering::Acquire);
        if by == WITHDRAWN || by > now.as_nanos() {
            return false;
        }
        if !self.is_overdue.swap(true, Ordering::AcqRel) {
            self.reserve(config::UNCOLLECTED);
            return false;
        }
        true
    }

    /// Takes it back from a caller that does not come. False if that one has come after all.
    pub(super) fn withdraw(&self, now: Moment) -> bool {
        let withdraw = |by| (by != WITHDRAWN && by <= now.as_nanos()).then_some(WITHDRAWN);
        self.collect_by.fetch_update(Ordering::AcqRel, Ordering::Acquire, withdraw).is_ok()
    }

    pub(super) fn slow_at(&self) -> Moment {
        Moment::from_nanos(self.slow_at.load(Ordering::Acquire))
    }

    /// Warns that it is held for long, if it still is; once.
    pub(super) fn warn(&self) {
        let never = Moment::NEVER.as_nanos();
        let now = self.engine.env.now();
        if self.slow_at.swap(never, Ordering::AcqRel) != never && !self.vitals.is_over() {
            self.observe(Event::SlowHold { held: now.since(self.since) });
        }
    }

    /// What it is for.
    pub(crate) fn label(&self) -> Option<&str> {
        self.info.as_ref()?.label.as_deref()
    }

    /// Something happened to this hold.
    pub(super) fn observe(&self, event: Event) {
        let subject = Subject { kind: self.kind, name: &self.lane.name, label: self.label() };
        self.engine.observer.observe(subject, event);
    }

    /// Renews it at another time, if the watchdog keeps it at all: a guard may have ended that meanwhile.
    pub(super) fn reschedule(&self, at: Moment) {
        put_off(&self.renew_at, at);
        put_off(&self.ask_at, at);
    }

    /// Whether the watchdog keeps it alive from now on.
    pub(super) fn watch(&self, watched: bool) {
        if !watched {
            self.renew_at.store(Moment::NEVER.as_nanos(), Ordering::Release);
        } else if !self.is_watched() {
            let at = self.engine.env.now().after(self.period());
            self.renew_at.store(at.as_nanos(), Ordering::Release);
            self.engine.watchdog.wake_by(at);
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.renew_at.load(Ordering::Acquire) != Moment::NEVER.as_nanos()
    }

    /// The lease that a step sent now must ask for so that it never shortens what was promised before.
    pub(super) fn at_least(&self, lease: Duration) -> Duration {
        lease.max(self.vitals.expires().since(self.engine.env.now()))
    }

    /// What a step about this tenure says.
    pub(super) fn claim(&self, lease: Duration, depth: u32) -> Claim {
        let name = self.lane.name.clone();
        let (owner, what, info) = (self.stay, self.what, self.info.clone());
        Claim { name, owner, lease, depth, heir_of: None, kind: what, info }
    }

    /// A step sent at `sent` was accepted.
    pub(super) fn accept(&self, sent: Moment, lease: Duration) {
        self.vitals.accept(sent, lease);
        self.granted.store(nanos(lease), Ordering::Release);
        if self.is_watched() {
            put_off(&self.renew_at, sent.after(self.period()));
            self.engine.watchdog.wake_by(self.renewal());
        }
    }

    /// The store numbered an acquisition. All guards of one stay have the newest number: an inner one must not leave the outer one's work
    /// to be refused.
    pub(super) fn number(&self, token: Option<u64>) {
        self.token.fetch_max(token.unwrap_or_default(), Ordering::AcqRel);
    }

    /// Another party than its lane finds that the store does not have it.
    pub(crate) fn lose(self: &Arc<Tenure>) {
        self.lane.tell(&self.engine, LaneEvent::Gone(self.clone()));
    }

    /// It has ended, which its vitals say already.
    pub(super) fn ended(&self, event: Event) {
        self.engine.watchdog.forget(self);
        // Observers first: a task that is woken by the loss finds it counted.
        self.observe(event);
        self.vitals.wake_waiters();
    }

    /// There is nothing to hold, such as the openness of a latch.
    pub(super) fn end_unheld(&self) {
        self.vitals.release();
        self.engine.watchdog.forget(self);
        self.vitals.wake_waiters();
    }

    pub(super) fn is_released(&self) -> bool {
        self.vitals.is_released()
    }

    pub(super) fn release_event(&self) -> Event {
        Event::Released { held: self.engine.env.now().since(self.since) }
    }
}

fn nanos(lease: Duration) -> u64 {
    u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX)
}

/// Moves a moment, unless it is never.
fn put_off(moment: &AtomicU64, at: Moment) {
    let never = Moment::NEVER.as_nanos();
    let change = |old| (old != never).then_some(at.as_nanos());
    let _ = moment.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
}

/// One level of a tenure. The task that has it holds the lock; dropping it lets go, wherever that happens.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) tenure: Arc<Tenure>,
    /// Whether this level asked for the watchdog.
    pub(crate) watched: bool,
    armed: bool,
}

impl Hold {
    /// A level that the lane has counted.
    pub(super) fn granted(tenure: Arc<Tenure>, watched: bool) -> Hold {
        let armed = tenure.what.is_held();
        Hold { tenure, watched: watched && armed, armed }
    }

    /// Takes the duty to let go off this hold; the caller has it now.
    pub(super) fn disarm(mut self) -> (Arc<Tenure>, bool) {
        self.armed = false;
        (self.tenure.clone(), self.watched)
    }

    /// Leaves the lock as it is: the watchdog does not renew it, and no guard releases it. Returns the id by which the store knows it.
    pub(crate) fn leak(self) -> Owner {
        let (tenure, watched) = self.disarm();
        tenure.lane.tell(&tenure.engine, LaneEvent::Leak { hold: tenure.clone(), watched });
        tenure.stay
    }

    pub(crate) fn state(&self) -> State {
        self.tenure.vitals.state(self.tenure.engine.env.now())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.armed {
            releasing::let_go(&self.tenure, self.watched);
        }
    }
}
