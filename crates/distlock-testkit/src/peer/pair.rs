//! Redisson and distlock on one server.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock::{Builder, Locks};
use tokio::sync::{Mutex, OnceCell};

use super::{Peer, Thread, Version};
use crate::suites::eventually;
use crate::{Flavor, Server};

/// The watchdog's timeout of both sides: short enough to wait for, long enough for a busy machine.
const WATCHDOG: Duration = Duration::from_secs(3);

/// Redisson and distlock on one server, for one test, with names of its own.
#[derive(Clone, Debug)]
pub struct Pair {
    shared: Arc<Shared>,
    prefix: String,
}

/// What tests of one version have in common: a server and a JVM take time to start.
#[derive(Debug)]
struct Shared {
    server: Server,
    watchdog: Duration,
    peer: Arc<Peer>,
    second: OnceCell<Arc<Peer>>,
}

/// Runs a test with a Redisson of that version on a server of theirs, and sees that nothing is left behind. Says so where
/// that Redisson is not installed.
pub async fn pair<F: Future<Output = ()>>(version: Version, test: impl FnOnce(Pair) -> F) {
    let Some(pair) = Pair::of(version).await else { return };
    test(pair.clone()).await;
    pair.assert_clean().await;
}

impl Pair {
    /// The pair with that Redisson; `None`, and a line on the test's output, if it is not installed.
    ///
    /// Server and JVM are shared by the tests of a process that run at the same time.
    pub async fn of(version: Version) -> Option<Pair> {
        Pair::with_watchdog(version, WATCHDOG).await
    }

    /// [`of`](Pair::of) with a watchdog's timeout other than 3 s.
    pub async fn with_watchdog(version: Version, timeout: Duration) -> Option<Pair> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shared = shared(version, timeout).await?;
        let prefix = format!("i{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        Some(Pair { shared, prefix })
    }

    /// A name that no other test uses.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The server. Others use it too.
    pub fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The JVM. Others use it too.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.shared.peer
    }

    /// A second JVM, started when it is first asked for. Others use it too.
    pub async fn second_peer(&self) -> &Arc<Peer> {
        self.shared.second.get_or_init(|| self.own_peer()).await
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
        let peer = Peer::builder(self.version()).address(self.server().addr());
        let peer = peer.watchdog(self.shared.watchdog);
        Arc::new(peer.start().await.expect("the other one was installed"))
    }

    /// Options for one more `Locks` on the server.
    pub fn builder(&self) -> Builder {
        Locks::builder().url(self.server().url())
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
    /// When they are not within 10 s.
    pub async fn waiting(&self, name: &str, n: u64) {
        self.listening(&format!("redisson_lock__channel:{{{name}}}"), n).await;
    }

    /// Waits until exactly `n` are subscribed to that channel.
    ///
    /// # Panics
    /// When they are not within 10 s.
    pub async fn listening(&self, channel: &str, n: u64) {
        let there = || async {
            let count: (String, u64) = self.server().ask(&["PUBSUB", "NUMSUB", channel]).await;
            count.1 == n
        };
        eventually(&format!("{n} listen to {channel}"), there).await;
    }

    /// Waits until the queue of a fair lock has that length.
    ///
    /// # Panics
    /// When it has not within 10 s.
    pub async fn queued(&self, name: &str, n: usize) {
        let there = || async { self.queue(name).await.len() == n };
        eventually(&format!("{n} are in the queue of {name}"), there).await;
    }

    /// The owners in the queue of a fair lock, the next one first.
    pub async fn queue(&self, name: &str) -> Vec<String> {
        let key = format!("redisson_lock_queue:{{{name}}}");
        self.server().ask(&["LRANGE", &key, "0", "-1"]).await
    }

    /// Waits until nothing of this test is left on the server: no key and no subscription.
    ///
    /// What Redisson leaves of its own is passed over: the answers to its unlocks, which it removes later, and the counters of
    /// fenced locks, which stay.
    ///
    /// # Panics
    /// When something is left after 10 s.
    pub async fn assert_clean(&self) {
        let passed_over = ["redisson_unlock_latch:", "redisson_lock_token:"];
        let left = || async {
            let mut left = self.server().keys(&format!("*{}*", self.prefix)).await;
            left.retain(|key| !passed_over.iter().any(|prefix| key.starts_with(prefix)));
            let channels = self.server().pubsub_channels().await;
            left.extend(channels.into_iter().filter(|channel| channel.contains(&self.prefix)));
            left
        };
        let since = std::time::Instant::now();
        loop {
            let left = left().await;
            if left.is_empty() {
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "left behind: {left:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The server and the JVM of that version which tests share; started for the first of them, stopped after the last.
async fn shared(version: Version, watchdog: Duration) -> Option<Arc<Shared>> {
    static SHARED: Mutex<Vec<Weak<Shared>>> = Mutex::const_new(Vec::new());
    let mut all = SHARED.lock().await;
    all.retain(|shared| shared.strong_count() > 0);
    let is_meant =
        |shared: &Arc<Shared>| shared.peer.version() == version && shared.watchdog == watchdog;
    if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(is_meant) {
        return Some(shared);
    }
    // Asked first: a test that is skipped starts no server.
    version.dir()?;
    let server = Server::builder(Flavor::Redis).start().await;
    let peer = Peer::builder(version).address(server.addr()).watchdog(watchdog).start().await?;
    let (peer, second) = (Arc::new(peer), OnceCell::new());
    let shared = Arc::new(Shared { server, watchdog, peer, second });
    all.push(Arc::downgrade(&shared));
    Some(shared)
}
