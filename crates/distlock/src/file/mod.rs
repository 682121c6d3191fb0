//! One machine, no server: one state file per name in a directory, around the pure machines of `store::state`.
//!
//! A step takes an OS lock on one of the directory's few lock files, reads the state, applies the machine, replaces the
//! state file by renaming a finished draft over it, and unlocks. Nothing is awaited in between: a step that began
//! is done, and a process that is killed in the middle leaves the state as it was. A free lock has no state file.

mod dir;
mod name;
mod record;
mod watch;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::REPLY_TIMEOUT;
use crate::doctor::{Examine, Finding};
use crate::env::{BoxFuture, Env, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::store::state::exclusive::{self, Entry};
use crate::store::{Admin, Attempt, Claim, Listener, Released, Snapshot, Store, What, unsupported};

use dir::{Dir, Inside, conflict};
use name::Place;
use watch::Watches;

/// How often a step that finds another inside tries again before it sleeps: a critical section lasts some tens of
/// microseconds, far less than the shortest sleep.
const QUICK_TRIES: u32 = 32;

/// The pause between slower tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The `file:` store.
#[derive(Debug)]
pub(crate) struct FileStore {
    dir: Arc<Dir>,
    env: Arc<dyn Env>,
    boot: String,
    watches: Arc<Watches>,
}

/// What stands in a state file: nothing, a hold of this boot, or one that an earlier boot left.
struct Found {
    entry: Option<Entry>,
    present: bool,
}

impl FileStore {
    /// Opens the store in `dir`, which is made for this user alone if it does not exist.
    pub(crate) fn open(dir: &Path, env: Arc<dyn Env>) -> Result<Arc<FileStore>> {
        let dir = Arc::new(Dir::open(dir)?);
        Ok(Arc::new(FileStore { dir, env, boot: boot_id()?, watches: Arc::default() }))
    }

    /// One atomic step: what `apply` makes of the entry under `name` replaces it.
    async fn step<T>(
        &self,
        name: &str,
        until: Moment,
        apply: impl FnOnce(Option<Entry>, Moment) -> (Option<Entry>, T),
    ) -> Result<T> {
        let place = Place::of(name);
        let inside = self.enter(&place, until).await?;
        let found = self.look(name, &place)?;
        // The time is read inside: what another did before us happened before our present.
        let (entry, answer) = apply(found.entry.clone(), self.env.now());
        match entry {
            Some(entry) if Some(&entry) == found.entry.as_ref() => {}
            Some(entry) => inside.replace(&record::write(name, &entry, &self.boot))?,
            None if found.present => inside.remove()?,
            None => {}
        }
        Ok(answer)
    }

    /// Enters the critical section, for which another process may have to be waited: not longer than `until`, because
    /// that one may be stopped.
    async fn enter<'a>(&'a self, place: &'a Place, until: Moment) -> Result<Inside<'a>> {
        loop {
            for _ in 0..QUICK_TRIES {
                if let Some(inside) = self.dir.try_enter(place)? {
                    return Ok(inside);
                }
                std::thread::yield_now();
            }
            let now = self.env.now();
            if now >= until {
                let path = self.dir.file(&place.lock_file());
                let message = format!(
                    "file: another process keeps {} locked; is it stopped? nothing was done",
                    path.display()
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.env.sleep_apart(now.after(PAUSE)).await;
        }
    }

    fn look(&self, name: &str, place: &Place) -> Result<Found> {
        let Some(text) = self.dir.read(&place.file)? else {
            return Ok(Found { entry: None, present: false });
        };
        let path = self.dir.file(&place.file);
        let record = record::read(&text).map_err(|why| conflict(&path, why))?;
        if record.name != name {
            return Err(conflict(&path, "it belongs to a lock of another name"));
        }
        Ok(Found { entry: Some(record.entry).filter(|_| record.boot == self.boot), present: true })
    }

    fn snapshot(&self, name: &str, entry: Option<Entry>) -> Snapshot {
        let now = self.env.now();
        match exclusive::live(entry, now) {
            Some(entry) => Snapshot::held(name, vec![entry.holder()], entry.ttl(now)),
            None => Snapshot::free(name),
        }
    }

    /// How long a step that begins now may take.
    fn patience(&self) -> Moment {
        self.env.now().after(REPLY_TIMEOUT)
    }

    async fn list_all(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        let mut locks = Vec::new();
        for file in self.dir.names()? {
            let Some(text) = self.dir.read(&file).unwrap_or_default() else { continue };
            // A stranger's file must not hide our own; whoever uses its name is told.
            let Ok(record) = record::read(&text) else { continue };
            let name = record.name;
            if !name.starts_with(prefix) || Place::of(&name).file != file {
                continue;
            }
            let entry = Some(record.entry).filter(|_| record.boot == self.boot);
            let lock = self.snapshot(&name, entry);
            if lock.is_held() {
                locks.push(lock);
            } else {
                // Its holder died. Only the next claim would remove it, and there may never be one.
                let swept =
                    self.step(&name, self.env.now(), |e, now| (exclusive::live(e, now), ()));
                drop(swept.await);
            }
        }
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(locks)
    }
}

impl Store for FileStore {
    fn place(&self) -> String {
        format!("file:{}", self.dir.path().display())
    }

    fn examine<'a>(&'a self, _: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(std::future::ready(self.dir.examined(&self.place())))
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            served(claim.what)?;
            let apply = |entry, now| exclusive::acquire(entry, claim, now);
            // A lock that is busy is seen from outside: those who wait do not get in the way of the holder.
            let seen = self.look(&claim.name, &Place::of(&claim.name))?;
            if let (_, busy @ Attempt::Busy { .. }) = apply(seen.entry, self.env.now()) {
                return Ok(busy);
            }
            self.step(&claim.name, self.patience(), apply).await
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            let apply = |entry, now| exclusive::release(entry, claim, now);
            Ok(match self.step(&claim.name, self.patience(), apply).await? {
                Released::Freed { .. } => {
                    Released::Freed { heard_by: self.watches.freed(&claim.name, &self.dir) }
                }
                other => other,
            })
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(async move {
            // One patience for the whole batch; a claim that comes after its end still gets its quick tries.
            let until = self.patience();
            let mut renewed = Vec::with_capacity(claims.len());
            for claim in claims {
                let apply = |entry, now| exclusive::renew(entry, claim, now);
                renewed.push(self.step(&claim.name, until, apply).await);
            }
            renewed
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        let listener = self.watches.listen(&claim.name, &self.dir, &self.env);
        Box::pin(std::future::ready(Ok(listener)))
    }

    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        let found = served(what).and_then(|()| self.look(name, &Place::of(name)));
        let snapshot = found.map(|found| self.snapshot(name, found.entry));
        Box::pin(std::future::ready(snapshot))
    }

    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            served(what)?;
            let entry = self.step(name, self.patience(), |entry, _| (None, entry)).await?;
            self.watches.freed(name, &self.dir);
            Ok(self.snapshot(name, entry))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(self.list_all(prefix))
    }

    fn admin<'a>(&'a self, _: &'a str, _: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        Box::pin(std::future::ready(Err(not_served())))
    }
}

/// Only locks of one owner at a time that take no numbers and no turns.
fn served(what: What) -> Result<()> {
    if what == What::Exclusive { Ok(()) } else { Err(not_served()) }
}

fn not_served() -> Error {
    unsupported("this kind of lock; `memory:` and `redis:` do")
}

/// Which boot this is: expiry counts from it, so an entry of another one has expired.
fn boot_id() -> Result<String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::read_to_string(PATH) {
        Ok(id) => Ok(id.trim().to_owned()),
        Err(cause) => {
            let message = format!("file: needs the boot id that Linux gives in {PATH}: {cause}");
            Err(Error::new(ErrorKind::Unsupported, message).with_source(cause))
        }
    }
}
