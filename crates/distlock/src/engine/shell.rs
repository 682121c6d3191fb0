//! The shell around a lane: it locks the lane, feeds it an event, and carries out the effects.
//!
//! What touches only the vitals of a hold is done before the lane is unlocked, so that it happens in the lane's order; and what wakes a lane
//! that rests is set before that, so that no message is missed. Everything else is done after it, and never looks at the lane's state again.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::runtime::RuntimeFlavor::MultiThread;
use tokio::sync::{Notify, oneshot};

use super::Engine;
use super::admission::Job;
use super::detach::Adoptable;
use super::hold::{Begun, Hold, Tenure, Who};
use super::kind_rules::{Class, Spot};
use super::lane::{AskFor, Effect, Effects, Heir, Lane, LaneEvent, Op, Parties, Step, Until, Want};
use super::lanes::{LaneRef, Shards};
use super::receipts::Receipt;
use super::steps::{self, Sending};
use super::timer::TimerKey;
use super::vitals::Life;
use super::watchdog;
use crate::env::{BoxFuture, Moment};
use crate::error::Error;
use crate::holder::Asker;
use crate::observe;
use crate::owner::Owner;
use crate::store::{ClaimKind, Kind, Listener};

/// The parties of a lane in a running program.
#[derive(Debug)]
pub(super) enum Tasks {}

/// How a task that waits gets its answer, and what an attempt for it says.
#[derive(Debug)]
pub(super) struct WaiterHandle {
    pub(super) grant: oneshot::Sender<Grant>,
    pub(super) about: About,
}

/// What an attempt says of the caller that it is for.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) kind: Kind,
    pub(super) asker: Option<Arc<Asker>>,
}

/// What a waiter gets.
#[derive(Debug)]
pub(super) enum Grant {
    /// The lock.
    Hold(Hold),
    /// It may ask for itself: its own owner holds the lock now, or several can.
    Again,
    /// An error that ends its wait.
    Failed(Error),
}

impl Parties for Tasks {
    type Waiter = WaiterHandle;
    type About = About;
    type Hold = Arc<Tenure>;
    type Receipt = Receipt;

    fn about(waiter: &WaiterHandle) -> About {
        waiter.about.clone()
    }

    fn heir(
        giver: &Arc<Tenure>,
        waiter: &WaiterHandle,
        want: &Want,
        anew: bool,
        life: Life,
    ) -> Heir<Arc<Tenure>> {
        let engine = &giver.engine;
        let who = match anew {
            true => engine.new_stay(giver.name(), want.what, want.owner, want.explicit),
            false => Who { owner: want.owner, stay: want.stay },
        };
        let lease = want.lease.unwrap_or(engine.tuning.watchdog);
        let begun = Begun {
            kind: waiter.about.kind,
            what: want.what,
            who,
            lease,
            granted: lease,
            watched: want.lease.is_none(),
            info: waiter.about.asker.as_ref().map(|asker| asker.info(&*engine.env)),
        };
        let hold = Tenure::begin(engine, giver.lane.clone(), begun, life);
        Heir { hold, owner: who.owner, stay: who.stay }
    }
}

/// A lane with all that it needs in a running program.
#[derive(Debug)]
pub(super) struct LaneCell {
    pub(super) name: Arc<str>,
    class: Class,
    /// In a box because most lanes have none.
    apart: Option<Box<Apart>>,
    pub(super) home: Arc<Shards>,
    /// How many `LaneRef`s there are.
    pub(super) users: AtomicUsize,
    inner: Mutex<Inner>,
    /// How many releases that are counted here are under way. Counted before the lane that releases is unlocked only in effect: an end
    /// may be counted before its beginning.
    releasing: AtomicI32,
    /// For callers: something changed that they may wait for.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    lane: Lane<Tasks>,
    /// Steps that callers send themselves, and that a task that waits for their end may have to take over.
    works: [Option<Adoptable>; 2],
    /// What it takes to wait.
    wait: Option<Box<WakeUps>>,
}

/// What the lane needs while tasks wait in it.
#[derive(Debug)]
struct WakeUps {
    engine: Arc<Engine>,
    listener: Option<Listener>,
    timer: Option<TimerKey>,
}

impl Drop for WakeUps {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.engine.timer.cancel(timer);
        }
    }
}

/// What a lane has that is one of several of its name.
#[derive(Debug)]
struct Apart {
    /// Set for a lane that serves one owner.
    own: Option<Owner>,
    /// The lane in which this one's releases are counted.
    counted: LaneRef,
}

/// Which of a caller's steps it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lent {
    Attempt,
    Telling,
}

/// A lane as a waker: a topic with a message wakes it.
impl Wake for LaneCell {
    fn wake(self: Arc<LaneCell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<LaneCell>) {
        let lane = LaneRef::to(self);
        let mut inner = lane.inner();
        if inner.lane.rests_until().is_none() {
            return; // it looks before it rests again
        }
        let Some(wait) = &mut inner.wait else { return };
        let engine = wait.engine.clone();
        let event = match poll(self, wait) {
            Some(releases) => LaneEvent::Heard(releases),
            None if wait.listener.is_some() => return,
            None => LaneEvent::Tick,
        };
        let done = self.feed(inner, &engine, event);
        carry_out(&engine, &lane, done, Runs::Here);
    }
}

impl LaneCell {
    /// A time that the lane has set has come.
    pub(super) fn time_has_come(self: &Arc<LaneCell>) {
        let lane = LaneRef::to(self);
        let inner = lane.inner();
        let Some(wait) = &inner.wait else { return };
        if inner.lane.rests_until().is_none() {
            return;
        }
        let engine = wait.engine.clone();
        let left = self.feed(inner, &engine, LaneEvent::Tick);
        carry_out(&engine, &lane, left, Runs::Here);
    }
}

/// What the topic has counted since the last time. If nothing, its next message wakes the lane.
fn poll(lane: &Arc<LaneCell>, wait: &mut WakeUps) -> Option<u64> {
    let waker = Waker::from(lane.clone());
    match wait.listener.as_mut()?.poll_heard(&mut Context::from_waker(&waker)) {
        Poll::Ready(releases) => Some(releases),
        Poll::Pending => None,
    }
}

impl LaneCell {
    pub(super) fn new(
        name: Arc<str>,
        spot: Spot,
        counted: Option<LaneRef>,
        lane: Lane<Tasks>,
        home: Arc<Shards>,
    ) -> LaneCell {
        let apart = counted.map(|counted| Box::new(Apart { own: spot.own, counted }));
        let inner = Inner { lane, works: [None, None], wait: None };
        LaneCell {
            name,
            class: spot.class,
            apart,
            home,
            users: AtomicUsize::new(0),
            inner: Mutex::new(inner),
            releasing: AtomicI32::new(0),
            changed: Notify::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a hold in this lane is, as far as letting go of it needs to know.
    pub(super) fn what(&self, permits: u32) -> ClaimKind {
        self.class.what(permits)
    }

    pub(super) fn is_at(&self, spot: Spot) -> bool {
        self.class == spot.class && self.apart.as_ref().and_then(|apart| apart.own) == spot.own
    }

    /// Where releases of this lane are counted, with those of its like.
    fn count(&self) -> &LaneCell {
        self.apart.as_ref().map_or(self, |apart| &apart.counted)
    }

    /// Whether releases that a single try must wait for are under way.
    pub(super) fn is_releasing(&self) -> bool {
        self.count().releasing.load(Ordering::Acquire) > 0
    }

    /// Reads what there is to know of the lane.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Lane<Tasks>) -> T) -> T {
        look(&self.inner().lane)
    }

    /// Who of this process holds it now.
    pub(super) fn tenure(&self) -> Option<Arc<Tenure>> {
        self.read(|lane| lane.hold().cloned())
    }

    /// Ends when the lane is so.
    pub(super) async fn until(&self, until: Until) {
        self.until_so(|lane| lane.is(until)).await;
    }

    /// Ends when this is so: for what a lane and its like know together.
    pub(super) async fn until_so(&self, so: impl Fn(&Lane<Tasks>) -> bool) {
        loop {
            let changed = self.changed.notified();
            if self.read(&so) {
                return;
            }
            changed.await;
        }
    }

    /// Ends when the releases that are counted with this lane's have ended.
    pub(super) async fn until_released(&self) {
        let count = self.count();
        loop {
            let changed = count.changed.notified();
            if !self.is_releasing() {
                return;
            }
            changed.await;
        }
    }

    /// Ends at the next change, of whatever sort.
    pub(super) async fn change(&self) {
        self.changed.notified().await;
    }

    /// Has the library's own thread poll what callers of this process have under way here.
    pub(super) fn adopt(&self) {
        let works = self.inner().works.clone();
        for work in works.into_iter().flatten() {
            if let Some(work) = work.upgrade() {
                work.adopt();
            }
        }
    }

    /// Notes a step that its caller polls.
    pub(super) fn lend(&self, work: Lent, adoptable: Adoptable) {
        self.inner().works[work as usize] = Some(adoptable);
    }

    /// Whether a caller polls the step that tells the store something.
    pub(super) fn is_told_by_a_caller(&self) -> bool {
        let work = &self.inner().works[Lent::Telling as usize];
        work.as_ref().is_some_and(|work| work.strong_count() > 0)
    }
}

impl LaneRef {
    /// Feeds the lane an event, and returns what there is left to do.
    pub(super) fn on(&self, engine: &Arc<Engine>, event: LaneEvent<Tasks>) -> LeftToDo {
        self.lane().feed(self.inner(), engine, event)
    }

    /// The same, and notes the step that the caller polls if `begin` finds one among the effects. The lane is still locked then, so
    /// `begin` must not look at any lane.
    pub(super) fn on_lending(
        &self,
        engine: &Arc<Engine>,
        event: LaneEvent<Tasks>,
        begin: impl FnOnce(&mut Effects<Tasks>) -> Option<(Lent, Adoptable)>,
    ) -> LeftToDo {
        let mut inner = self.inner();
        let mut left = self.lane().feed_locked(&mut inner, engine, event);
        if let Some((lent, adoptable)) = begin(&mut left.effects) {
            inner.works[lent as usize] = Some(adoptable);
        }
        left
    }

    /// The same for an event whose effects the caller does not look at.
    pub(super) fn tell(&self, engine: &Arc<Engine>, event: LaneEvent<Tasks>) {
        let done = self.on(engine, event);
        carry_out(engine, self, done, Runs::Here);
    }
}

/// What is left to do once the lane is unlocked.
pub(super) struct LeftToDo {
    pub(super) effects: Effects<Tasks>,
    /// Not dropped while the lane is locked: a subscription ends with it.
    dropped: Option<Box<WakeUps>>,
}

impl LaneCell {
    fn feed(
        self: &Arc<LaneCell>,
        mut inner: MutexGuard<'_, Inner>,
        engine: &Arc<Engine>,
        event: LaneEvent<Tasks>,
    ) -> LeftToDo {
        self.feed_locked(&mut inner, engine, event)
    }

    fn feed_locked(
        self: &Arc<LaneCell>,
        inner: &mut Inner,
        engine: &Arc<Engine>,
        event: LaneEvent<Tasks>,
    ) -> LeftToDo {
        let mut effects = Effects::default();
        let now = engine.env.now();
        inner.lane.on(event, now, &mut effects);
        apply_to_vitals(&mut effects);
        while effects.take(|effect| matches!(effect, Effect::Rest(_))).is_some() {
            if let Some(releases) = self.rest(inner, engine) {
                inner.lane.on(LaneEvent::Heard(releases), now, &mut effects);
                apply_to_vitals(&mut effects);
            }
        }
        if inner.lane.rests_until().is_none()
            && let Some(wait) = &mut inner.wait
            && let Some(timer) = wait.timer.take()
        {
            engine.timer.cancel(timer);
        }
        let over = effects.take(|effect| matches!(effect, Effect::Unlisten)).is_some();
        let dropped = if over && inner.lane.waits_for_nothing() { inner.wait.take() } else { None };
        LeftToDo { effects, dropped }
    }

    /// Sets what wakes the lane; returns how many releases were published already, if any were.
    fn rest(self: &Arc<LaneCell>, inner: &mut Inner, engine: &Arc<Engine>) -> Option<u64> {
        let until = inner.lane.rests_until()?;
        let wait = inner.wait.get_or_insert_with(|| {
            Box::new(WakeUps { engine: engine.clone(), listener: None, timer: None })
        });
        let heard = poll(self, wait);
        if heard.is_some() {
            return heard;
        }
        if let Some(timer) = wait.timer.take() {
            engine.timer.cancel(timer);
        }
        wait.timer = (until != Moment::NEVER).then(|| engine.timer.set(until, self));
        None
    }
}

/// Does what touches only the vitals of holds.
fn apply_to_vitals(effects: &mut Effects<Tasks>) {
    for place in effects.iter_mut() {
        let is_done = match place {
            Some(Effect::Accepted { hold, sent, lease }) => {
                hold.accept(*sent, *lease);
                true
            }
            Some(Effect::Watch { hold, watched }) => {
                hold.watch(*watched);
                true
            }
            Some(Effect::Reassured(hold)) => {
                hold.vitals.reassure();
                true
            }
            // These are told to observers as well, if they are news.
            Some(Effect::Suspect(hold)) => !hold.vitals.doubt(),
            Some(Effect::Lost(hold) | Effect::Revoked(hold)) => !hold.vitals.lose(),
            Some(Effect::Released(hold) | Effect::Leaked(hold)) => {
                hold.vitals.release();
                false
            }
            _ => false,
        };
        if is_done {
            *place = None;
        }
    }
}

/// Where steps are sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// Here and now, if that may be.
    Here,
    /// Where no shutdown of a runtime reaches them: the present one may be shutting down.
    InBackground,
}

/// How deep effects may be carried out within each other on one thread: a store that answers at once sends the next message within the
/// answer to the last one.
const DEEPEST: u32 = 8;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Carries out what a lane wants done. The answers to callers have been taken out.
pub(super) fn carry_out(engine: &Arc<Engine>, lane: &LaneRef, done: LeftToDo, runs: Runs) {
    let LeftToDo { effects, dropped } = done;
    for effect in effects {
        one(engine, lane, effect, runs);
    }
    drop(dropped);
}

fn one(engine: &Arc<Engine>, lane: &LaneRef, effect: Effect<Tasks>, runs: Runs) {
    match effect {
        Effect::Step(Step { id, op: Op::Acquire(ask) }) => {
            engine.admission.run(engine, Job::ask(engine, lane, id, *ask), runs);
        }
        Effect::Listen { step, stay, what } => {
            engine.admission.run(engine, Job::listen(engine, lane, step, stay, what), runs);
        }
        Effect::Step(step) => start(engine, steps::tell(engine, lane, step), runs),
        Effect::Grant { waiter, hold, watched } => {
            let hold = Hold::granted(hold, watched);
            drop(waiter.grant.send(Grant::Hold(hold)));
        }
        Effect::Unclaimed { hold, watched } => drop(Hold::granted(hold, watched)),
        Effect::AskAgain(waiter) => drop(waiter.grant.send(Grant::Again)),
        Effect::Refuse(waiter, error) => drop(waiter.grant.send(Grant::Failed(error))),
        Effect::ForgetThere(want) => {
            let lane = engine.lanes.to_sit(engine, &lane.name, want.what, want.owner);
            let lease = want.lease.unwrap_or(engine.tuning.watchdog);
            let (what, stay) = (want.what, want.stay);
            let done = lane.on(engine, LaneEvent::Forget { what, stay, lease, receipt: None });
            carry_out(engine, &lane, done, runs);
        }
        Effect::Receipts(answer) => {
            for receipt in answer.to {
                receipt.answer(answer.how.clone());
            }
        }
        Effect::Suspect(hold) => hold.observe(observe::Event::Suspect),
        Effect::Entered(hold) => hold.observe(observe::Event::Entered),
        Effect::Lost(hold) => hold.ended(observe::Event::Lost),
        Effect::Revoked(hold) => hold.ended(observe::Event::Revoked),
        Effect::Released(hold) => hold.ended(hold.release_event()),
        Effect::Leaked(hold) => {
            engine.remember_leaked(&hold);
            hold.ended(observe::Event::Leaked);
        }
        Effect::Renewed { hold, held } => match held {
            Ok(true) => hold.observe(observe::Event::Renewed),
            Ok(false) => {}
            Err(_) => watchdog::again(&hold),
        },
        Effect::Releasing(begins) => {
            let count = lane.count();
            count.releasing.fetch_add(if begins { 1 } else { -1 }, Ordering::AcqRel);
            if !begins && let Some(apart) = &lane.apart {
                count.changed.notify_waiters();
                let done = apart.counted.on(engine, LaneEvent::Tick);
                carry_out(engine, &apart.counted, done, runs);
            }
        }
        Effect::Adopt => lane.adopt(),
        Effect::Changed => lane.changed.notify_waiters(),
        // The caller or the shell has taken these out before.
        Effect::Way(_)
        | Effect::Queued(_)
        | Effect::Left
        | Effect::Tried(_)
        | Effect::Retry(_)
        | Effect::Rest(_)
        | Effect::Unlisten
        | Effect::Accepted { .. }
        | Effect::Watch { .. }
        | Effect::Reassured(_) => {}
    }
}

/// Lets `work` run to its end beside the caller. Begun here and now if that may be, so that what it sends is sent before the caller
/// goes on, and from a message to the next attempt no task is spawned.
pub(super) fn start(engine: &Engine, work: impl Future<Output = ()> + Send + 'static, runs: Runs) {
    let mut work: BoxFuture<'static, ()> = Box::pin(work);
    if runs == Runs::InBackground {
        return engine.env.spawn_background(work);
    }
    if may_run_here(engine) {
        let depth = DEPTH.get();
        if depth < DEEPEST {
            DEPTH.set(depth + 1);
            let polled = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            DEPTH.set(depth);
            if polled.is_ready() {
                return;
            }
        }
    }
    engine.env.spawn(work);
}

/// On a runtime without threads of its own no thread may be there to go on with what was begun on it; a store that may block must not
/// block this thread; and nothing that could panic should run while the thread panics already.
fn may_run_here(engine: &Engine) -> bool {
    let threads = || Handle::try_current().is_ok_and(|here| here.runtime_flavor() == MultiThread);
    let store = engine.store.capabilities();
    let here = store.answers_at_once
        || !store.may_block && (threads() || engine.env.is_background_thread());
    here && !std::thread::panicking()
}

/// Feeds the subscription to the lane.
pub(super) fn subscribed(engine: &Arc<Engine>, lane: &LaneRef, listener: Listener) {
    let mut inner = lane.inner();
    let wait = inner.wait.get_or_insert_with(|| {
        Box::new(WakeUps { engine: engine.clone(), listener: None, timer: None })
    });
    let before = wait.listener.replace(listener);
    drop(inner);
    drop(before);
}

/// A claim that only subscribes asks for no lease.
pub(super) const NO_LEASE: Duration = Duration::ZERO;

/// An attempt for a waiter, as its caller would have asked.
pub(super) fn ask_of(ask: &AskFor<Tasks>) -> super::Ask {
    let Want { what, owner, stay, explicit, lease, spin, .. } = ask.want;
    let About { kind, asker } = ask.about.clone();
    super::Ask {
        kind,
        what,
        spin,
        owner,
        stay,
        explicit,
        part: true, // of a request that has been counted
        lease,
        wait: super::Wait::Forever,
        asker,
    }
}

/// A step whose future was dropped.
impl Drop for Sending {
    fn drop(&mut self) {
        if let Some((id, want)) = self.unanswered() {
            let done = self.lane.on(&self.engine, LaneEvent::Abandoned { step: id, want });
            carry_out(&self.engine, &self.lane, done, Runs::InBackground);
        }
    }
}
