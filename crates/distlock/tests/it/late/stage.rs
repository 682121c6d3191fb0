//! A store, a process whose requests can be late, and others.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Locks, State};
use distlock_testkit::Server;
use distlock_testkit::proxy::{Delivered, Late, Match, Proxy, Request};
use distlock_testkit::suites::eventually;

use crate::late::kinds::{Ask, Hold, Kind, Process, members};

/// Longer than any test: what is gone before was released.
pub(crate) const LEASE: Duration = Duration::from_secs(120);
/// How long an acquisition takes at most that nothing stands in the way of.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// The lease of what may stay behind where connections cannot be ended at the server.
pub(crate) const BRIEF: Duration = Duration::from_secs(2);
/// Of processes whose holds have leases: it makes the time-out of replies short, which is a third of it.
pub(crate) const IMPATIENT: Duration = Duration::from_millis(750);

/// What the user may do whose requests are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Everything.
    MayKill,
    /// Everything but to end connections at the server.
    MayNotKill,
}

/// One server, or three.
#[derive(Clone, Debug)]
pub(crate) struct Store(Arc<Vec<Server>>);

impl Store {
    pub(crate) async fn start(count: usize) -> Store {
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(Server::redis().await);
        }
        Store(Arc::new(servers))
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.0
    }
}

/// Who takes part in a test.
pub(crate) struct Stage {
    pub(crate) store: Store,
    pub(crate) user: User,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) proxies: Vec<Proxy>,
    /// The process behind the proxies.
    pub(crate) here: Process,
    /// Another process.
    pub(crate) other: Process,
    /// A process that only looks whether the lock is free.
    pub(crate) third: Process,
}

impl Stage {
    pub(crate) async fn set(
        store: &Store,
        user: User,
        kind: Kind,
        name: &str,
        watchdog: Duration,
    ) -> Stage {
        let mut proxies = Vec::new();
        let mut all = [const { Vec::new() }; 3];
        for server in store.servers() {
            let proxy = Proxy::start(server.addr()).await;
            let through = url_through(server, &proxy, user);
            for (process, url) in all.iter_mut().zip([through, server.url(), server.url()]) {
                process.push(connect(&url, watchdog).await);
            }
            proxies.push(proxy);
        }
        let [here, other, third] = all.map(Process);
        let (store, name) = (store.clone(), name.to_owned());
        let stage = Stage { store, user, kind, name, proxies, here, other, third };
        stage.warm_up().await;
        stage
    }

    /// Has the servers know the scripts: a late EVALSHA of one that they do not know does nothing.
    async fn warm_up(&self) {
        let (name, me) = (format!("warm-{}", self.name), self.other.owner());
        for lease in [Some(LEASE), None] {
            let ask = Ask { owner: Some(me), lease, wait: Some(SOON) };
            let outer = lock(&self.other, self.kind, &name, ask).await;
            if !matches!(self.kind, Kind::Semaphore | Kind::LeasedSemaphore) {
                lock(&self.other, self.kind, &name, ask).await.unlock().await.expect("a release");
            }
            if self.kind.has_lease() {
                outer.extend(2 * LEASE).await.expect("an extension");
            }
            outer.unlock().await.expect("a release");
        }
        self.delete(&name).await;
    }

    /// Deletes a semaphore.
    async fn delete(&self, name: &str) {
        let locks = &self.third.0[0];
        let deleted = match self.kind {
            Kind::Semaphore => locks.semaphore(name).delete().await,
            Kind::LeasedSemaphore => locks.leased_semaphore(name).delete().await,
            _ => return,
        };
        deleted.expect("an answer");
    }

    /// Acquires the lock in a process.
    pub(crate) async fn lock(&self, process: &Process, ask: Ask) -> Box<dyn Hold> {
        lock(process, self.kind, &self.name, ask).await
    }

    /// The next step about the lock that matches is held back, at every server.
    pub(crate) fn hold_back(
        &self,
        matcher: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Lates {
        let matcher = self.steps().and(Match::by(matcher));
        Lates(self.proxies.iter().map(|proxy| proxy.deliver_late(matcher.clone(), 1)).collect())
    }

    /// Every step about the lock.
    pub(crate) fn steps(&self) -> Match {
        Match::command("EVALSHA").and(self.name.as_str())
    }

    /// Whether another process could take the lock now.
    pub(crate) async fn is_free(&self) -> bool {
        let ask = Ask { owner: None, lease: Some(LEASE), wait: None };
        match self.third.ask(self.kind.rival(), &self.name, ask).await.expect("an answer") {
            None => false,
            Some(hold) => {
                hold.unlock().await.expect("a release");
                true
            }
        }
    }

    /// What the servers say the holds of the lock have left to live.
    pub(crate) async fn left(&self) -> Left {
        let (since, mut keys) = (Instant::now(), BTreeMap::new());
        for (at, server) in self.store.servers().iter().enumerate() {
            let names = match self.kind {
                Kind::Semaphore => Vec::new(), // its permits live for ever
                Kind::LeasedSemaphore => {
                    let out = format!("{{{}}}:timeout", self.name);
                    let ids: Vec<(Vec<u8>, f64)> =
                        server.ask(&["ZRANGE", &out, "0", "-1", "WITHSCORES"]).await;
                    let (seconds, micros): (i64, i64) = server.ask(&["TIME"]).await;
                    let now = seconds * 1000 + micros / 1000;
                    let left = |(id, until): (Vec<u8>, f64)| {
                        ((at, format!("{id:02x?}")), until as i64 - now)
                    };
                    keys.extend(ids.into_iter().map(left));
                    Vec::new()
                }
                Kind::Multi => members(&self.name).to_vec(),
                Kind::Read => {
                    let mut holds = server.keys(&format!("*{}*:rwlock_timeout:*", self.name)).await;
                    holds.push(self.name.clone());
                    holds
                }
                _ => vec![self.name.clone()],
            };
            for name in names {
                let left = server.pttl(&name).await;
                keys.insert((at, name), left);
            }
        }
        Left { since, keys }
    }

    /// The hold is what it was before something arrived late: the only one, and no shorter.
    pub(crate) async fn assert_unharmed(&self, hold: &dyn Hold, before: Left) {
        assert!(!self.is_free().await, "two holders: another process got in beside a hold");
        let now = self.left().await;
        let passed = before.since.elapsed().as_millis() as i64 + 2;
        let shortened = before.keys.iter().filter_map(|(key, before)| {
            let left = now.keys.get(key).copied().unwrap_or(-2);
            let is_shorter = left < before - passed;
            is_shorter.then(|| format!("{key:?} was shortened from {before} to {left} ms"))
        });
        let shortened: Vec<String> = shortened.collect();
        // Of three servers one may have had a vote of the hold before, which is taken back in the background.
        let allowed = usize::from(self.kind == Kind::Redlock);
        assert!(shortened.len() <= allowed, "{}", shortened.join("; "));
        assert_eq!(hold.state(), State::Held, "the holder is told of a loss");
    }

    /// Nothing of the lock is left on the servers.
    pub(crate) async fn assert_clean(&self) {
        eventually("the lock is free", || self.is_free()).await;
        self.delete(&self.name).await;
        for server in self.store.servers() {
            eventually("nothing is left on the server", || async {
                let mut keys = server.keys(&format!("*{}*", self.name)).await;
                // It counts for ever.
                keys.retain(|key| !key.starts_with("redisson_lock_token:"));
                if self.user == User::MayNotKill {
                    // What keeps a late acquisition of permits out, for as long as its time to live says.
                    let mut lasting = Vec::new();
                    for key in keys {
                        if !key.contains(":distlock_") || server.pttl(&key).await < 0 {
                            lasting.push(key);
                        }
                    }
                    keys = lasting;
                }
                keys.is_empty()
            })
            .await;
        }
    }
}

/// What the holds of a lock had left to live, in milliseconds by server and key.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    since: Instant,
    keys: BTreeMap<(usize, String), i64>,
}

/// One step that is held back, at each server it went to.
pub(crate) struct Lates(Vec<Late>);

impl Lates {
    /// Waits until it is held back everywhere.
    pub(crate) async fn fired(&self) {
        for late in &self.0 {
            late.fired(1).await;
        }
    }

    pub(crate) fn hits(&self) -> u64 {
        self.0.iter().map(Late::hits).sum()
    }

    /// Delivers it everywhere.
    pub(crate) async fn deliver(&mut self) -> Vec<Delivered> {
        let mut all = Vec::new();
        for late in &mut self.0 {
            let delivered = late.deliver().await;
            let unknown = delivered.first_line().is_some_and(|line| line.starts_with("-NOSCRIPT"));
            assert!(!unknown, "the server does not know the script: nothing was tested");
            all.push(delivered);
        }
        all
    }
}

/// The server's URL for this user, by way of the proxy.
pub(crate) fn url_through(server: &Server, proxy: &Proxy, user: User) -> String {
    match user {
        User::MayKill => proxy.url(),
        User::MayNotKill => {
            let rules = ["+@all", "-client|kill", "~*", "&*"].map(str::to_owned);
            let url = server.user_with("mortal", &rules);
            url.replace(&server.addr().to_string(), &proxy.addr().to_string())
        }
    }
}

pub(crate) async fn connect(url: &str, watchdog: Duration) -> Locks {
    Locks::builder().url(url).watchdog(watchdog).connect().await.expect("a connection")
}

async fn lock(process: &Process, kind: Kind, name: &str, ask: Ask) -> Box<dyn Hold> {
    let held = process.ask(kind, name, ask).await.expect("an answer");
    held.unwrap_or_else(|| panic!("{kind:?} {name} is not free: {ask:?}"))
}

/// Runs `test` for each of `all` at once, and says which of them failed.
pub(crate) async fn each<T, F>(all: impl IntoIterator<Item = T>, test: impl Fn(T) -> F)
where
    T: Copy + Debug,
    F: Future<Output = ()> + Send + 'static,
{
    let tests: Vec<_> = all.into_iter().map(|one| (one, tokio::spawn(test(one)))).collect();
    let mut failed = Vec::new();
    for (one, test) in tests {
        if let Err(error) = test.await {
            let why = error.into_panic();
            let text = why.downcast_ref::<String>().cloned();
            let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            failed.push(format!("{one:?}: {}", text.unwrap_or_default()));
        }
    }
    assert!(failed.is_empty(), "\n  {}\n", failed.join("\n  "));
}
