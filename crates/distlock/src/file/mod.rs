//! One machine, no server: state files in a directory, around the pure machines of `store::machine`.
//!
//! A step takes an OS lock on the state file that has the name, reads what stands there, applies the machine, writes it back so
//! that it counts at once or not at all, and unlocks. Nothing is awaited in between: a step that began is done, and a process
//! that is killed in the middle leaves the state as it was. A free lock leaves nothing in its state file, and a state file that
//! says nothing goes with the last store of a process.
//!
//! | file | what it is |
//! |---|---|
//! | `locks-00` … `locks-63` | `state.rs`, `header.rs`: who holds what, who waits, who listens; every name is in one of them (`name.rs`) |
//! | `life-…` | `life.rs`: a process, locked while it lives |
//! | `bell-…` | `bell.rs`: the pipe by which a process that listens is called |
//!
//! `dir.rs` and `mount.rs` are about the directory, `hub.rs` is what the stores of a process share, `step.rs` one step on a state file, `ears.rs` who listens, `watch.rs` the thread that hears, `sweep.rs` takes what the dead had.

mod bell;
mod code;
mod dir;
mod ears;
mod header;
mod hub;
mod life;
mod mount;
mod name;
mod record;
mod state;
mod step;
mod sweep;
mod watch;

#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "redis"))]
pub(crate) use tests::passing_store;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::doctor::{Examine, Finding};
use crate::env::{BoxFuture, Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config::REPLY_TIMEOUT;
use crate::store::machine::entry::{self, AnyEntry, AnyTransition, WrongKind};
use crate::store::machine::{MachineContext, Transition};
use crate::store::{
    Admin, Attempt, Capabilities, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store,
};

use hub::Hub;
use record::{Person, Record};
use step::Turn;

/// The pause between tries when a process is inside for long.
const PAUSE: Duration = Duration::from_millis(1);

/// The `file:` store.
#[derive(Debug)]
pub(crate) struct FileStore {
    hub: Arc<Hub>,
    env: Arc<dyn Env>,
}

impl FileStore {
    /// Opens the store in `dir`, which is made for this user alone if it does not exist.
    pub(crate) fn open(dir: &Path, env: Arc<dyn Env>) -> Result<Arc<FileStore>> {
        let store = Arc::new(FileStore { hub: Hub::open(dir)?, env });
        life::refuse_other_boots(&store.hub.dir, store.hub.boot)?;
        store.sweep_apart();
        Ok(store)
    }

    /// How long a step that begins now may take.
    fn patience(&self) -> Moment {
        self.env.now().after(REPLY_TIMEOUT)
    }

    /// Tries until another process is not in the way: not longer than `until`, because that one may be stopped.
    async fn until_in<T>(
        &self,
        until: Moment,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            let now = self.env.now();
            if now >= until {
                let dir = self.hub.dir.path().display();
                let message = format!(
                    "file: another process has kept a file in {dir} locked for too long and may be stopped (SIGSTOP, a debugger): nothing was done"
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.env.sleep_in_background(now.after(PAUSE)).await;
        }
    }

    /// One atomic step; also tells how many heard of it.
    async fn work<T, F>(&self, name: &str, until: Moment, work: F) -> Result<(T, u32)>
    where
        F: FnOnce(&mut Turn<'_>) -> Result<T>,
    {
        let mut work = Some(work);
        let clock = || self.env.now();
        self.until_in(until, || self.hub.try_step(name, &clock, &mut work)).await
    }

    /// One step of a machine.
    async fn step<T>(
        &self,
        name: &str,
        claim: Option<&Claim>,
        until: Moment,
        step: impl FnOnce(Option<AnyEntry>, Moment, &dyn MachineContext) -> AnyTransition<T>,
    ) -> Result<(T, u32)> {
        self.work(name, until, |turn| apply(turn, claim, None, step)).await
    }

    /// Takes it, or says who is in the way.
    async fn attempt(&self, claim: &Claim) -> Result<(Attempt, Vec<Uuid>)> {
        let process = self.hub.id()?;
        let permits = match claim.kind {
            ClaimKind::LeasedPermits { count, .. } => count,
            _ => 0,
        };
        let person = Person { owner: claim.owner, process, permits };
        let work = |turn: &mut Turn<'_>| {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::acquire(entry, claim, now, context)
            };
            let attempt = apply(turn, Some(claim), Some(person), step)?;
            let in_the_way = match attempt {
                Attempt::Busy { .. } => turn.others(process),
                Attempt::Acquired { .. } => Vec::new(),
            };
            Ok((attempt, in_the_way))
        };
        Ok(self.work(&claim.name, self.patience(), work).await?.0)
    }

    async fn acquire_one(&self, claim: &Claim) -> Result<Attempt> {
        let mut before = None;
        loop {
            let (attempt, in_the_way) = match (self.attempt(claim).await, before) {
                (Ok(tried), _) => tried,
                (Err(cause), None) => return Err(cause),
                // Being busy may have left something, a place in line: whoever is told so gives it back, as after an error
                // that says that nothing was done it would not. Of what is wrong the next attempt tells.
                (Err(cause), Some(busy)) => {
                    tracing::debug!(target: "distlock", %cause, "cannot repeat the attempt: the lock is reported as busy");
                    return Ok(busy);
                }
            };
            before = Some(attempt);
            if in_the_way.is_empty() || !self.sweep_dead(&in_the_way).await {
                if self.hub.is_listening() {
                    self.hub.watch.follow(&self.hub, &in_the_way);
                }
                return Ok(attempt);
            }
        }
    }

    /// What stands under a name, without what the dead had.
    async fn look(&self, name: &str) -> Result<Record> {
        loop {
            let work = |turn: &mut Turn<'_>| Ok((turn.record.clone(), turn.others(Uuid::nil())));
            let ((record, people), _) = self.work(name, self.patience(), work).await?;
            if people.is_empty() || !self.sweep_dead(&people).await {
                return Ok(record);
            }
        }
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        life::refuse_other_boots(&self.hub.dir, self.hub.boot)?;
        self.sweep_dead(&life::everybody(&self.hub.dir)?).await;
        let mut locks = Vec::new();
        for stripe in 0..name::STRIPES {
            let read = self.until_in(self.patience(), || self.hub.try_read(stripe)).await;
            let records = match read {
                Ok(records) => records,
                // A file that is a stranger's, or that only a stranger may open, must not hide our own; whoever uses a name in
                // it is told.
                Err(wrong) if matches!(wrong.kind(), ErrorKind::Conflict | ErrorKind::Config) => {
                    continue;
                }
                Err(other) => return Err(other),
            };
            let now = self.env.now();
            for (name, record) in records {
                if name.starts_with(prefix) {
                    locks.extend(Some(record.view(&name, now)).filter(Snapshot::is_held));
                }
            }
        }
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(locks)
    }
}

/// Runs one step of a machine in its turn.
fn apply<T>(
    turn: &mut Turn<'_>,
    claim: Option<&Claim>,
    person: Option<Person>,
    step: impl FnOnce(Option<AnyEntry>, Moment, &dyn MachineContext) -> AnyTransition<T>,
) -> Result<T> {
    let entry = turn.record.entry.take().filter(|entry| entry.is_live(turn.now));
    let Transition { entry, answer, wake } =
        step(entry, turn.now, &*turn).map_err(WrongKind::refused)?;
    // Of a latch that was counted down and forgotten nothing is left but its entry, which would keep the state file.
    turn.record.entry = entry.filter(|entry| entry.is_live(turn.now));
    turn.record.settle(person);
    turn.record.note(claim, turn.now);
    turn.wakes.push(wake);
    Ok(answer)
}

impl Store for FileStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new().with_may_block(true)
    }

    fn place(&self) -> String {
        format!("file:{}", self.hub.dir.path().display())
    }

    fn examine<'a>(&'a self, _: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(self.hub.dir.examined(&self.place())))
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire_one(claim))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::release(entry, claim, now, context)
            };
            Ok(match self.step(&claim.name, Some(claim), self.patience(), step).await? {
                (Released::Freed { .. }, heard_by) => Released::Freed { heard_by },
                (other, _) => other,
            })
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            // One patience for the whole batch; a claim that comes after its end still gets its quick tries.
            let until = self.patience();
            let mut renewed = Vec::with_capacity(claims.len());
            for claim in claims {
                let step = |entry, now, _: &dyn MachineContext| entry::renew(entry, claim, now);
                renewed.push(
                    self.step(&claim.name, Some(claim), until, step)
                        .await
                        .map(|(renewed, _)| renewed),
                );
            }
            renewed
        })
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::give_up(entry, claim, now, context)
            };
            self.step(&claim.name, Some(claim), self.patience(), step).await.map(drop)
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async move {
            let waiter = matches!(claim.kind, ClaimKind::Fair { .. }).then_some(claim.owner);
            let clock = || self.env.now();
            let listen = || self.hub.try_listen(&claim.name, waiter, &clock);
            self.until_in(self.patience(), listen).await
        })
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let (record, now) = (self.look(name).await?, self.env.now());
            match &record.entry {
                Some(entry) if entry.is_live(now) && !entry.is_of(what) => {
                    Err(WrongKind(entry.clone()).refused())
                }
                _ => Ok(record.view(name, now)),
            }
        })
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let step = |entry, now, context: &dyn MachineContext| {
                entry::force(entry, what, name, now, context)
            };
            Ok(self.step(name, None, self.patience(), step).await?.0)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(self.list_all(prefix))
    }

    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        Box::pin(async move {
            let place = entry::place_of(name, op);
            // What the dead had counts again.
            if !matches!(op, Admin::Fence { .. } | Admin::FenceForget) {
                self.look(&place).await?;
            }
            let step = |entry, now, _: &dyn MachineContext| entry::admin(entry, op, now);
            Ok(self.step(&place, None, self.patience(), step).await?.0)
        })
    }
}
