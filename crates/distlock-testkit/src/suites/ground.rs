//! Where promises are kept: one store, opened as often as a promise wants.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use distlock::env::Virtual;
use distlock::{Builder, Locks, WaitBy};
use tokio::time::Instant;

use super::seed;
use crate::leak::{Limit, lives};
use crate::looks::Looks;
use crate::scratch::Scratch;
use crate::{Cluster, Flavor, SentinelSet, Server, Stopwatch, effort, shared};

/// How long what is on its way out may take, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(30);
/// What has no longer to live than this is on its way out.
const BRIEF: Duration = Duration::from_secs(10);
/// For how long a store that does not answer in time is asked again: some attempts of three seconds each.
const OPENING: Duration = Duration::from_secs(18);

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// `memory:`, in real time.
    Memory,
    /// `memory:`, in virtual time: for a runtime with a paused clock.
    Virtual,
    /// `file:`.
    File,
    /// `redis://`.
    Server(Flavor),
    /// `redis://` as a user who may do nothing that locks do not need.
    Acl(Flavor),
    /// `redis://` where Pub/Sub is forbidden: those who wait poll.
    Polling(Flavor),
    /// `rediss://` with certificates on both sides.
    Tls,
    /// `redis+sentinel://`: a primary, a replica and three sentinels.
    Sentinel(Flavor),
    /// `redis+cluster://`, with this option for pub/sub, as a user who may do nothing that locks do not need.
    Cluster(Flavor, &'static str),
}

/// One store for one test, with names of its own.
#[derive(Clone, Debug)]
pub struct Ground(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    site: Site,
    url: String,
    prefix: String,
    virtual_time: Option<Virtual>,
    server: Option<Arc<Server>>,
    cluster: Option<Arc<Cluster>>,
    sentinels: Option<Arc<SentinelSet>>,
    /// Open for as long as the test runs: a table in memory goes with its last user.
    _keeper: Option<Locks>,
    _dir: Option<Scratch>,
}

/// Has the store at `site` keep a promise, and leave nothing behind. Says so where the store is not installed.
pub async fn stand<F: Future<Output = ()>>(site: Site, promise: impl FnOnce(Ground) -> F) {
    let Some(ground) = Ground::at(site) else { return };
    // In a box: all of a promise's futures in one type would be deeper than the compiler likes.
    Box::pin(promise(ground.clone())).await;
    ground.assert_clean().await;
}

impl Ground {
    /// The store at `site`; `None`, and a line on the test's output, if it is not installed.
    ///
    /// Servers are [shared] by the tests of a process that run at the same time, or by all processes.
    pub fn at(site: Site) -> Option<Ground> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let ours = format!("t{}-", shared::process_tag());
        let prefix = format!("{ours}{number}:");
        let (mut server, mut dir, mut virtual_time, mut keeper) = (None, None, None, None);
        let (mut cluster, mut sentinels) = (None, None);
        let url = match site {
            Site::Memory | Site::Virtual => {
                if site == Site::Virtual {
                    virtual_time = Some(Virtual::seeded(seed::current()));
                }
                let url = format!("memory:{prefix}");
                let kept = Locks::builder().url(&url);
                let kept = match &virtual_time {
                    Some(time) => ready(kept.env(time.clone()).connect()),
                    None => ready(kept.connect()),
                };
                keeper = Some(kept.expect("memory can always be opened"));
                url
            }
            Site::File => {
                let scratch = Scratch::new();
                let url = format!("file:{}", scratch.join("locks").display());
                dir = Some(scratch);
                url
            }
            Site::Server(flavor) | Site::Acl(flavor) | Site::Polling(flavor) => {
                let shared = shared::server(flavor)?;
                let url = match site {
                    Site::Acl(_) => shared.least_privilege(&ours),
                    Site::Polling(_) => shared.without_channels(&ours),
                    _ => shared.url(),
                };
                server = Some(shared);
                url
            }
            Site::Tls => {
                let shared = shared::tls_server()?;
                let url = shared.url();
                server = Some(shared);
                url
            }
            Site::Sentinel(flavor) => {
                let shared = shared::sentinels(flavor)?;
                let url = shared.url();
                sentinels = Some(shared);
                url
            }
            Site::Cluster(flavor, pubsub) => {
                let shared = shared::cluster(flavor)?;
                let url = shared.least_privilege(&ours, pubsub);
                cluster = Some(shared);
                url
            }
        };
        let (_keeper, _dir) = (keeper, dir);
        let inner =
            Inner { site, url, prefix, virtual_time, server, cluster, sentinels, _keeper, _dir };
        Some(Ground(Arc::new(inner)))
    }

    /// A name that no other test uses.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.0.prefix)
    }

    /// What every name of this test begins with.
    pub fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Where it is.
    pub fn site(&self) -> Site {
        self.0.site
    }

    /// The server, if there is one. Others use it too.
    pub fn server(&self) -> Option<&Server> {
        self.0.server.as_deref()
    }

    /// The cluster, if there is one. Others use it too.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.0.cluster.as_deref()
    }

    /// Options for one more `Locks` on this store.
    pub fn builder(&self) -> Builder {
        let mut builder = Locks::builder().url(self.url());
        if matches!(self.site(), Site::Polling(_)) {
            builder = builder.wait_by(WaitBy::Spin);
        }
        match &self.0.virtual_time {
            Some(time) => builder.env(time.clone()),
            None => builder,
        }
    }

    /// Options for one more `Locks` on this store whose holders say who they are, with the permissions that this takes.
    pub fn saying(&self, service: &str) -> Builder {
        let builder = self.builder().holder_info(service);
        let ours: String = self.prefix().split_inclusive('-').take(1).collect();
        match (self.site(), self.server(), self.cluster()) {
            (Site::Acl(_), Some(server), _) => {
                builder.url(server.least_privilege_saying_who(&ours))
            }
            (Site::Polling(_), Some(server), _) => {
                builder.url(server.without_channels_saying_who(&ours))
            }
            (Site::Cluster(_, pubsub), _, Some(cluster)) => {
                builder.url(cluster.least_privilege_saying_who(&ours, pubsub))
            }
            _ => builder,
        }
    }

    /// One more `Locks` on this store: as good as another process.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn open(&self) -> Locks {
        connect(|| self.builder()).await
    }

    /// [`open`](Ground::open) with a watchdog timeout.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn open_with_watchdog(&self, timeout: Duration) -> Locks {
        connect(|| self.builder().watchdog(timeout)).await
    }

    /// By how much something may be late: not at all in virtual time but for timers' milliseconds, and by seconds on a
    /// machine that does other things. Less than a waiter sleeps that nobody wakes.
    pub fn slack(&self) -> Duration {
        match self.site() {
            Site::Virtual => Duration::from_millis(3),
            _ => Duration::from_secs(5),
        }
    }

    /// Counts time for a limit that tells one cause of a delay from another.
    pub fn stopwatch(&self) -> Stopwatch {
        match self.site() {
            Site::Virtual => Stopwatch::in_virtual_time(),
            _ => Stopwatch::start(),
        }
    }

    /// A size for a crowd that this store gets through in a second or two, given one that memory does.
    pub fn crowd(&self, full: usize) -> usize {
        match self.site() {
            Site::Memory | Site::Virtual => full.div_ceil(effort(1, 2)),
            Site::File => full.div_ceil(8),
            _ => full.div_ceil(effort(3, 5)),
        }
    }

    /// Waits until nothing of this test is left in the store: no lock, and on a server no key and no subscription.
    ///
    /// # Panics
    /// When something is left after 30 s, or was about to go by itself after more than 10 s.
    pub async fn assert_clean(&self) {
        let locks = self.open().await;
        let mut limit = Limit::new(PATIENCE, BRIEF);
        let mut looks = Looks::default();
        loop {
            let left = self.left(&locks).await;
            if left.is_empty() {
                break;
            }
            left.iter().for_each(|(_, lives)| limit.must_go(*lives));
            assert!(!limit.is_over(), "left behind after {:?}: {left:?}", limit.spent());
            looks.pause().await;
        }
        if let Some(cluster) = self.cluster() {
            cluster.assert_clean(self.prefix()).await;
        }
        if let Some(sentinels) = &self.0.sentinels {
            sentinels.assert_clean(self.prefix()).await;
        }
    }

    /// What of this test is in the store, and how long it has to live; what that is where nobody can say.
    async fn left(&self, locks: &Locks) -> Vec<(String, Option<Duration>)> {
        let mut left = Vec::new();
        // A server has the locks of other tests as well, which this test's user may not read.
        let alone = matches!(self.site(), Site::Memory | Site::Virtual | Site::File);
        let prefix = if alone { "" } else { self.prefix() };
        match locks.list(prefix).await {
            Ok(all) => left.extend(all.into_iter().map(|one| (one.name.to_string(), one.ttl))),
            Err(error) => left.push((format!("{}: {error}", self.prefix()), None)),
        }
        if let Some(server) = self.server() {
            for key in server.keys(&format!("*{}*", self.prefix())).await {
                let pttl = server.pttl(&key).await;
                left.push((key, lives(pttl)));
            }
            let channels = server.pubsub_channels().await;
            left.extend(channels.into_iter().map(|channel| (channel, None)));
        }
        // The one thing that is meant to stay: the counter of a fenced lock.
        left.retain(|(name, _)| self.owns(name) && !name.starts_with("redisson_lock_token:"));
        left
    }

    fn owns(&self, name: &str) -> bool {
        name.contains(self.prefix())
    }
}

/// Connects, and again where a machine that stood still kept the store from answering in time.
async fn connect(builder: impl Fn() -> Builder) -> Locks {
    let since = Instant::now();
    let mut looks = Looks::default();
    loop {
        match builder().connect().await {
            Err(error) if error.is_retryable() && since.elapsed() < OPENING => {
                looks.pause().await;
            }
            opened => return opened.expect("the store can be opened"),
        }
    }
}

/// What a future that never waits gives.
fn ready<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match work.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("opening a table in memory waits for something"),
    }
}
