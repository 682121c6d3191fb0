//! [`Builder`]: what can be set before connecting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{self, Engine, Tuning};
use crate::env::{Env, System};
use crate::error::{Error, ErrorKind, Result};
use crate::holder;
use crate::locks::Durability;
use crate::locks::Locks;
use crate::locks::config;
use crate::locks::limits;
use crate::memory::MemoryStore;
use crate::observe::{self, Observer};
use crate::runtime::backoff::{Backoff, WaitBy};
use crate::store::{ClaimKind, Kind, Store};

/// The settings of a [`Locks`]; each has a default.
///
/// ```
/// # distlock::block_on(async {
/// use std::time::Duration;
/// use distlock::Locks;
///
/// let locks = Locks::builder().url("memory:").prefix("shop:").watchdog(Duration::from_secs(10)).connect().await?;
/// let guard = locks.mutex("orders").lock().await?; // renewed every third of 10 s
/// assert_eq!(guard.name(), "shop:orders");
/// # guard.unlock().await }).unwrap();
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    url: Option<String>,
    prefix: String,
    watchdog: Duration,
    fair_patience: Duration,
    wait_by: WaitBy,
    mutex_as: Kind,
    durability: Durability,
    lazy: bool,
    service: Option<Arc<str>>,
    slow_hold: Option<Duration>,
    env: Arc<dyn Env>,
    observer: Arc<dyn Observer>,
    store: Option<Arc<dyn Store>>,
    #[cfg(feature = "redis")]
    connector: Option<Arc<dyn crate::redis::Connector>>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            url: None,
            prefix: String::new(),
            watchdog: config::WATCHDOG,
            fair_patience: config::FAIR_PATIENCE,
            wait_by: WaitBy::default(),
            mutex_as: Kind::Mutex,
            durability: Durability::Primary,
            lazy: false,
            service: None,
            slow_hold: None,
            env: Arc::new(System),
            observer: observe::usual(),
            store: None,
            #[cfg(feature = "redis")]
            connector: None,
        }
    }
}

impl Builder {
    /// Sets the URL of the store: `memory:`, `file:/dir`, `redis://host`, `rediss://host`, `redis+unix:///socket`,
    /// `redis+sentinel://host1,host2/primary`, `redis+replicated://host1,host2`, `redis+cluster://host1,host2`.
    ///
    /// For sentinels, list those that are likely to reply, then the name that they have for the primary, and a
    /// database if it is not 0: `redis+sentinel://user:password@s1:26379,s2/mymaster/1?sentinel_user=…&sentinel_pass=…`. User and
    /// password before the hosts are for the servers, `sentinel_user` and `sentinel_pass` for the sentinels. For replicated
    /// servers, list all: one of them must report that it is the primary. With `rediss+` all connections use TLS.
    ///
    /// For a cluster, list any servers that are likely to reply; the others are discovered. `rediss+cluster://` uses TLS for all of them.
    /// User, password and options are the same for all, and there is no database. `?pubsub=` sets how releases are published:
    /// `auto` (the default) is `sharded` if the first server that replies has sharded channels and `classic` if it
    /// has not, as Redisson's `AUTO` is; `both` is for fleets in which some clients use one and some the other. On a cluster all keys of
    /// a lock must be in one slot: names with braces are refused with `InvalidName` unless they have a `{tag}`, and for latches always.
    ///
    /// `memory:` is one table for the whole process, `memory:name` another one; [`Locks::memory`] is always a new one.
    ///
    /// `file:` without a directory is the user's state directory: `$XDG_STATE_HOME/distlock`, or `~/.local/state/distlock`, which the
    /// command-line tool uses without a URL. Processes of different users need a `file:/dir` that both name.
    pub fn url(mut self, url: impl Into<String>) -> Builder {
        self.url = Some(url.into());
        self
    }

    /// Sets a prefix of every name: Redisson's `nameMapper`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Builder {
        self.prefix = prefix.into();
        self
    }

    /// Sets the watchdog's timeout: how long a lock without a lease stays held after its last renewal. The watchdog renews it each third
    /// of this time, or of the lease that the store grants if that is shorter. 30 s unless set, at least 100 ms.
    pub fn watchdog(mut self, timeout: Duration) -> Builder {
        self.watchdog = timeout;
        self
    }

    /// Sets how long a waiter of a [`Fair`](crate::Fair) lock that sends nothing keeps its place at the head of the queue while the lock
    /// is held: Redisson's `fairLockWaitTimeout`. 300 s unless set. A dead waiter is detected within seconds of its turn all the same.
    pub fn fair_patience(mut self, patience: Duration) -> Builder {
        self.fair_patience = patience;
        self
    }

    /// Sets how waiters notice a release; [`WaitBy::Notify`] unless set. With [`WaitBy::Spin`] no waiter subscribes to
    /// anything.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::{Locks, WaitBy};
    /// let locks = Locks::builder().url("memory:").wait_by(WaitBy::Spin).connect().await?;
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn wait_by(mut self, wait_by: WaitBy) -> Builder {
        self.wait_by = wait_by;
        self
    }

    /// Sets the kind that serves a [`Mutex`](crate::Mutex), so that the code that uses a mutex need not change: [`Kind::Mutex`] unless
    /// set, or [`Kind::Fair`], or [`Kind::Simple`], the format of hand-written `SET NX PX` locks, whose waiters poll. All programs that
    /// share the names must set the same kind.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::{Locks, store::Kind};
    /// let locks = Locks::builder().url("memory:").mutex_as(Kind::Simple).connect().await?;
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn mutex_as(mut self, kind: Kind) -> Builder {
        self.mutex_as = kind;
        self
    }

    /// Sets whether an acquire waits for replicas: [`Durability::Primary`] unless set. As Redisson's `checkLockSyncedSlaves`, except that
    /// with too few acknowledgements the acquire fails and is rolled back. A hand-over between waiters of one process needs no
    /// acknowledgement, see [`Durability`].
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.durability = durability;
        self
    }

    /// Connects without waiting for the server: it may start later, and until then every lock is `Unavailable`. For
    /// the servers of a [`RedLock`](crate::RedLock), of which some may be down. A wrong password, too, is reported only when a lock is used.
    pub fn lazy(mut self) -> Builder {
        self.lazy = true;
        self
    }

    /// Stores a description of each holder beside its lock: host, process, this name for the program, the request's
    /// [label](crate::Acquire::label) and the time of the acquire. It is removed with the lock; `inspect`, `list`, `distlock show` and the
    /// error of a waiter that timed out show it.
    ///
    /// Off unless set, because it costs a second key and its write with every acquisition, renewal and release, though no round trip.
    /// Other clients never read it: locks are shared with Redisson, and with programs that do not set it, as before. A name over
    /// 256 bytes is cut.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// let locks = distlock::Locks::builder().url("memory:").holder_info("billing").connect().await?;
    /// let guard = locks.mutex("k").lock().label("nightly run").await?;
    /// let holder = &locks.mutex("k").inspect().await?.holders[0];
    /// println!("held by {}", holder.info.as_ref().unwrap()); // billing on web-3, pid 4711, "nightly run"
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn holder_info(mut self, service: impl AsRef<str>) -> Builder {
        self.service = Some(holder::service(service.as_ref()));
        self
    }

    /// Warns of every hold that takes longer than this, once and while it is still held: [`Event::SlowHold`](crate::Event::SlowHold),
    /// which [`Tracing`](crate::Tracing) logs with kind, name and [label](crate::Acquire::label). Renewed holds and leases alike.
    ///
    /// Off unless set, because what is long depends on the program: a second for a payment, never for a leader.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use std::time::Duration;
    /// let builder = distlock::Locks::builder().url("memory:").slow_hold(Duration::from_secs(5));
    /// let locks = builder.connect().await?;
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn slow_hold(mut self, after: Duration) -> Builder {
        self.slow_hold = Some(after);
        self
    }

    /// Sets the observer, which receives every [`Event`](crate::Event); [`Tracing`](crate::Tracing) unless set, and with the feature
    /// `metrics` also `Metrics`.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Builder {
        self.observer = observer;
        self
    }

    /// Sets the clock, the runtime and the random numbers; [`System`] unless set.
    pub fn env(mut self, env: impl Env) -> Builder {
        self.env = Arc::new(env);
        self
    }

    /// Sets a store of your own instead of a URL.
    pub fn store(mut self, store: Arc<dyn Store>) -> Builder {
        self.store = Some(store);
        self
    }

    /// Sets how connections are made; sockets of the operating system unless set.
    #[cfg(feature = "redis")]
    pub fn connector(mut self, connector: Arc<dyn crate::redis::Connector>) -> Builder {
        self.connector = Some(connector);
        self
    }

    /// Checks the settings and connects.
    ///
    /// # Errors
    /// `Config` or `InvalidDuration` for a setting that cannot be used, `Unavailable` if no server replies, `Unsupported` if the
    /// store does not support a setting.
    pub async fn connect(self) -> Result<Locks> {
        let invalid = |text| Error::new(ErrorKind::InvalidDuration, text);
        limits::watchdog(self.watchdog).map_err(invalid)?;
        limits::fair_patience(self.fair_patience).map_err(invalid)?;
        self.slow_hold.map_or(Ok(()), limits::slow_hold).map_err(invalid)?;
        if self.durability == Durability::Acks(0) {
            let text = "Durability::Acks(0) waits for no replica: use Durability::Primary";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let mutex_as = match self.mutex_as {
            Kind::Mutex => ClaimKind::Exclusive,
            Kind::Simple => ClaimKind::Simple,
            Kind::Fair => ClaimKind::Fair { patience: None },
            other => {
                let text =
                    format!("a mutex cannot be served as {other}: use mutex, fair or simple");
                return Err(Error::new(ErrorKind::Config, text));
            }
        };
        let (store, place) = self.open().await?;
        let capabilities = store.capabilities();
        if self.mutex_as != Kind::Mutex {
            capabilities.check(self.mutex_as, || place.clone())?;
        }
        if self.durability != Durability::Primary && capabilities.durability != self.durability {
            let text = format!(
                "{place} has no replicas that could acknowledge anything: Durability::Acks needs Redis or Valkey"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let spin = (self.wait_by == WaitBy::Spin).then(Backoff::default);
        let tuning = Tuning {
            watchdog: self.watchdog,
            fair_patience: self.fair_patience,
            spin,
            mutex_as,
            service: self.service.clone(),
            slow_hold: self.slow_hold,
        };
        let engine = Engine::new(store, self.env, self.observer, tuning);
        Ok(Locks::over(engine, Arc::from(self.prefix), Arc::from(place)))
    }

    /// [`connect`](Builder::connect) for programs without a runtime.
    pub fn connect_blocking(self) -> Result<Locks> {
        let env = self.env.clone();
        engine::block_on(&*env, Box::pin(self.connect()))
    }

    async fn open(&self) -> Result<(Arc<dyn Store>, String)> {
        if let Some(store) = &self.store {
            return Ok((store.clone(), "a store of the program".to_owned()));
        }
        let url = self.url.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                "no store: give the builder a url, for instance `memory:`",
            )
        })?;
        limits::common_mistakes(url)?;
        match url.split_once(':') {
            Some(("memory", name)) => {
                Ok((MemoryStore::named(name, self.env.clone()), url.to_owned()))
            }
            #[cfg(all(feature = "file", not(any(target_os = "linux", target_os = "android"))))]
            Some(("file", _)) => {
                let text = "file: works on Linux only: use memory: in one process, or redis://";
                Err(Error::new(ErrorKind::Unsupported, text))
            }
            #[cfg(all(feature = "file", any(target_os = "linux", target_os = "android")))]
            Some(("file", dir)) => {
                let dir = match dir.strip_prefix("//").unwrap_or(dir) {
                    "" => crate::state_dir::for_locks().ok_or_else(|| {
                        let text = "file: without a directory is the user's state directory, and there is none: set HOME or \
                                    XDG_STATE_HOME, or write file:/dir";
                        Error::new(ErrorKind::Config, text)
                    })?,
                    dir => dir.into(),
                };
                let store = crate::file::FileStore::open(&dir, self.env.clone())?;
                Ok((store, format!("file:{}", dir.display())))
            }
            #[cfg(feature = "redis")]
            Some((scheme, _)) if scheme.starts_with("redis") => {
                use crate::redis::{Net, RedisStore, Surroundings};
                let surroundings = Surroundings {
                    env: self.env.clone(),
                    connector: self.connector.clone().unwrap_or_else(|| Arc::new(Net)),
                    observer: self.observer.clone(),
                    reply_timeout: config::reply_timeout(self.watchdog),
                    durability: self.durability,
                    holder_info: self.service.is_some(),
                };
                // In a box: connecting is deep, and programs' own futures stay small.
                let opened = Box::pin(RedisStore::open(url, surroundings, self.lazy));
                let (store, place) = opened.await?;
                Ok((store, place))
            }
            _ => Err(limits::no_store()),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may carry a password.
        f.debug_struct("Builder")
            .field("prefix", &self.prefix)
            .field("watchdog", &self.watchdog)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}
