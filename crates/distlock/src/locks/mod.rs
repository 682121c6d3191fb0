//! [`Locks`]: makes handles from names. Beside it, the settings that a program chooses before it connects.

mod builder;
pub(crate) mod config;
mod durability;
pub(crate) mod limits;

pub use builder::Builder;
pub use durability::Durability;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use uuid::Uuid;

use crate::doctor::Checkup;
use crate::engine::{self, Engine, Tuning};
use crate::env::{Env, System};
use crate::error::{Error, ErrorKind, Result};
use crate::kinds::{
    self, Fair, Fenced, Latch, LeasedSemaphore, MultiLock, Rw, Semaphore, Simple, Spin,
    StoredFenceGate, check_nodes,
};
use crate::memory::MemoryStore;
use crate::observe;
use crate::owner::Owner;
use crate::quorum::{Node, Quorum};
use crate::store::Snapshot;

/// For types that contain a `Locks`, such as the `via` of `#[locked]`.
impl AsRef<Locks> for Locks {
    fn as_ref(&self) -> &Locks {
        self
    }
}

/// Gives access to the locks of one store, by name. Cheap to clone.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::Locks;
///
/// let locks = Locks::connect("memory:").await?; // or "redis://127.0.0.1:6379", "file:/var/lock/app"
/// let guard = locks.mutex("orders:42").lock().await?;
/// guard.unlock().await?;
/// locks.close().await;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Drop
/// Guards and handles keep working after the `Locks` they came from is dropped. The drop of the last clone waits, for at most 0.3 s,
/// for releases that dropped guards have begun, but not within a task of a runtime, where it must not block. See [`Guard`](crate::Guard).
#[derive(Clone)]
pub struct Locks {
    engine: Arc<Engine>,
    prefix: Arc<str>,
    place: Arc<str>,
    /// `None` for a majority: its nodes wait.
    _flush: Option<Arc<FlushOnDrop>>,
}

impl Locks {
    /// Connects to the store that the URL names, with the defaults of [`Locks::builder`].
    ///
    /// # Errors
    /// `Config` for a URL that cannot be used, `Unavailable` if no server replies there.
    pub async fn connect(url: &str) -> Result<Locks> {
        Locks::builder().url(url).connect().await
    }

    /// [`connect`](Locks::connect) for programs without a runtime.
    ///
    /// ```
    /// let locks = distlock::Locks::connect_blocking("memory:")?;
    /// let guard = locks.mutex("k").lock().blocking()?;
    /// # Ok::<(), distlock::Error>(())
    /// ```
    pub fn connect_blocking(url: &str) -> Result<Locks> {
        Locks::builder().url(url).connect_blocking()
    }

    /// Returns a `Locks` over a new table in the memory of this process.
    pub fn memory() -> Locks {
        let env: Arc<dyn Env> = Arc::new(System);
        let store = MemoryStore::new(env.clone());
        let engine = Engine::new(store, env, observe::usual(), Tuning::default());
        Locks::over(engine, Arc::from(""), Arc::from("memory:"))
    }

    pub(crate) fn over(engine: Arc<Engine>, prefix: Arc<str>, place: Arc<str>) -> Locks {
        let flush = Arc::new(FlushOnDrop(engine.clone()));
        Locks { engine, prefix, place, _flush: Some(flush) }
    }

    /// Returns a builder for everything that can be set before connecting.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the lock with this name: one owner at a time.
    pub fn mutex(&self, name: impl AsRef<str>) -> kinds::Mutex {
        kinds::Mutex::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the lock with this name: one owner at a time, in the order of arrival.
    pub fn fair(&self, name: impl AsRef<str>) -> Fair {
        Fair::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the lock with this name: many readers or one writer.
    pub fn rw(&self, name: impl AsRef<str>) -> Rw {
        Rw::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the lock with this name: one owner at a time, each acquisition with a higher number.
    pub fn fenced(&self, name: impl AsRef<str>) -> Fenced {
        Fenced::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the gate with this name, which refuses fencing tokens lower than the highest it has seen.
    pub fn fence_gate(&self, name: impl AsRef<str>) -> StoredFenceGate {
        StoredFenceGate::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the lock with this name: one owner at a time; waiters poll.
    pub fn spin(&self, name: impl AsRef<str>) -> Spin {
        Spin::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the lock with this name in the format of `SET NX PX`.
    pub fn simple(&self, name: impl AsRef<str>) -> Simple {
        Simple::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the semaphore with this name: a number of permits.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the semaphore with this name, whose permits have leases.
    pub fn leased_semaphore(&self, name: impl AsRef<str>) -> LeasedSemaphore {
        LeasedSemaphore::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the latch with this name: a count that callers wait for until it is zero.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch::new(self.engine.clone(), self.full_name(name.as_ref()))
    }

    /// Returns the locks with these names as one: all or none.
    pub fn multi<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        MultiLock::new(names.into_iter().map(|name| self.mutex(name).into()))
    }

    /// Returns a new owner, for acquires that belong together.
    pub fn owner(&self) -> Owner {
        self.engine.mint_owner()
    }

    /// Returns every lock that is held now and whose name starts with `prefix`, as far as the store can tell locks from other data.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// let locks = distlock::Locks::memory();
    /// let _guard = locks.mutex("orders:42").lock().await?;
    /// assert_eq!(locks.list("orders:").await?.len(), 1);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn list(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        let prefix = format!("{}{prefix}", self.prefix);
        let mut all = self.engine.ask(|| self.engine.store.list(&prefix)).await?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all.into_iter().map(|seen| self.engine.in_own_names(seen)).collect())
    }

    /// Checks whether the store is fit for these locks: await it for a [`Report`](crate::doctor::Report).
    ///
    /// It leaves locks and settings as they are, but runs the commands of locks under an unused name. It works where locks do not: connect
    /// [lazily](Builder::lazy) to get a wrong password, a replica or a server that is down as a finding. On a cluster, or with
    /// sentinels, it checks every server.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::doctor::Level;
    ///
    /// let locks = distlock::Locks::builder().url("redis://127.0.0.1:1").lazy().connect().await?;
    /// let report = locks.doctor().await;
    /// assert_eq!(report.worst(), Level::Fault);
    /// assert!(!report.is_reached(), "no server is there");
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn doctor(&self) -> Checkup {
        Checkup::new(self.engine.store.clone(), &self.prefix)
    }

    /// Ends every wait with `Closed`, releases every lock that is still held, and waits for the store's replies, for a few seconds at
    /// most. Guards
    /// that still exist are lost. Every [`RedLock`](crate::RedLock) of which this is a node is closed with it.
    pub async fn close(&self) {
        self.engine.close().await;
        for (engine, quorum) in majorities_with(&self.engine) {
            if let Some(engine) = engine.upgrade() {
                engine.close().await;
            }
            if let Some(quorum) = quorum.upgrade() {
                quorum.settle().await;
            }
        }
    }

    /// Returns a majority of these stores as one. All handles of this process for the same nodes share it, because it counts the
    /// re-entries of an owner.
    pub(crate) fn majority_of(nodes: &[Locks]) -> Result<Locks> {
        check_nodes(nodes)?;
        let [first, ..] = nodes else { unreachable!("BUG: no nodes passed the check") };
        let mut key: Vec<Uuid> = nodes.iter().map(|node| node.engine.client()).collect();
        key.sort(); // the order in which the program names them does not matter
        let mut known = majorities();
        known.retain(|_, (engine, _)| engine.strong_count() > 0);
        let engine = known.get(&key).and_then(|(engine, _)| engine.upgrade());
        let engine = engine.unwrap_or_else(|| {
            let env = &first.engine.env;
            let members = nodes
                .iter()
                .map(|node| Node::new(node.engine.store.clone(), node.place.clone(), env.clone()));
            let quorum = Quorum::new(members.collect(), env.clone());
            let engine = first.engine.over(quorum.clone());
            known.insert(key, (Arc::downgrade(&engine), Arc::downgrade(&quorum)));
            engine
        });
        let place = Arc::from(format!("a majority of {} servers", nodes.len()));
        Ok(Locks { engine, prefix: first.prefix.clone(), place, _flush: None })
    }

    pub(crate) fn engine(&self) -> Arc<Engine> {
        self.engine.clone()
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns whether both are on the same server, as far as their addresses tell.
    pub(crate) fn is_at(&self, other: &Locks) -> bool {
        server(&self.engine.store.place()) == server(&other.engine.store.place())
    }

    pub(crate) fn full_name(&self, name: &str) -> Result<Arc<str>> {
        let bytes = self.prefix.len() + name.len();
        if name.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidName,
                "a lock needs a name that is not empty",
            ));
        }
        if bytes > config::NAME_BYTES {
            let limit = config::NAME_BYTES;
            let text =
                format!("a name of {bytes} bytes is too long: at most {limit}, prefix included");
            return Err(Error::new(ErrorKind::InvalidName, text));
        }
        Ok(match &*self.prefix {
            "" => Arc::from(name),
            prefix => Arc::from(format!("{prefix}{name}")),
        })
    }
}

type Majority = (Weak<Engine>, Weak<Quorum>);

/// The majorities in use, by the clients that they are made of.
fn majorities() -> MutexGuard<'static, HashMap<Vec<Uuid>, Majority>> {
    static KNOWN: OnceLock<Mutex<HashMap<Vec<Uuid>, Majority>>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The majorities in use that have the store of `node` among their servers.
fn majorities_with(node: &Engine) -> Vec<Majority> {
    let (known, client) = (majorities(), node.client());
    known.iter().filter(|(key, _)| key.contains(&client)).map(|(_, found)| found.clone()).collect()
}

/// Shared by all clones of a `Locks`. The drop of the last clone waits for releases in flight, those of its majorities included.
struct FlushOnDrop(Arc<Engine>);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        let majorities = majorities_with(&self.0).into_iter();
        let mut engines: Vec<Arc<Engine>> =
            majorities.filter_map(|(engine, _)| engine.upgrade()).collect();
        engines.push(self.0.clone());
        engine::flush(&engines);
    }
}

/// Returns the server of a place without the database, because all databases of a server fail together, and with one name for this machine.
fn server(place: &str) -> String {
    let server = place.split_once(" (db ").map_or(place, |(server, _)| server);
    match server.strip_prefix("localhost:").or_else(|| server.strip_prefix("[::1]:")) {
        Some(port) => format!("127.0.0.1:{port}"),
        None => server.to_owned(),
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("store", &self.place).field("prefix", &self.prefix).finish()
    }
}
