//! Waiting, holding and letting go. Knows no Redis, and of kinds no more than their [`ClaimKind`].
//!
//! ```text
//! lane/         THE MACHINE: one lock as one process uses it; pure
//! shell.rs      locks a lane, feeds it an event, carries out its effects
//! steps.rs      one step to a store and its answer; the one retry loop
//! acquiring.rs  the caller's future: ask the store; if the lock is busy, queue in the lane
//! releasing.rs  the one way out of a hold
//! hold.rs       Tenure, one owner's stay in the lock; Hold, whose drop lets go
//! vitals.rs     until when a hold is believed in, for guards to read
//! watchdog.rs   renews, and finds holds whose deadline is over
//! timer.rs      when a lane that rests looks again
//! admission.rs  how many ask a server at once
//! lanes.rs      the table of lanes
//! kind_rules.rs what there is to know of a kind
//! multi.rs      several locks, all or none; multi_step.rs those of one store in one step
//! stays.rs      the id by which the store knows an owner
//! detach.rs     work that a caller may watch but not cancel
//! receipts.rs   the answer to a caller that waits for the result of a release
//! flush.rs      a short wait for releases when the last `Locks` is dropped
//! domains.rs    what is kept apart for locks that do not fail together
//! tuning.rs     what a program can set
//! ```

mod acquiring;
mod admission;
mod detach;
mod domains;
mod flush;
mod hold;
mod kind_rules;
mod lane;
mod lanes;
mod multi;
mod multi_step;
mod receipts;
mod releasing;
mod shell;
mod stays;
mod steps;
mod timer;
mod tuning;
mod vitals;
mod watchdog;

#[cfg(test)]
mod tests;

pub(crate) use acquiring::{Acquiring, Ask, Wait};
pub(crate) use detach::Detached;
pub(crate) use flush::flush;
pub(crate) use hold::{Hold, Tenure};
pub(crate) use multi::{All, Part, acquire_all, unlock_all};
pub(crate) use releasing::{lost, unlock};
pub(crate) use tuning::Tuning;
pub use vitals::State;
pub(crate) use vitals::Vitals;
pub(crate) use watchdog::extend;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use crate::Durability;
use crate::env::{BoxFuture, Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Asker, HolderInfo};
use crate::locks::config;
use crate::observe::{Event, Observer, Subject};
use crate::owner::Owner;
use crate::store::{Admin, ClaimKind, Kind, Mode, PermitId, Released, Snapshot, Store};

use admission::{Admission, Askers};
use domains::PerDomain;
use lane::{LaneEvent, Rules, Until};
use lanes::{LaneRef, Lanes};
use stays::Leaked;
use steps::{Sends, Sent, until_answered};
use timer::Timer;
use watchdog::Watchdog;

/// Runs `work` on the library's own thread while the calling thread waits for it.
pub(crate) fn block_on<T: Send + 'static>(
    env: &dyn Env,
    work: BoxFuture<'static, Result<T>>,
) -> Result<T> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    env.spawn_background(Box::pin(async move { drop(send.send(work.await)) }));
    receive.recv().unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the library's background thread has ended: the process is exiting, or was forked",
        ))
    })
}

/// What is the same for all locks of one `Locks`.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) env: Arc<dyn Env>,
    observer: Arc<dyn Observer>,
    client: Uuid,
    pub(crate) tuning: Tuning,
    lanes: Lanes,
    /// The same for all lanes.
    rules: Arc<Rules>,
    admission: Admission,
    timer: Arc<Timer>,
    /// Callers who ask the store by themselves; more than this at once only get in each other's way.
    askers: PerDomain<Arc<Askers>>,
    watchdog: Arc<Watchdog>,
    closed: AtomicBool,
    /// What steps that let go carry if holders say who they are: the store removes what it has kept.
    leaving: Option<Arc<HolderInfo>>,
    /// What named owners left behind on purpose.
    leaked: Leaked,
}

impl Engine {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        env: Arc<dyn Env>,
        observer: Arc<dyn Observer>,
        tuning: Tuning,
    ) -> Arc<Engine> {
        let leaving = tuning.service.as_ref();
        let leaving = leaving.map(|service| Asker::new(service, None, env.now()).info(&*env));
        Arc::new(Engine {
            watchdog: Watchdog::new(&store, env.clone()),
            rules: Arc::new(Rules {
                watchdog: tuning.watchdog,
                recheck: config::recheck(tuning.watchdog),
                passes_on: store.capabilities().passes_on,
                acks: store.capabilities().durability != Durability::Primary,
            }),
            timer: Timer::new(env.clone()),
            admission: Admission::default(),
            askers: PerDomain::new(|| Askers::new(config::ASKERS)),
            store,
            env,
            observer,
            client: Uuid::new_v4(),
            tuning,
            lanes: Lanes::default(),
            closed: AtomicBool::new(false),
            leaving,
            leaked: Leaked::default(),
        })
    }

    /// An engine like this one over another store.
    pub(crate) fn over(&self, store: Arc<dyn Store>) -> Arc<Engine> {
        let (env, observer) = (self.env.clone(), self.observer.clone());
        Engine::new(store, env, observer, self.tuning.clone())
    }

    /// What tells it from every other engine.
    pub(crate) fn client(&self) -> Uuid {
        self.client
    }

    pub(crate) fn mint_owner(&self) -> Owner {
        Owner::mint(self.client)
    }

    fn observe(&self, kind: Kind, name: &str, event: Event) {
        self.observer.observe(Subject { kind, name, label: None }, event);
    }

    /// Whom a caller asks together with.
    fn askers(&self, name: &str) -> Arc<Askers> {
        self.askers.at(self.store.failure_domain(name)).clone()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn closed_error() -> Error {
        Error::new(ErrorKind::Closed, "this Locks was closed; connect again to lock")
    }

    /// Asks the store something, again after a failure, for at most the command timeout.
    pub(crate) async fn ask<'a, T: Send>(
        &self,
        question: impl Fn() -> BoxFuture<'a, Result<T>> + Send,
    ) -> Result<T> {
        let mut unsure = false;
        self.ask_unsure(question, &mut unsure).await
    }

    /// The same for something that changes the store: tells whether it may have happened before the answered time.
    async fn ask_unsure<'a, T: Send>(
        &self,
        question: impl Fn() -> BoxFuture<'a, Result<T>> + Send,
        unsure: &mut bool,
    ) -> Result<T> {
        let until = self.env.now().after(config::COMMAND_TIMEOUT);
        let is_safe = |e: &Error| e.is_retryable();
        until_answered(&*self.env, Question { env: &*self.env, question, is_safe, until, unsure })
            .await
    }

    /// What the store knows under `name`, once this process's own steps have arrived there.
    pub(crate) async fn inspect(&self, what: ClaimKind, name: &Arc<str>) -> Result<Snapshot> {
        self.settle(name).await;
        self.ask(|| self.store.inspect(what, name)).await.map(|seen| self.in_own_names(seen))
    }

    /// Frees the lock, whichever owner holds it. Holders of this engine learn of it at once.
    pub(crate) async fn force(
        self: &Arc<Engine>,
        what: ClaimKind,
        name: &Arc<str>,
    ) -> Result<Snapshot> {
        let lanes = self.settle(name).await;
        let mut unsure = false;
        let forced = self.ask_unsure(|| self.store.force(what, name), &mut unsure).await;
        for tenure in lanes.iter().filter_map(|lane| lane.tenure()) {
            match &forced {
                Ok(before) if was_in(before, &tenure) => tenure.lose(),
                _ if unsure => tenure.lane.tell(self, LaneEvent::RenewDue(tenure.clone())),
                _ => {}
            }
        }
        match forced {
            Ok(before) if unsure && !before.is_held() => {
                let text = "the store's first reply was lost: the lock is free now, but whether it was held before is not known";
                Err(Error::new(ErrorKind::Indeterminate, text))
            }
            forced => forced.map(|before| self.in_own_names(before)),
        }
    }

    /// Lets this process's own steps about `name` arrive at the store first, if they do so in time.
    async fn settle(&self, name: &str) -> Vec<LaneRef> {
        let lanes = self.lanes.named(name);
        if lanes.iter().any(|lane| lane.read(|lane| lane.is_telling())) {
            lanes.iter().for_each(|lane| lane.adopt());
            let settled = async {
                for lane in &lanes {
                    lane.until(Until::ToldAll).await;
                }
            };
            let until = self.env.now().after(config::REPLY_TIMEOUT);
            tokio::select! {
                biased;
                () = settled => {}
                () = self.env.sleep_until(until) => {}
            }
        }
        lanes
    }

    /// Frees what `owner` holds although no guard of it is left here.
    pub(crate) async fn release_leaked(
        self: &Arc<Engine>,
        kind: Kind,
        what: ClaimKind,
        name: &Arc<str>,
        owner: Owner,
    ) -> Result<()> {
        self.settle(name).await;
        if self.is_guarded(name, what, owner) {
            let text = "this process holds the lock through a guard: unlock the guard";
            return Err(Error::new(ErrorKind::NotHeld, text).about(kind, name));
        }
        let stay = self.left_by(name, what, owner);
        let lane = self.lanes.to_sit(self, name, what, owner);
        let claim = steps::last_claim(self, &lane, what, stay);
        let mut unsure = false;
        match self.ask_unsure(|| self.store.release(&claim), &mut unsure).await? {
            Released::NotHeld if !unsure => {
                let text = format!("{owner} does not hold the lock");
                Err(Error::new(ErrorKind::NotHeld, text).about(kind, name))
            }
            _ => {
                self.forget_leaked(stay);
                Ok(())
            }
        }
    }

    /// Has the library's own thread poll what callers of this process have under way about `name`.
    fn adopt(&self, name: &str) {
        self.lanes.named(name).iter().for_each(|lane| lane.adopt());
    }

    /// Looks after a count. Asks again only if the operation stays the same when it is done twice.
    pub(crate) async fn admin(&self, name: &Arc<str>, op: &Admin) -> Result<i64> {
        self.admin_unsure(name, op).await.map(|(answer, _)| answer)
    }

    /// The same, with whether an earlier request for it got no answer: that one may have been done, or be done later.
    pub(crate) async fn admin_unsure(&self, name: &Arc<str>, op: &Admin) -> Result<(i64, bool)> {
        self.settle(name).await;
        if op.is_idempotent() {
            let mut unsure = false;
            let answer = self.ask_unsure(|| self.store.admin(name, op), &mut unsure).await?;
            return Ok((answer, unsure));
        }
        let until = self.env.now().after(config::COMMAND_TIMEOUT);
        // Surely not done, so it can be done now.
        let is_safe = |e: &Error| e.kind() == ErrorKind::Unavailable;
        let (question, unsure) = (|| self.store.admin(name, op), &mut false);
        let question = Question { env: &*self.env, question, is_safe, until, unsure };
        until_answered(&*self.env, question).await.map(|answer| (answer, false))
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self, name: &str) -> usize {
        let lanes = self.lanes.all().into_iter().filter(|lane| *lane.name == *name);
        lanes.map(|lane| lane.read(|lane| lane.waiters().count())).sum()
    }

    /// Ends every wait with `Closed`, releases what is still held and waits until the store knows it.
    pub(crate) async fn close(self: &Arc<Engine>) {
        self.closed.store(true, Ordering::Release);
        let until = self.env.now().after(config::COMMAND_TIMEOUT);
        for lane in self.lanes.all() {
            lane.tell(self, LaneEvent::Close(Engine::closed_error()));
            lane.tell(self, LaneEvent::Revoke);
        }
        tokio::select! {
            biased;
            () = self.calm_down() => {}
            () = self.env.sleep_until(until) => {}
        }
    }

    /// Lets go of what attempts that are under way still win. That may be in lanes which do not exist yet.
    async fn calm_down(self: &Arc<Engine>) {
        let mut busy = self.lanes.all();
        while !busy.is_empty() {
            for lane in busy {
                lane.adopt();
                lane.until(Until::Quiet).await;
                lane.tell(self, LaneEvent::Revoke);
            }
            busy = self.lanes.all();
            busy.retain(|lane| !lane.read(|lane| lane.is_over()));
        }
    }
}

/// A question to the store.
struct Question<'q, F, S> {
    env: &'q dyn Env,
    question: F,
    /// Whether it may be asked again after this failure.
    is_safe: S,
    until: Moment,
    /// Set if it may have been done before it was answered.
    unsure: &'q mut bool,
}

impl<'a, T, F, S> Sends for Question<'_, F, S>
where
    T: Send,
    F: Fn() -> BoxFuture<'a, Result<T>> + Send,
    S: Fn(&Error) -> bool + Send,
{
    type Answer = Result<T>;

    async fn send(&mut self) -> Sent<Result<T>> {
        let asked = (self.question)();
        match asked.await {
            Err(e) if (self.is_safe)(&e) && self.env.now() < self.until => {
                *self.unsure |= e.is_in_doubt();
                Sent::Again(self.until)
            }
            answer => Sent::Done(answer),
        }
    }
}

/// Whether `tenure` was among the holders.
fn was_in(before: &Snapshot, tenure: &Tenure) -> bool {
    let holds = |mode: Mode, owner: &str| {
        before.holders.iter().any(|holder| holder.mode == mode && holder.owner == owner)
    };
    let owner = tenure.stay.to_string();
    match tenure.what {
        ClaimKind::Read => holds(Mode::Read, &owner),
        ClaimKind::Write { .. } => holds(Mode::Write, &owner),
        ClaimKind::LeasedPermits { count, .. } => {
            PermitId::of(tenure.stay, count).any(|id| holds(Mode::Permits, &id.to_string()))
        }
        _ => before.depth_of(&tenure.stay) > 0,
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.watchdog.close();
    }
}
