//! Redisson and distlock on one server.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use distlock::{Builder, Locks};
use tokio::sync::Mutex;

use super::{Peer, Thread, Version};
use crate::suites::eventually;
use crate::{Flavor, Server};

/// The watchdog's timeout of the JVM that tests share: short enough to wait for, long enough for a busy machine.
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
    peer: Arc<Peer>,
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
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shared = shared(version).await?;
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

    /// The JVM. Others use it too; its watchdog's timeout is 3 s.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.shared.peer
    }

    /// Which Redisson it is.
    pub fn version(&self) -> Version {
        self.peer().version()
    }

    /// A Java thread of this test's own in the JVM that tests share.
    pub fn java(&self, name: &str) -> Thread {
        self.peer().thread(&self.name(name))
    }

    /// A JVM of this test's own, to be killed or stopped. The watchdog's timeout is 3 s.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn own_peer(&self) -> Arc<Peer> {
        let peer = Peer::builder(self.version()).address(self.server().addr()).watchdog(WATCHDOG);
        Arc::new(peer.start().await.expect("the other one was installed"))
    }

    /// Options for one more `Locks` on the server.
    pub fn builder(&self) -> Builder {
        Locks::builder().url(self.server().url())
    }

    /// One more `Locks` on the server: as good as another process. The watchdog's timeout is 3 s, as Java's.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn rust(&self) -> Locks {
        self.builder().watchdog(WATCHDOG).connect().await.expect("the server answers")
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
async fn shared(version: Version) -> Option<Arc<Shared>> {
    static SHARED: Mutex<Vec<(Version, Weak<Shared>)>> = Mutex::const_new(Vec::new());
    let mut all = SHARED.lock().await;
    let known = all.iter().find(|(of, _)| *of == version);
    if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
        return Some(shared);
    }
    // Asked first: a test that is skipped starts no server.
    version.dir()?;
    let server = Server::builder(Flavor::Redis).start().await;
    let peer = Peer::builder(version).address(server.addr()).watchdog(WATCHDOG).start().await?;
    let shared = Arc::new(Shared { server, peer: Arc::new(peer) });
    all.retain(|(of, _)| *of != version);
    all.push((version, Arc::downgrade(&shared)));
    Some(shared)
}
