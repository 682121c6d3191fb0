//! Waiting, holding and letting go. Knows no Redis, and of kinds no more than their [`ClaimKind`].
//!
//! ```text
//! acquire.rs   the road in: try; if busy, queue and let the driver try for you
//! wait.rs      how long, and what came of it
//! way.rs       which way a caller goes, as its lane says
//! attempt.rs   asking the store; never cancelled
//! nature.rs    what there is to know of a kind
//! lanes.rs     which lanes there are
//! waiters.rs   a lane: the local holder, the local queue, what is on the wire
//! drive.rs     THE wait loop: one contender per process and name
//! drivers.rs   which drivers are at work
//! alarm.rs     when a resting driver looks again
//! multi.rs     several locks, all or none
//! hold.rs      what an acquisition is: Tenure; Hold, whose drop lets go
//! vitals.rs    until when it is believed in
//! release.rs   the one road out: pass on, or free
//! flush.rs     a short wait for releases when the last `Locks` is dropped
//! forget.rs    what the store may have and nobody wants: taken back
//! tell.rs      telling the store what became of a hold, until it agrees
//! stays.rs     which id the store knows an owner by
//! tuning.rs    what a program can set
//! watchdog.rs  renews, and declares loss
//! ```

mod acquire;
mod alarm;
mod attempt;
mod attempt_all;
mod detach;
mod drive;
mod drivers;
mod flush;
mod forget;
mod hold;
mod lane;
mod lanes;
mod multi;
mod nature;
mod receipts;
mod release;
mod retry;
mod shares;
mod stays;
mod tell;
mod tuning;
mod vitals;
mod wait;
mod waiters;
mod watchdog;
mod way;

#[cfg(test)]
mod tests;

pub(crate) use acquire::{Acquiring, Ask};
pub(crate) use detach::Detached;
pub(crate) use flush::flush;
pub(crate) use hold::{Hold, Tenure};
pub(crate) use multi::{All, Part, acquire_all, unlock_all};
pub(crate) use release::lost;
pub(crate) use release::unlock;
pub(crate) use tuning::Tuning;
pub use vitals::State;
pub(crate) use vitals::Vitals;
pub(crate) use wait::Wait;
pub(crate) use watchdog::extend;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::{Asker, HolderInfo};
use crate::locks::config;
use crate::observe::{Event, Observer, Subject};
use crate::owner::Owner;
use crate::store::{Admin, ClaimKind, Kind, Mode, PermitId, Released, Snapshot, Store};

use alarm::Alarm;
use drivers::Drivers;
use lanes::{LaneRef, Lanes};
use shares::Shares;
use stays::Leaked;
use wait::Askers;
use waiters::LaneState;
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
    drivers: Drivers,
    alarm: Arc<Alarm>,
    /// Callers who ask the store by themselves; more than this at once only get in each other's way.
    askers: Shares<Arc<Askers>>,
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
            alarm: Alarm::new(env.clone()),
            drivers: Drivers::default(),
            askers: Shares::new(|| Askers::new(config::ASKERS)),
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
    pub(crate) async fn ask<'a, T>(
        &self,
        question: impl Fn() -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut unsure = false;
        self.ask_unsure(question, &mut unsure).await
    }

    /// The same for something that changes the store: tells whether it may have happened before the answered time.
    async fn ask_unsure<'a, T>(
        &self,
        question: impl Fn() -> BoxFuture<'a, Result<T>>,
        unsure: &mut bool,
    ) -> Result<T> {
        let until = self.env.now().after(config::COMMAND_TIMEOUT);
        let mut retry = retry::Retry::default();
        loop {
            match question().await {
                Err(e) if e.is_retryable() && self.env.now() < until => {
                    *unsure |= e.is_in_doubt();
                    self.env.sleep_until(retry.next(&*self.env).min(until)).await;
                }
                answer => return answer,
            }
        }
    }

    /// What the store knows under `name`, once this process's own steps have arrived there.
    pub(crate) async fn inspect(&self, what: ClaimKind, name: &Arc<str>) -> Result<Snapshot> {
        self.settle(name).await;
        self.ask(|| self.store.inspect(what, name)).await.map(|seen| self.in_own_names(seen))
    }

    /// Frees the lock whoever holds it. Holders of this engine learn of it at once.
    pub(crate) async fn force(&self, what: ClaimKind, name: &Arc<str>) -> Result<Snapshot> {
        let lanes = self.settle(name).await;
        let mut unsure = false;
        let forced = self.ask_unsure(|| self.store.force(what, name), &mut unsure).await;
        for tenure in lanes.iter().filter_map(|lane| lane.tenure()) {
            match &forced {
                Ok(before) if was_in(before, &tenure) => tenure.lose(),
                _ if unsure => watchdog::verify(&tenure).await,
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
        if lanes.iter().any(|lane| lane.state().stepping.is_some()) {
            lanes.iter().for_each(|lane| lane.adopt());
            let settled = async {
                for lane in &lanes {
                    lane.settled().await;
                }
            };
            let until = self.env.now().after(config::REPLY_TIMEOUT);
            tokio::select! {
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
        let claim = tell::last_step(self, name, what, stay);
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
        let mut retry = retry::Retry::default();
        loop {
            match self.store.admin(name, op).await {
                // Surely not done, so it can be done now.
                Err(e) if e.kind() == ErrorKind::Unavailable && self.env.now() < until => {
                    self.env.sleep_until(retry.next(&*self.env).min(until)).await;
                }
                answer => return answer.map(|answer| (answer, false)),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self, name: &str) -> usize {
        let lanes = self.lanes.all().into_iter().filter(|lane| *lane.name == *name);
        lanes.map(|lane| lane.state().queue.len()).sum()
    }

    /// Ends every wait with `Closed`, releases what is still held and waits until the store knows it.
    pub(crate) async fn close(self: &Arc<Engine>) {
        self.closed.store(true, Ordering::Release);
        let until = self.env.now().after(config::COMMAND_TIMEOUT);
        for lane in self.lanes.all() {
            release::fail_all(self, &lane, &Engine::closed_error());
            if let Some(tenure) = lane.tenure() {
                release::revoke(&tenure);
            }
        }
        tokio::select! {
            () = self.calm_down() => {}
            () = self.env.sleep_until(until) => {}
        }
    }

    /// Lets go of what attempts that are under way still win. That may be in lanes which do not exist yet.
    async fn calm_down(&self) {
        let mut busy = self.lanes.all();
        while !busy.is_empty() {
            for lane in busy {
                lane.adopt();
                lane.until(LaneState::is_quiet).await;
                if let Some(tenure) = lane.tenure() {
                    release::revoke(&tenure);
                }
            }
            busy = self.lanes.all();
            busy.retain(|lane| !lane.state().is_over());
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
