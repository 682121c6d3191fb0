//! How many ask a server at once: a crowd of callers, or of lanes that look for their waiters, would only get in each other's way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Engine;
use super::domains::PerDomain;
use super::lane::{AskFor, Effect, LaneEvent, Op, Step, StepId};
use super::lanes::LaneRef;
use super::shell::{self, NO_LEASE, Runs, Tasks, ask_of, carry_out, subscribed};
use super::steps::{self, Sending, Sends, Sent};
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::owner::Owner;
use crate::store::{Claim, ClaimKind};

/// How many lanes of one failure domain look at once. The rest wait for their turn in a small queue.
const AT_WORK: usize = 256;

/// Which lanes look for their waiters now, and which wait for a turn, in each failure domain: those that wait for an answer of a server
/// that gives none are in no other lane's way.
#[derive(Debug, Default)]
pub(super) struct Admission(PerDomain<Mutex<Crowd>>);

#[derive(Debug, Default)]
struct Crowd {
    at_work: usize,
    waiting: VecDeque<Box<Job>>,
}

impl Admission {
    fn crowd(&self, domain: usize) -> MutexGuard<'_, Crowd> {
        self.0.at(domain).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the job now, or when its turn comes.
    pub(super) fn run(&self, engine: &Arc<Engine>, job: Job, runs: Runs) {
        let domain = engine.store.failure_domain(&job.sending.lane.name);
        let mut crowd = self.crowd(domain);
        if crowd.at_work >= AT_WORK {
            crowd.waiting.push_back(Box::new(job));
            return;
        }
        crowd.at_work += 1;
        drop(crowd);
        let turn = Turn { engine: engine.clone(), domain };
        shell::start(engine, drive(job, turn), runs);
    }

    /// A turn is over: the next job may begin.
    fn next(&self, domain: usize) -> Option<Box<Job>> {
        let mut crowd = self.crowd(domain);
        let next = crowd.waiting.pop_front();
        if next.is_none() {
            crowd.at_work = crowd.at_work.saturating_sub(1);
            crowd.waiting = VecDeque::new(); // a crowd is over: its room is given back
        }
        next
    }
}

/// A turn at work; ends however the work ends.
#[derive(Debug)]
struct Turn {
    engine: Arc<Engine>,
    /// The one it was given in: the lock may be at another server by now.
    domain: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.engine.admission.next(self.domain) {
            let turn = Turn { engine: self.engine.clone(), domain: self.domain };
            set_to_work(&*self.engine.env, next, turn);
        }
    }
}

/// A runtime that shuts down drops what it is given on the spot. If that were the job, its turn would end there and be given to the
/// next one, and so on, one within the other, until the stack is full. So what is spawned only shares it, and a job that was not taken
/// goes where no shutdown reaches it.
fn set_to_work(env: &dyn Env, job: Box<Job>, turn: Turn) {
    type Offered = Mutex<Option<(Box<Job>, Turn)>>;
    let offered: Arc<Offered> = Arc::new(Mutex::new(Some((job, turn))));
    let take = |offered: &Offered| offered.lock().unwrap_or_else(PoisonError::into_inner).take();
    let shared = offered.clone();
    env.spawn(Box::pin(async move {
        if let Some((job, turn)) = take(&shared) {
            drive(*job, turn).await;
        }
    }));
    if Arc::strong_count(&offered) == 1
        && let Some((job, turn)) = take(&offered)
    {
        env.spawn_background(Box::pin(drive(*job, turn)));
    }
}

/// What a lane wants done for its waiters.
#[derive(Debug)]
pub(super) struct Job {
    sending: Sending,
    todo: Todo,
}

#[derive(Debug)]
enum Todo {
    Ask(AskFor<Tasks>),
    Listen(Owner, ClaimKind),
}

impl Job {
    pub(super) fn ask(
        engine: &Arc<Engine>,
        lane: &LaneRef,
        step: StepId,
        ask: AskFor<Tasks>,
    ) -> Job {
        let sending = Sending::begin(engine, lane, step, Some(ask.want));
        Job { sending, todo: Todo::Ask(ask) }
    }

    pub(super) fn listen(
        engine: &Arc<Engine>,
        lane: &LaneRef,
        step: StepId,
        stay: Owner,
        what: ClaimKind,
    ) -> Job {
        let sending = Sending::begin(engine, lane, step, None);
        Job { sending, todo: Todo::Listen(stay, what) }
    }

    /// What the lane wants done next for its waiters, if it wants that at once.
    fn following(engine: &Arc<Engine>, lane: &LaneRef, left: &mut shell::LeftToDo) -> Option<Job> {
        let effect = left.effects.take(|effect| match effect {
            Effect::Step(step) => matches!(step.op, Op::Acquire(_)),
            effect => matches!(effect, Effect::Listen { .. }),
        })?;
        match effect {
            Effect::Step(Step { id, op: Op::Acquire(ask) }) => {
                Some(Job::ask(engine, lane, id, *ask))
            }
            Effect::Listen { step, stay, what } => {
                Some(Job::listen(engine, lane, step, stay, what))
            }
            _ => None,
        }
    }
}

/// Does a job, and what the lane wants done right after it.
async fn drive(first: Job, turn: Turn) {
    let mut next = Some(first);
    while let Some(job) = next.take() {
        let env = turn.engine.env.clone();
        next = steps::until_answered(&*env, job).await;
    }
    drop(turn);
}

/// The lane itself decides when its waiters are asked for again: here each is sent once.
impl Sends for Job {
    type Answer = Option<Job>;

    async fn send(&mut self) -> Sent<Option<Job>> {
        let (engine, lane) = (self.sending.engine.clone(), self.sending.lane.clone());
        let event = match &mut self.todo {
            Todo::Ask(ask) => {
                if std::mem::take(&mut ask.anew) {
                    under_new_stay(&engine, &lane, ask);
                    self.sending.wants(ask.want);
                }
                let mut doubt = false;
                let (step, asked) = (self.sending.id(), ask_of(ask));
                steps::attempt(&engine, &lane, &asked, ask.want, step, &mut doubt).await
            }
            Todo::Listen(stay, kind) => {
                let claim = Claim {
                    name: lane.name.clone(),
                    owner: *stay,
                    lease: NO_LEASE,
                    depth: 1,
                    heir_of: None,
                    kind: *kind,
                    info: None,
                };
                let listener = engine.store.listen(&claim).await;
                let result = listener.map(|listener| subscribed(&engine, &lane, listener));
                let (step, chance) = (self.sending.id(), engine.env.random());
                LaneEvent::Listening { step, result, chance }
            }
        };
        let (mut left, _) = self.sending.answer(event);
        let following = Job::following(&engine, &lane, &mut left);
        carry_out(&engine, &lane, left, Runs::Here);
        Sent::Done(following)
    }
}

/// Not with the lane locked: a named owner may have an id elsewhere.
fn under_new_stay(engine: &Arc<Engine>, lane: &LaneRef, ask: &mut AskFor<Tasks>) {
    let want = &mut ask.want;
    let who = engine.new_stay(&lane.name, want.what, want.owner, want.explicit);
    (want.owner, want.stay) = (who.owner, who.stay);
    let (owner, stay) = (who.owner, who.stay);
    lane.tell(engine, LaneEvent::Renamed { ticket: ask.ticket, owner, stay });
}

/// Callers who ask the store by themselves; more than so many at once only get in each other's way.
#[derive(Debug)]
pub(super) struct Askers {
    turns: Arc<Semaphore>,
    /// How many turns have ended.
    ended: AtomicU64,
    is_supervised: AtomicBool,
}

/// A caller's turn to ask.
#[derive(Debug)]
pub(super) struct AskersTurn {
    askers: Arc<Askers>,
    _turn: OwnedSemaphorePermit,
}

impl Drop for AskersTurn {
    fn drop(&mut self) {
        self.askers.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Askers {
    pub(super) fn new(at_once: usize) -> Arc<Askers> {
        let (ended, is_supervised) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Askers { turns: Arc::new(Semaphore::new(at_once)), ended, is_supervised })
    }

    pub(super) fn try_turn(self: &Arc<Askers>) -> Option<AskersTurn> {
        let turn = self.turns.clone().try_acquire_owned().ok()?;
        Some(AskersTurn { askers: self.clone(), _turn: turn })
    }
}

/// Waits for a turn to ask.
pub(super) async fn crowded(
    engine: Arc<Engine>,
    askers: Arc<Askers>,
    patience: Moment,
) -> Result<AskersTurn> {
    let full = || {
        Error::new(
            ErrorKind::Unavailable,
            "too many requests for locks are in flight at once: retry later",
        )
    };
    if !askers.is_supervised.swap(true, Ordering::AcqRel) {
        let supervised = supervise(engine.env.clone(), Arc::downgrade(&askers));
        engine.env.spawn_background(Box::pin(supervised));
    }
    let turn = askers.turns.clone().acquire_owned();
    let turn = match patience {
        Moment::NEVER => turn.await,
        patience => tokio::select! {
            biased;
            turn = turn => turn,
            () = engine.env.sleep_until(patience) => return Err(full()),
        },
    };
    turn.map(|turn| AskersTurn { askers, _turn: turn }).map_err(|_| full())
}

/// While there is a crowd: if no turn ends for as long as an answer may take, those who have them are not polled any more. They must
/// not keep the others from asking, so there are more turns then. One task for a crowd: a timer each would cost more than waiting.
async fn supervise(env: Arc<dyn Env>, askers: Weak<Askers>) {
    let ended = || askers.upgrade().map(|askers| askers.ended.load(Ordering::Relaxed));
    loop {
        let before = ended();
        env.sleep_in_background(env.now().after(config::REPLY_TIMEOUT * 2)).await;
        let Some(askers) = askers.upgrade() else { return };
        if askers.turns.available_permits() > 0 {
            askers.is_supervised.store(false, Ordering::Release);
            // A crowd that has just begun takes this task for its own.
            let begun = askers.turns.available_permits() == 0;
            if !begun || askers.is_supervised.swap(true, Ordering::AcqRel) {
                return;
            }
        } else if ended() == before {
            askers.turns.add_permits(config::ASKERS);
        }
    }
}
