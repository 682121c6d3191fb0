//! Redisson and distlock on one server, or on one cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock::{Builder, Locks};
use tokio::sync::{Mutex, OnceCell};

use super::{Peer, Thread, Version};
use crate::leak::{Limit, lives};
use crate::shared::{Lender, LentPeer, pair_cluster, peer_builder, process_tag};
use crate::suites::eventually;
use crate::{Cluster, Flavor, Server};

/// The watchdog's timeout of both sides: short enough to wait for, long enough for a machine that stands still for seconds.
const WATCHDOG: Duration = Duration::from_secs(9);
/// How long what is on its way out may take, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(30);
/// What has no longer to live than this is on its way out.
const BRIEF: Duration = Duration::from_secs(10);

/// Where they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// One Redis.
    One,
    /// A cluster of three primaries. Redis 7 has sharded channels, which both sides take then; Redis 6.2 has none.
    Cluster(Flavor),
}

/// Redisson and distlock on one server, or on one cluster, for one test, with names of its own.
#[derive(Clone, Debug)]
pub struct Pair {
    shared: Arc<Shared>,
    prefix: String,
    /// The server that has the name `k` of this test.
    server: Arc<Server>,
}

/// What tests of one version have in common: a server and a JVM take time to start.
#[derive(Debug)]
struct Shared {
    site: Site,
    cluster: Option<Cluster>,
    /// The one server; beside a cluster, one for histories.
    server: Arc<Server>,
    watchdog: Duration,
    peer: Arc<Peer>,
    second: OnceCell<Arc<Peer>>,
}

/// Runs a test with a Redisson of that version on a server of theirs, and sees that nothing is left behind. Says so where
/// that Redisson is not installed.
pub async fn pair<F: Future<Output = ()>>(
    version: Version,
    site: Site,
    test: impl FnOnce(Pair) -> F,
) {
    let Some(pair) = Pair::at(version, site).await else { return };
    test(pair.clone()).await;
    pair.assert_clean().await;
}

impl Pair {
    /// The pair with that Redisson; `None`, and a line on the test's output, if it is not installed.
    ///
    /// Server and JVM are [shared](crate::shared) by the tests of a process that run at the same time, or by all processes.
    pub async fn at(version: Version, site: Site) -> Option<Pair> {
        Pair::with_watchdog(version, site, WATCHDOG).await
    }

    /// [`at`](Pair::at) with a watchdog's timeout other than 9 s.
    pub async fn with_watchdog(version: Version, site: Site, timeout: Duration) -> Option<Pair> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shared = shared(version, site, timeout).await?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("i{}-{number}:", process_tag());
        let server = match &shared.cluster {
            Some(cluster) => cluster.primary_of(&format!("{prefix}k")).await,
            None => shared.server.clone(),
        };
        Some(Pair { shared, prefix, server })
    }

    /// A name that no other test uses.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The server; of a cluster the one that has the name `k`. Others use it too.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The server that has a name.
    pub async fn server_of(&self, name: &str) -> Arc<Server> {
        match &self.shared.cluster {
            Some(cluster) => cluster.primary_of(name).await,
            None => self.server.clone(),
        }
    }

    /// A plain server, for what is not about locks.
    pub fn place(&self) -> &Server {
        &self.shared.server
    }

    /// The URL for the library.
    pub fn url(&self) -> String {
        self.shared.url()
    }

    /// A hash, sorted by field; empty when there is none.
    pub async fn hgetall(&self, key: &str) -> BTreeMap<String, String> {
        self.server_of(key).await.hgetall(key).await
    }

    /// Whether there is such a key.
    pub async fn exists(&self, key: &str) -> bool {
        self.server_of(key).await.exists(key).await
    }

    /// What is left of a key's time in milliseconds; −1 for ever, −2 no such key.
    pub async fn pttl(&self, key: &str) -> i64 {
        self.server_of(key).await.pttl(key).await
    }

    /// The channels somebody is subscribed to, on any server.
    pub async fn channels(&self) -> Vec<String> {
        let mut channels = Vec::new();
        for node in self.shared.nodes() {
            channels.extend(node.pubsub_channels().await);
        }
        channels
    }

    /// The JVM. Others use it too.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.shared.peer
    }

    /// A second JVM, started when it is first asked for. Others use it too.
    pub async fn second_peer(&self) -> &Arc<Peer> {
        let start = || async {
            match lent(self.version(), self.shared.site, self.shared.watchdog, 1).await {
                Some(lent) => Arc::new(lent.expect("the other one was installed").peer),
                None => self.own_peer().await,
            }
        };
        self.shared.second.get_or_init(start).await
    }

    /// Which Redisson it is.
    pub fn version(&self) -> Version {
        self.peer().version()
    }

    /// A Java thread of this test's own in the JVM that tests share.
    pub fn java(&self, name: &str) -> Thread {
        self.peer().thread(&self.name(name))
    }

    /// A JVM of this test's own, to be killed or stopped.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn own_peer(&self) -> Arc<Peer> {
        let (version, shared) = (self.version(), &self.shared);
        let cluster = shared.cluster.as_ref();
        let peer = peer_builder(version, cluster, &shared.server, shared.watchdog).start().await;
        Arc::new(peer.expect("the other one was installed"))
    }

    /// Options for one more `Locks` on the server.
    pub fn builder(&self) -> Builder {
        Locks::builder().url(self.url())
    }

    /// One more `Locks` on the server: as good as another process. The watchdog's timeout is the same as Java's.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn rust(&self) -> Locks {
        self.builder().watchdog(self.shared.watchdog).connect().await.expect("the server answers")
    }

    /// Waits until `n` are subscribed to the channel of a plain, fenced or multi lock: until so many *processes* wait. For a fair
    /// lock see [`queued`](Pair::queued).
    ///
    /// # Panics
    /// When they are not within 18 s.
    pub async fn waiting(&self, name: &str, n: u64) {
        self.listening(&format!("redisson_lock__channel:{{{name}}}"), n).await;
    }

    /// Waits until exactly `n` are subscribed to that channel.
    ///
    /// # Panics
    /// When they are not within 18 s.
    pub async fn listening(&self, channel: &str, n: u64) {
        let there = || async {
            let mut listening = 0;
            for node in self.shared.nodes() {
                for how in ["NUMSUB", "SHARDNUMSUB"] {
                    // Redis 6.2 has no shard channels; others refuse those of another server's slots.
                    let count = node.try_cli(&["PUBSUB", how, channel]).await;
                    let count = count.and_then(|count| Ok(redis::from_redis_value(count)?));
                    listening += count.map_or(0, |(_, count): (String, u64)| count);
                }
            }
            listening == n
        };
        eventually(&format!("{n} listen to {channel}"), there).await;
    }

    /// Waits until the queue of a fair lock has that length.
    ///
    /// # Panics
    /// When it has not within 18 s.
    pub async fn queued(&self, name: &str, n: usize) {
        let there = || async { self.queue(name).await.len() == n };
        eventually(&format!("{n} are in the queue of {name}"), there).await;
    }

    /// The owners in the queue of a fair lock, the next one first.
    pub async fn queue(&self, name: &str) -> Vec<String> {
        let key = format!("redisson_lock_queue:{{{name}}}");
        self.server_of(name).await.ask(&["LRANGE", &key, "0", "-1"]).await
    }

    /// Waits until nothing of this test is left on the server: no key and no subscription.
    ///
    /// What Redisson leaves of its own is passed over: the answers to its unlocks, which it removes later, and the counters of
    /// fenced locks, which stay.
    ///
    /// # Panics
    /// When something is left after 30 s, or was about to go by itself after more than 10 s.
    pub async fn assert_clean(&self) {
        let passed_over = ["redisson_unlock_latch:", "redisson_lock_token:"];
        let left = || async {
            let mut left = Vec::new();
            for node in self.shared.nodes() {
                for key in node.keys(&format!("*{}*", self.prefix)).await {
                    if !passed_over.iter().any(|prefix| key.starts_with(prefix)) {
                        let pttl = node.pttl(&key).await;
                        left.push((key, lives(pttl)));
                    }
                }
            }
            let ours = self.channels().await.into_iter();
            let ours = ours.filter(|channel| channel.contains(&self.prefix));
            left.extend(ours.map(|channel| (channel, None)));
            left
        };
        let mut limit = Limit::new(PATIENCE, BRIEF);
        loop {
            let left = left().await;
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|(_, lives)| limit.must_go(*lives));
            assert!(!limit.is_over(), "left behind: {left:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Shared {
    fn url(&self) -> String {
        match &self.cluster {
            Some(cluster) => cluster.url("auto"),
            None => self.server.url(),
        }
    }

    /// Where locks are.
    fn nodes(&self) -> &[Arc<Server>] {
        match &self.cluster {
            Some(cluster) => cluster.nodes(),
            None => std::slice::from_ref(&self.server),
        }
    }
}

/// The server or cluster and the JVM of that version which tests share: the host's where there is a host; otherwise started
/// for the first test of this process, stopped after the last.
async fn shared(version: Version, site: Site, watchdog: Duration) -> Option<Arc<Shared>> {
    static SHARED: Mutex<Vec<Weak<Shared>>> = Mutex::const_new(Vec::new());
    let mut all = SHARED.lock().await;
    all.retain(|shared| shared.strong_count() > 0);
    let is_meant = |shared: &Arc<Shared>| {
        (shared.peer.version(), shared.site, shared.watchdog) == (version, site, watchdog)
    };
    if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(is_meant) {
        return Some(shared);
    }
    let LentPeer { peer, server, cluster } = match lent(version, site, watchdog, 0).await {
        Some(lent) => lent?,
        None => start(version, site, watchdog).await?,
    };
    let (peer, second) = (Arc::new(peer), OnceCell::new());
    let shared = Arc::new(Shared { site, cluster, server, watchdog, peer, second });
    all.push(Arc::downgrade(&shared));
    Some(shared)
}

/// What the host lends; `None` without a host, `Some(None)` where it has no Redisson.
async fn lent(
    version: Version,
    site: Site,
    watchdog: Duration,
    copy: u64,
) -> Option<Option<LentPeer>> {
    let lender = Lender::from_env()?;
    let ask = move || lender.peer(version, site, watchdog, copy);
    match tokio::task::spawn_blocking(ask).await {
        Ok(lent) => Some(lent),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Starts a server or a cluster, and a JVM on it.
async fn start(version: Version, site: Site, watchdog: Duration) -> Option<LentPeer> {
    // Asked first: a test that is skipped starts no server.
    version.dir()?;
    let cluster = match site {
        Site::One => None,
        Site::Cluster(flavor) if flavor.program().is_none() => {
            eprintln!("SKIPPED: no server for {flavor:?}");
            return None;
        }
        Site::Cluster(flavor) => Some(pair_cluster(flavor).start().await),
    };
    let server = Arc::new(Server::builder(Flavor::Redis).start().await);
    let peer = peer_builder(version, cluster.as_ref(), &server, watchdog).start().await?;
    Some(LentPeer { peer, server, cluster })
}
