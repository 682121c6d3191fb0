//! What all stores of this process on one directory share: open files, who we are, and who listens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use uuid::Uuid;

use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::store::state::{Around, Wake, fenced};
use crate::store::{Listener, Topic};

use super::bell::{self, Bell, Call};
use super::dir::{Dir, conflict, trouble};
use super::life::{self, Life, Lives, State};
use super::name::{Place, STRIPES};
use super::record::{Ear, Page, Record, is_blank};
use super::state::{self, Content, StateFile};
use super::watch::Watch;

/// How often a step that finds another inside tries again before it sleeps: a critical section lasts some microseconds, far less
/// than the shortest sleep.
const QUICK_TRIES: u32 = 64;

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) dir: Dir,
    boot: Uuid,
    /// Who opened it. A forked child shares the open files, and with them the locks: it must not use them.
    pid: u32,
    shards: Vec<Mutex<Shard>>,
    me: Mutex<Option<Me>>,
    pub(super) lives: Lives,
    /// How many topics there are.
    listening: AtomicUsize,
    pub(super) watch: Watch,
}

/// How others know this process.
#[derive(Debug)]
struct Me {
    life: Life,
    bell: Option<Arc<Bell>>,
}

/// One state file, as this process uses it. The mutex around it is for our threads what the file's lock is for processes.
#[derive(Debug, Default)]
struct Shard {
    file: Option<StateFile>,
    topics: HashMap<(u128, Option<Owner>), Local>,
}

/// Those in this process who listen to a name, or for one waiter.
#[derive(Debug)]
struct Local {
    topic: Arc<Topic>,
    listeners: u32,
    /// How many calls were heard.
    heard: u64,
}

/// What a step has before it.
pub(super) struct Turn<'a> {
    pub(super) record: Record,
    pub(super) now: Moment,
    pub(super) wakes: Vec<Wake>,
    token: std::cell::Cell<u64>,
    hub: &'a Hub,
    topics: &'a mut HashMap<(u128, Option<Owner>), Local>,
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
    /// The one of this process for that directory.
    pub(super) fn open(path: &Path) -> Result<Arc<Hub>> {
        static HUBS: OnceLock<Mutex<HashMap<PathBuf, Weak<Hub>>>> = OnceLock::new();
        let boot = life::boot_id()?;
        let dir = Dir::open(path)?;
        let mut hubs =
            HUBS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        hubs.retain(|_, hub| hub.strong_count() > 0);
        if let Some(hub) = hubs.get(dir.path()).and_then(Weak::upgrade)
            && hub.pid == std::process::id()
        {
            return Ok(hub);
        }
        let known = dir.path().to_owned();
        let hub = Arc::new(Hub {
            dir,
            boot,
            pid: std::process::id(),
            shards: (0..STRIPES).map(|_| Mutex::default()).collect(),
            me: Mutex::default(),
            lives: Lives::new(boot),
            listening: AtomicUsize::new(0),
            watch: Watch::default(),
        });
        hubs.insert(known, Arc::downgrade(&hub));
        Ok(hub)
    }

    fn me(&self) -> MutexGuard<'_, Option<Me>> {
        self.me.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which others know this process.
    pub(super) fn id(&self) -> Result<Uuid> {
        let mut me = self.me();
        if let Some(me) = &*me {
            return Ok(me.life.id);
        }
        let life = Life::begin(&self.dir, self.boot)?;
        let id = life.id;
        *me = Some(Me { life, bell: None });
        Ok(id)
    }

    /// The pipe by which others call this process; `None` if there can be none.
    pub(super) fn bell(&self) -> Result<Option<Arc<Bell>>> {
        let id = self.id()?;
        let mut me = self.me();
        let Some(me) = &mut *me else { return Ok(None) };
        if me.bell.is_none() {
            match Bell::hang(&self.dir, id) {
                Ok(bell) => me.bell = Some(Arc::new(bell)),
                Err(cause) => self.watch.warn_of_polling(&cause.into()),
            }
        }
        Ok(me.bell.clone())
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire) > 0
    }

    fn shard(&self, stripe: usize) -> MutexGuard<'_, Shard> {
        self.shards[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, stripe: usize, make: bool) -> Result<Entered<'_>> {
        if std::process::id() != self.pid {
            let text = "file: this process was forked after the store was opened: open it again";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let mut shard = self.shard(stripe);
        let path = || state::path(&self.dir, stripe);
        let failed = |cause: rustix::io::Errno| trouble("cannot lock", &path(), cause);
        for _ in 0..QUICK_TRIES {
            let file = match shard.file.take() {
                Some(file) => file,
                None => match StateFile::open(&self.dir, stripe, make)? {
                    Some(file) => file,
                    None => return Ok(Entered::Nowhere),
                },
            };
            if !file.try_lock().map_err(failed)? {
                shard.file = Some(file);
                std::thread::yield_now();
                continue;
            }
            // A file that has no name any more guards nothing: others have another one.
            let Some(stat) = file.stat().map_err(failed)? else { continue };
            let read = file.read(&path(), &stat, self.boot).inspect_err(|_| file.unlock());
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

    /// Changes everything in one state file in one step; `false` if another is inside.
    pub(super) fn try_change(
        &self,
        stripe: usize,
        mut change: impl FnMut(&mut Turn<'_>),
        process: Uuid,
        clock: &dyn Fn() -> Moment,
    ) -> Result<bool> {
        let mut inside = match self.enter(stripe, false)? {
            Entered::In(inside) => inside,
            Entered::Nowhere => return Ok(true),
            Entered::Busy => return Ok(false),
        };
        if !inside.mentions(process)? {
            return Ok(true);
        }
        let now = clock();
        let page = Page::read(&inside.content.page).map_err(|why| inside.wrong(why))?;
        let (mut calls, token) = (Calls::default(), page.token);
        let topics = &mut inside.shard.topics;
        let changed = page.changed(|name, record| {
            let (wakes, token) = (Vec::new(), token.into());
            let mut turn = Turn { record, now, wakes, token, hub: self, topics };
            change(&mut turn);
            let Turn { mut record, wakes, .. } = turn;
            calls.gather(Place::of(name).hash, &mut record, &wakes);
            record
        });
        let page = changed.map_err(|why| inside.wrong(why))?;
        inside.commit(&page)?;
        calls.call_out(self, inside);
        Ok(true)
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

    /// Listens to a name, or for one waiter. What is called out after this is heard.
    pub(super) fn try_listen(
        self: &Arc<Hub>,
        name: &Arc<str>,
        waiter: Option<Owner>,
        clock: &dyn Fn() -> Moment,
    ) -> Result<Option<Listener>> {
        let process = self.id()?;
        let bell = self.bell()?;
        let key = (Place::of(name).hash, waiter);
        let mut work = Some(|turn: &mut Turn<'_>| {
            if let Some(local) = turn.topics.get_mut(&key) {
                local.listeners += 1;
                return Ok(local.topic.clone());
            }
            let ears = &mut turn.record.ears;
            let own = |ear: &&Ear| ear.process == process && ear.waiter == waiter;
            let heard = ears.iter().find(own).map_or(0, |ear| ear.calls);
            if !ears.iter().any(|ear| own(&ear)) {
                ears.push(Ear { process, waiter, calls: 0 });
            }
            let topic = Arc::<Topic>::default();
            turn.topics.insert(key, Local { topic: topic.clone(), listeners: 1, heard });
            self.listening.fetch_add(1, Ordering::AcqRel);
            Ok(topic)
        });
        let Some((topic, _)) = self.try_step(name, clock, &mut work)? else { return Ok(None) };
        self.watch.start(self, bell);
        let subscription = Subscription { hub: self.clone(), name: name.clone(), waiter };
        Ok(Some(Listener::new(topic, subscription)))
    }

    fn leave(&self, name: &str, waiter: Option<Owner>) {
        let place = Place::of(name);
        let key = (place.hash, waiter);
        let mut shard = self.shard(place.stripe);
        let Some(local) = shard.topics.get_mut(&key) else { return };
        local.listeners -= 1;
        if local.listeners > 0 {
            return;
        }
        shard.topics.remove(&key);
        drop(shard);
        self.listening.fetch_sub(1, Ordering::AcqRel);
        // If another is inside the ear stays: it is taken down when it is called, or when this process is dead.
        let _ = self.tidy(place, name, waiter);
    }

    /// Takes down an ear behind which nobody listens.
    fn tidy(&self, place: Place, name: &str, waiter: Option<Owner>) -> Result<()> {
        let process = self.id()?;
        let mut work = Some(|turn: &mut Turn<'_>| {
            if !turn.topics.contains_key(&(place.hash, waiter)) {
                turn.record.ears.retain(|ear| ear.process != process || ear.waiter != waiter);
            }
            Ok(())
        });
        self.try_step(name, &|| Moment::from_nanos(0), &mut work).map(drop)
    }

    /// A call from another process.
    pub(super) fn called(&self, call: Call) {
        let place = Place::from_hash(call.hash);
        let mut shard = self.shard(place.stripe);
        let topic = shard.topics.get_mut(&(call.hash, call.waiter)).map(|local| {
            local.heard = local.heard.max(call.calls);
            local.topic.clone()
        });
        drop(shard);
        match topic {
            Some(topic) => topic.wake(),
            None => self.unheard(place, call.waiter),
        }
    }

    /// Nobody listens any more, but an ear was left.
    fn unheard(&self, place: Place, waiter: Option<Owner>) {
        let Ok(Some(records)) = self.try_read(place.stripe) else { return };
        for (name, _) in records {
            if Place::of(&name).hash == place.hash {
                let _ = self.tidy(place, &name, waiter);
            }
        }
    }

    /// Wakes everybody here who listens to anything.
    pub(super) fn wake_all(&self) {
        for stripe in 0..STRIPES {
            let shard = self.shard(stripe);
            let topics: Vec<_> = shard.topics.values().map(|local| local.topic.clone()).collect();
            drop(shard);
            topics.iter().for_each(|topic| topic.wake());
        }
    }

    /// Looks for calls that did not arrive.
    pub(super) fn look_for_missed_calls(&self) {
        let Ok(me) = self.id() else { return };
        for stripe in 0..STRIPES {
            if self.shard(stripe).topics.is_empty() {
                continue;
            }
            // If another is inside, the next look will do.
            let Ok(Some(records)) = self.try_read(stripe) else { continue };
            let mut missed = Vec::new();
            let mut shard = self.shard(stripe);
            for (name, record) in records {
                let hash = Place::of(&name).hash;
                for ear in record.ears.iter().filter(|ear| ear.process == me) {
                    let Some(local) = shard.topics.get_mut(&(hash, ear.waiter)) else { continue };
                    if ear.calls > local.heard {
                        local.heard = ear.calls;
                        missed.push(local.topic.clone());
                    }
                }
            }
            drop(shard);
            missed.iter().for_each(|topic| topic.wake());
        }
    }
}

/// Leaves the directory as if we had not been there, but for what is still held: that ends with the process.
impl Drop for Hub {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let me = self.me().take();
        let held = me.as_ref().is_some_and(|me| self.knows(me.life.id));
        (0..STRIPES).for_each(|stripe| self.clear_away(stripe));
        let Some(Me { life, bell }) = me else { return };
        if let Some(bell) = bell {
            bell.nudge();
            bell::remove(&self.dir, life.id);
        }
        if held {
            // Locked until the process ends.
            std::mem::forget(life);
        } else {
            life.end(&self.dir);
        }
    }
}

impl Hub {
    /// Whether a process has anything here, as far as that can be read.
    pub(super) fn knows(&self, process: Uuid) -> bool {
        (0..STRIPES).any(|stripe| self.mentions(stripe, process).unwrap_or(true))
    }

    fn mentions(&self, stripe: usize, process: Uuid) -> Result<bool> {
        match self.enter(stripe, false)? {
            Entered::In(inside) => inside.mentions(process),
            Entered::Nowhere => Ok(false),
            Entered::Busy => Ok(true),
        }
    }

    /// Removes a state file that says nothing.
    fn clear_away(&self, stripe: usize) {
        if let Ok(Entered::In(mut inside)) = self.enter(stripe, false)
            && is_blank(&inside.content.page)
            && let Some(file) = inside.shard.file.take()
        {
            file.remove(&state::path(&self.dir, stripe));
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
        let path = state::path(&self.hub.dir, self.stripe);
        let Some(file) = &self.shard.file else { return Ok(()) };
        file.write(&path, &self.content, page, self.hub.boot)
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

impl Around for Turn<'_> {
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
                Wake::Nobody => continue,
                Wake::Everybody => None,
                Wake::Waiter(owner) => Some(*owner),
            };
            for ear in record.ears.iter_mut().filter(|ear| ear.waiter == waiter) {
                ear.calls += 1;
                self.0.push((ear.process, Call { hash, waiter, calls: ear.calls }));
            }
        }
    }

    /// Leaves the critical section and calls them: how many heard it, as far as one can tell.
    fn call_out(self, hub: &Hub, mut inside: Inside<'_>) -> u32 {
        if self.0.is_empty() {
            return 0;
        }
        let me = hub.me().as_ref().map(|me| me.life.id);
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

/// One listener; the last one takes the topic away.
struct Subscription {
    hub: Arc<Hub>,
    name: Arc<str>,
    waiter: Option<Owner>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.leave(&self.name, self.waiter);
    }
}
