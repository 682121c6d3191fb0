//! What can be set before connecting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::{Backoff, WaitBy};
use crate::config;
use crate::durability::Durability;
use crate::engine::{self, Engine, Tuning};
use crate::env::{Env, System};
use crate::error::{Error, ErrorKind, Result};
use crate::holder;
use crate::limits;
use crate::locks::Locks;
use crate::memory::MemoryStore;
use crate::observe::{self, Observer};
use crate::store::{Kind, Store, What};

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
    /// Where the locks are kept: `memory:`, `file:/dir`, `redis://host`, `rediss://host`, `redis+unix:///socket`,
    /// `redis+sentinel://host1,host2/primary`, `redis+replicated://host1,host2`, `redis+cluster://host1,host2`.
    ///
    /// Of sentinels, name those that are likely to answer, and behind them the name that they have for the primary, and a
    /// database if it is not 0: `redis+sentinel://user:password@s1:26379,s2/mymaster/1?sentinel_user=…&sentinel_pass=…`. User and
    /// password before the hosts are for the servers, `sentinel_user` and `sentinel_pass` for the sentinels. Of replicated
    /// servers, name all: one of them must say that it is the primary. With `rediss+` all of them speak TLS.
    ///
    /// Of a cluster, name any servers that answer; the others are found. `rediss+cluster://` has TLS on all of them. User,
    /// password and options are the same for all, and there is no database. `?pubsub=` says how releases are called out:
    /// `auto` (unless said otherwise) is `sharded` if the first server that answers has sharded channels and `classic` if it
    /// has not, as Redisson's `AUTO` is; `both` is for fleets of which a part does the other. On a cluster all keys of a lock
    /// must be in one slot: names with braces are refused with `InvalidName` unless they have a `{tag}`, and of latches all.
    ///
    /// `memory:` is one table for the whole process, `memory:name` another one; [`Locks::memory`] is always a new one.
    ///
    /// `file:` without a directory is the user's: `$XDG_STATE_HOME/distlock`, or `~/.local/state/distlock`, as the command-line tool has it
    /// without a URL. Processes of different users need a directory that both name.
    pub fn url(mut self, url: impl Into<String>) -> Builder {
        self.url = Some(url.into());
        self
    }

    /// Put before every name: Redisson's `nameMapper`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Builder {
        self.prefix = prefix.into();
        self
    }

    /// How long a lock without a lease outlives its holder; it is renewed each third of it. 30 s unless set, at
    /// least 100 ms.
    pub fn watchdog(mut self, timeout: Duration) -> Builder {
        self.watchdog = timeout;
        self
    }

    /// How long a waiter of a [`Fair`](crate::Fair) lock that is not heard of keeps its place at the head of the queue:
    /// Redisson's `fairLockWaitTimeout`. 300 s unless set. A waiter that is dead is found out within seconds all the same.
    pub fn fair_patience(mut self, patience: Duration) -> Builder {
        self.fair_patience = patience;
        self
    }

    /// How those who wait find out that they may go on; [`WaitBy::Notify`] unless set. With [`WaitBy::Spin`] nobody subscribes to
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

    /// What serves a [`Mutex`](crate::Mutex), so that the code that asks for one need not change: [`Kind::Mutex`] unless set, or
    /// [`Kind::Fair`], or [`Kind::Simple`], the format of locks that are made by hand with `SET NX PX`, whose waiters poll. Whoever
    /// shares the names must use the same.
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

    /// When an acquisition counts: [`Durability::Primary`] unless set. Redisson's `checkLockSyncedSlaves`, but what it asks for is
    /// what it gets.
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.durability = durability;
        self
    }

    /// Does not wait for the server when connecting: it may come later, and until then every lock is `Unavailable`. For one
    /// of the servers of a [`RedLock`](crate::RedLock), of which some may be down. A wrong password is found out late, too.
    pub fn lazy(mut self) -> Builder {
        self.lazy = true;
        self
    }

    /// Has holders say who they are: host, process, this name for the program, the request's
    /// [label](crate::Acquire::label) and since when. It is kept beside the lock and goes with it; it is shown by `inspect` and
    /// `list`, in the error of who waited in vain, and by `distlock show`.
    ///
    /// Off unless set, because it costs a second key and its write with every acquisition, renewal and release, though no round trip.
    /// Other clients never look at it: locks are shared with Redisson, and with programs that have it off, as before. A name over
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
    /// Off unless set, because what is long depends on the program: a payment is after a second, a leader after no time at all.
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

    /// Who is told what happens; [`Tracing`](crate::Tracing) unless set, and with the feature `metrics` also `Metrics`.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Builder {
        self.observer = observer;
        self
    }

    /// The surroundings; [`System`] unless set.
    pub fn env(mut self, env: impl Env) -> Builder {
        self.env = Arc::new(env);
        self
    }

    /// A store of your own instead of a URL.
    pub fn store(mut self, store: Arc<dyn Store>) -> Builder {
        self.store = Some(store);
        self
    }

    /// How connections are made; sockets of the operating system unless set.
    #[cfg(feature = "redis")]
    pub fn connector(mut self, connector: Arc<dyn crate::redis::Connector>) -> Builder {
        self.connector = Some(connector);
        self
    }

    /// Checks the settings and connects.
    ///
    /// # Errors
    /// `Config` or `InvalidDuration` for a setting that cannot be used, `Unavailable` if nobody answers, `Unsupported` if the
    /// store cannot do what a setting asks for.
    pub async fn connect(self) -> Result<Locks> {
        let invalid = |text| Error::new(ErrorKind::InvalidDuration, text);
        limits::watchdog(self.watchdog).map_err(invalid)?;
        limits::fair_patience(self.fair_patience).map_err(invalid)?;
        self.slow_hold.map_or(Ok(()), limits::slow_hold).map_err(invalid)?;
        if self.durability == Durability::Acks(0) {
            let text = "Durability::Acks(0) waits for no replica: say Durability::Primary";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let mutex_as = match self.mutex_as {
            Kind::Mutex => What::Exclusive,
            Kind::Simple => What::Simple,
            Kind::Fair => What::Fair { patience: None },
            other => {
                let text =
                    format!("a mutex cannot be served as {other}: use mutex, fair or simple");
                return Err(Error::new(ErrorKind::Config, text));
            }
        };
        let (store, place) = self.open().await?;
        if self.durability != Durability::Primary && store.durability() != self.durability {
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
        limits::nearly(url)?;
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
