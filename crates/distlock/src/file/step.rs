//! One step: the critical section of a state file, what is changed inside, and who is called when it is done.

use std::collections::HashMap;
use std::sync::MutexGuard;

use uuid::Uuid;

use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::store::machine::{MachineContext, Wake, fenced};

use super::PAUSE;
use super::bell::{self, Call};
use super::dir::{conflict, trouble};
use super::hub::{Hub, Local, Shard};
use super::life::State;
use super::name::{Place, STRIPES};
use super::record::{Page, Record, is_blank};
use super::state::{self, Content, StateFile};

/// How often a step that finds another inside tries again before it sleeps: a critical section lasts some microseconds, far less
/// than the shortest sleep.
const QUICK_TRIES: u32 = 64;

/// How often one who cannot wait for long looks whether another is still inside.
pub(super) const TRIES: u32 = 5;

/// What a step has before it.
pub(super) struct Turn<'a> {
    pub(super) record: Record,
    pub(super) now: Moment,
    pub(super) wakes: Vec<Wake>,
    token: std::cell::Cell<u64>,
    hub: &'a Hub,
    pub(super) topics: &'a mut HashMap<(u128, Option<Owner>), Local>,
}

/// The inside of the critical section of one state file; dropping it leaves.
struct Inside<'a> {
    hub: &'a Hub,
    stripe: usize,
    shard: MutexGuard<'a, Shard>,
    content: Content,
}

/// How an attempt to get in ended.
enum Entered<'a> {
    In(Inside<'a>),
    /// Another is inside.
    Busy,
    /// There is no such file.
    Nowhere,
}

impl Hub {
    fn enter(&self, stripe: usize, make: bool) -> Result<Entered<'_>> {
        if std::process::id() != self.pid {
            let text = "file: this process was forked after the store was opened: open it again";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let mut shard = self.shard(stripe);
        for _ in 0..QUICK_TRIES {
            let file = match shard.file.take() {
                Some(file) => file,
                None => match StateFile::open(&self.dir, stripe, make)? {
                    Some(file) => file,
                    None => return Ok(Entered::Nowhere),
                },
            };
            let failed = |cause| trouble("cannot lock", &file.named.path, cause);
            if !file.try_lock().map_err(failed)? {
                shard.file = Some(file);
                std::thread::yield_now();
                continue;
            }
            // A file that has another name, or none, guards nothing: others have another one.
            let Some(stat) = file.named.stat().map_err(failed)? else { continue };
            let read = file.read(&self.dir, &stat, self.boot).inspect_err(|_| file.unlock());
            shard.file = Some(file);
            return Ok(Entered::In(Inside { hub: self, stripe, shard, content: read? }));
        }
        Ok(Entered::Busy)
    }

    /// One atomic step on what stands under `name`; `None` if another is inside. `work` is taken only if it is done.
    pub(super) fn try_step<T, F>(
        &self,
        name: &str,
        clock: &dyn Fn() -> Moment,
        work: &mut Option<F>,
    ) -> Result<Option<(T, u32)>>
    where
        F: FnOnce(&mut Turn<'_>) -> Result<T>,
    {
        let place = Place::of(name);
        let mut inside = match self.enter(place.stripe, true)? {
            Entered::In(inside) => inside,
            Entered::Busy | Entered::Nowhere => return Ok(None),
        };
        let Some(work) = work.take() else { return Ok(None) };
        // The time is read inside: what another did before us happened before our present.
        let now = clock();
        let page = inside.page()?;
        let raw = page.find(name).map_err(|why| inside.wrong(why))?;
        let before = raw.map(|raw| raw.record()).transpose().map_err(|why| inside.wrong(why))?;
        let before = before.unwrap_or_default();
        let token = page.token;
        let mut turn = Turn {
            record: before.clone(),
            now,
            wakes: Vec::new(),
            token: token.into(),
            hub: self,
            topics: &mut inside.shard.topics,
        };
        let answer = work(&mut turn)?;
        let Turn { mut record, wakes, token: after, .. } = turn;
        let mut calls = Calls::default();
        calls.gather(place.hash, &mut record, &wakes);
        if record != before || after.get() != token {
            let page = Page::read(&inside.content.page);
            let page = page.and_then(|page| page.with(after.get(), name, &record, now));
            let page = page.map_err(|why| inside.wrong(why))?;
            inside.commit(&page)?;
        }
        Ok(Some((answer, calls.call_out(self, inside))))
    }

    /// Changes everything in one state file in one step: whether `process` was in it; `None` if another is inside.
    pub(super) fn try_change(
        &self,
        stripe: usize,
        mut change: impl FnMut(&str, &mut Turn<'_>),
        process: Uuid,
        clock: &dyn Fn() -> Moment,
    ) -> Result<Option<bool>> {
        let mut inside = match self.enter(stripe, false)? {
            Entered::In(inside) => inside,
            Entered::Nowhere => return Ok(Some(false)),
            Entered::Busy => return Ok(None),
        };
        if !inside.mentions(process)? {
            return Ok(Some(false));
        }
        let now = clock();
        let page = Page::read(&inside.content.page).map_err(|why| inside.wrong(why))?;
        let (mut calls, token) = (Calls::default(), page.token);
        let topics = &mut inside.shard.topics;
        let changed = page.changed(|name, record| {
            let (wakes, token) = (Vec::new(), token.into());
            let mut turn = Turn { record, now, wakes, token, hub: self, topics };
            change(name, &mut turn);
            let Turn { mut record, wakes, .. } = turn;
            calls.gather(Place::of(name).hash, &mut record, &wakes);
            record
        });
        let page = changed.map_err(|why| inside.wrong(why))?;
        inside.commit(&page)?;
        calls.call_out(self, inside);
        Ok(Some(true))
    }

    /// Everything in one state file; `None` if another is inside.
    pub(super) fn try_read(&self, stripe: usize) -> Result<Option<Vec<(String, Record)>>> {
        let inside = match self.enter(stripe, false)? {
            Entered::In(inside) => inside,
            Entered::Nowhere => return Ok(Some(Vec::new())),
            Entered::Busy => return Ok(None),
        };
        let records = inside.page()?.records().map(|raw| {
            let raw = raw?;
            Ok((raw.name.to_owned(), raw.record()?))
        });
        records.collect::<Result<_, _>>().map(Some).map_err(|why| inside.wrong(why))
    }

    /// Whether a process has anything here. It counts as `unusable` says if it has in a file that cannot be used, and as if it had
    /// if that may change by itself.
    pub(super) fn knows(&self, process: Uuid, unusable: bool) -> bool {
        let passes = |cause: &Error| cause.kind() == ErrorKind::Unavailable;
        (0..STRIPES).any(|stripe| {
            let mentioned = self.mentions(stripe, process);
            mentioned.unwrap_or_else(|cause| unusable || passes(&cause))
        })
    }

    fn mentions(&self, stripe: usize, process: Uuid) -> Result<bool> {
        for _ in 0..TRIES {
            match self.enter(stripe, false)? {
                Entered::In(inside) => return inside.mentions(process),
                Entered::Nowhere => return Ok(false),
                Entered::Busy => std::thread::sleep(PAUSE),
            }
        }
        Ok(true)
    }

    /// Removes a state file that says nothing.
    pub(super) fn clear_away(&self, stripe: usize) {
        if let Ok(Entered::In(mut inside)) = self.enter(stripe, false)
            && is_blank(&inside.content.page)
            && let Some(file) = inside.shard.file.take()
        {
            file.remove();
            file.unlock();
        }
    }
}

impl Inside<'_> {
    fn page(&self) -> Result<Page<'_>> {
        Page::read(&self.content.page).map_err(|why| self.wrong(why))
    }

    fn wrong(&self, why: &str) -> Error {
        conflict(&state::path(&self.hub.dir, self.stripe), why)
    }

    fn mentions(&self, process: Uuid) -> Result<bool> {
        for raw in self.page()?.records() {
            if raw.map_err(|why| self.wrong(why))?.mentions(process) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn commit(&mut self, page: &[u8]) -> Result<()> {
        let Some(file) = &self.shard.file else { return Ok(()) };
        file.write(&self.content, page, self.hub.boot)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.shard.file {
            file.unlock();
        }
    }
}

impl Turn<'_> {
    /// The processes of those in the entry, without this one.
    pub(super) fn others(&self, process: Uuid) -> Vec<Uuid> {
        let people = self.record.people.iter().map(|person| person.process);
        let mut others: Vec<Uuid> = people.filter(|other| *other != process).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Whether that process is dead.
    fn is_dead(&self, process: Uuid) -> bool {
        self.hub.lives.state(&self.hub.dir, process) == State::Dead
    }
}

impl MachineContext for Turn<'_> {
    fn listens(&self, owner: Owner) -> bool {
        let ear = self.record.ears.iter().find(|ear| ear.waiter == Some(owner));
        ear.is_some_and(|ear| !self.is_dead(ear.process))
    }

    fn token(&self) -> u64 {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.token.set(fenced::next(self.token.get(), millis));
        self.token.get()
    }
}

/// Those who are to be called when a step is done.
#[derive(Debug, Default)]
struct Calls(Vec<(Uuid, Call)>);

impl Calls {
    fn gather(&mut self, hash: u128, record: &mut Record, wakes: &[Wake]) {
        for wake in wakes {
            let waiter = match wake {
                Wake::None => continue,
                Wake::All => None,
                Wake::Waiter(owner) => Some(*owner),
            };
            for ear in record.ears.iter_mut().filter(|ear| ear.waiter == waiter) {
                ear.calls = ear.calls.saturating_add(1);
                self.0.push((ear.process, Call { hash, waiter, calls: ear.calls }));
            }
        }
    }

    /// Leaves the critical section and calls them: how many heard it, as far as one can tell.
    fn call_out(self, hub: &Hub, mut inside: Inside<'_>) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let me = hub.known_id();
        let (mut here, mut heard_by) = (Vec::new(), 0);
        for (_, call) in self.0.iter().filter(|(process, _)| Some(*process) == me) {
            if let Some(local) = inside.shard.topics.get_mut(&(call.hash, call.waiter)) {
                local.heard = local.heard.max(call.calls);
                heard_by += local.listeners;
                here.push(local.topic.clone());
            }
        }
        drop(inside);
        here.iter().for_each(|topic| topic.wake());
        let elsewhere = self.0.iter().filter(|(process, _)| Some(*process) != me);
        heard_by
            + elsewhere.filter(|(process, call)| bell::ring(&hub.dir, *process, call)).count()
                as u32
    }
}
