//! Stores that grant another lease than was asked for, and stores that do not offer every kind. In virtual time.

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::env::{BoxFuture, Env, Virtual};
use distlock::store::machine::fair::FairEntry;
use distlock::store::machine::{Machine, MachineContext, Transition, Wake};
use distlock::store::{
    Attempt, Capabilities, Claim, ClaimKind, Kind, Listener, Released, Renewed, Snapshot, Store,
    Topic,
};
use distlock::{ErrorKind, Locks, Owner, Result};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
/// What a reply takes: a step that takes no time would hide from when a lease is counted.
const LATENCY: Duration = Duration::from_millis(20);

/// A table of exclusive locks that decides by itself how long a lease is.
#[derive(Debug)]
struct Grantor {
    env: Virtual,
    /// The lease that is granted instead of the one that was asked for.
    grant: fn(Duration) -> Duration,
    kinds: &'static [Kind],
    entries: Mutex<HashMap<Arc<str>, FairEntry>>,
    released: Arc<Topic>,
    /// How many operations arrived.
    operations: AtomicUsize,
    renewals: AtomicUsize,
}

struct NoContext;

impl MachineContext for NoContext {
    fn listens(&self, _: Owner) -> bool {
        false
    }

    fn token(&self) -> u64 {
        0
    }
}

impl Grantor {
    fn new(grant: fn(Duration) -> Duration, kinds: &'static [Kind]) -> Arc<Grantor> {
        Arc::new(Grantor {
            env: Virtual::new(),
            grant,
            kinds,
            entries: Mutex::default(),
            released: Arc::default(),
            operations: AtomicUsize::new(0),
            renewals: AtomicUsize::new(0),
        })
    }

    async fn open(self: &Arc<Grantor>) -> Locks {
        let builder = Locks::builder().store(self.clone()).env(self.env.clone());
        builder.connect().await.expect("it can be opened")
    }

    fn count(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    fn renewals(&self) -> usize {
        self.renewals.load(Ordering::SeqCst)
    }

    fn granted(&self, claim: &Claim) -> Claim {
        Claim { lease: (self.grant)(claim.lease), ..claim.clone() }
    }

    fn apply<T>(
        &self,
        name: &str,
        step: impl FnOnce(Option<FairEntry>) -> Transition<FairEntry, T>,
    ) -> T {
        self.operations.fetch_add(1, Ordering::SeqCst);
        let mut entries = self.entries.lock().unwrap();
        let now = self.env.now();
        let before = entries.remove(name).filter(|entry| entry.is_live(now));
        let Transition { entry, answer, wake } = step(before);
        entries.extend(entry.map(|entry| (name.into(), entry)));
        drop(entries);
        if wake != Wake::None {
            self.released.wake();
        }
        answer
    }

    fn seen(&self, name: &str) -> Snapshot {
        let (entries, now) = (self.entries.lock().unwrap(), self.env.now());
        let live = entries.get(name).filter(|entry| entry.is_live(now));
        live.map_or_else(|| Snapshot::free(name), |entry| entry.view(name, now))
    }
}

impl Store for Grantor {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new().with_kinds(self.kinds)
    }

    fn place(&self) -> String {
        format!("grantor:{self:p}")
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        let claim = self.granted(claim);
        Box::pin(async move {
            sleep(LATENCY / 2).await;
            let now = self.env.now();
            let answer =
                self.apply(&claim.name, |entry| FairEntry::acquire(entry, &claim, now, &NoContext));
            sleep(LATENCY / 2).await;
            Ok(answer)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            sleep(LATENCY / 2).await;
            let now = self.env.now();
            let answer =
                self.apply(&claim.name, |entry| FairEntry::release(entry, claim, now, &NoContext));
            sleep(LATENCY / 2).await;
            Ok(answer)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            sleep(LATENCY / 2).await;
            self.renewals.fetch_add(1, Ordering::SeqCst);
            let now = self.env.now();
            let renew = |claim: &Claim| {
                let claim = self.granted(claim);
                Ok(self.apply(&claim.name, |entry| FairEntry::renew(entry, &claim, now)))
            };
            let answers = claims.iter().map(renew).collect();
            sleep(LATENCY / 2).await;
            answers
        })
    }

    fn listen<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(ready(Ok(Listener::new(self.released.clone(), ()))))
    }

    fn inspect<'a>(&'a self, _: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        Box::pin(ready(Ok(self.seen(name))))
    }

    fn force<'a>(&'a self, kind: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        let (before, now) = (self.seen(name), self.env.now());
        self.apply(name, |entry| FairEntry::force(entry, kind, now, &NoContext));
        Box::pin(ready(Ok(before)))
    }

    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}

/// At most ten seconds.
fn ten_seconds(asked: Duration) -> Duration {
    asked.min(10 * SECOND)
}

/// Whole seconds, rounded up, as etcd has them.
fn whole_seconds(asked: Duration) -> Duration {
    Duration::from_millis(asked.as_millis().div_ceil(1000) as u64 * 1000)
}

fn as_asked(asked: Duration) -> Duration {
    asked
}

#[tokio::test(start_paused = true)]
async fn remaining_is_counted_from_the_grant() {
    let locks = Grantor::new(ten_seconds, &Kind::ALL).open().await;
    for guard in [
        locks.mutex("watched").lock().await.unwrap(),
        locks.mutex("fixed").lock().lease(60 * SECOND).await.unwrap(),
    ] {
        let remaining = guard.remaining();
        assert!(remaining < 10 * SECOND && remaining > 9 * SECOND, "{remaining:?}");
    }

    let locks = Grantor::new(whole_seconds, &Kind::ALL).open().await;
    let guard = locks.mutex("k").lock().lease(Duration::from_millis(1200)).await.unwrap();
    let remaining = guard.remaining();
    assert!(remaining > Duration::from_millis(1900) && remaining < 2 * SECOND, "{remaining:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_lost_before_a_shorter_grant_ends() {
    let store = Grantor::new(ten_seconds, &Kind::ALL);
    let (locks, other) = (store.open().await, store.open().await);
    let guard = locks.mutex("k").lock().lease(60 * SECOND).await.unwrap();
    let next = tokio::spawn(other.mutex("k").lock().into_future());
    guard.lost().await;
    assert!(store.seen("k").is_held(), "the store still keeps it: it was lost in time");
    let next = next.await.unwrap().unwrap();
    assert!(guard.is_lost() && !next.is_lost());
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_renews_in_time_of_a_shorter_grant() {
    let store = Grantor::new(ten_seconds, &Kind::ALL);
    let locks = store.open().await; // whose watchdog would renew every ten seconds
    let guard = locks.mutex("k").lock().await.unwrap();
    tokio::select! {
        () = guard.lost() => panic!("it was not renewed in time"),
        () = sleep(600 * SECOND) => {}
    }
    // Every third of the grant.
    let renewals = store.renewals();
    assert!((175..=190).contains(&renewals), "{renewals}");
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_passes_on_is_counted_by_its_grant() {
    let store = Grantor::new(ten_seconds, &Kind::ALL);
    let locks = store.open().await;
    let first = locks.mutex("k").lock().await.unwrap();
    let heir = tokio::spawn(locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    first.unlock().await.unwrap();
    let heir = heir.await.unwrap().unwrap();
    assert!(heir.remaining() < 10 * SECOND, "{:?}", heir.remaining());
    tokio::select! {
        () = heir.lost() => panic!("it was not renewed in time"),
        () = sleep(120 * SECOND) => {}
    }
    heir.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_counted_by_their_grants() {
    let locks = Grantor::new(ten_seconds, &Kind::ALL).open().await;
    let all = locks.multi(["a", "b"]).lock().await.unwrap();
    let remaining = all.remaining();
    assert!(remaining < 10 * SECOND && remaining > 9 * SECOND, "{remaining:?}");
    tokio::select! {
        () = all.lost() => panic!("they were not renewed in time"),
        () = sleep(120 * SECOND) => {}
    }
}

/// Nothing is sent, whatever is asked.
#[tokio::test(start_paused = true)]
async fn a_kind_that_the_store_does_not_offer_is_refused_where_it_is_requested() {
    let store = Grantor::new(as_asked, &[Kind::Mutex, Kind::Spin]);
    let locks = store.open().await;
    let me = locks.owner();
    let mut refused = Vec::new();
    macro_rules! refused {
        ($kind:literal: $($request:expr),* $(,)?) => {
            $(refused.push(($kind, $request.await.map(drop).expect_err($kind)));)*
        };
    }
    refused!("fair": locks.fair("k").lock(), locks.fair("k").try_lock(), locks.fair("k").is_locked());
    refused!("fair": locks.fair("k").force_unlock(), locks.fair("k").unlock(&me));
    refused!("rw": locks.rw("k").read(), locks.rw("k").try_write(), locks.rw("k").inspect());
    refused!("fenced": locks.fenced("k").lock(), locks.fence_gate("k").admit(1));
    refused!("simple": locks.simple("k").lock(), locks.simple("k").ttl());
    refused!("semaphore": locks.semaphore("k").acquire(1), locks.semaphore("k").init(1));
    refused!("leased_semaphore": locks.leased_semaphore("k").try_acquire(1), locks.leased_semaphore("k").available());
    refused!("latch": locks.latch("k").wait(), locks.latch("k").count_down());
    let both = distlock::MultiLock::new([locks.mutex("a").into(), locks.rw("b").reader()]);
    refused!("rw": both.lock());
    for (kind, error) in refused {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind}: {error}");
        let text = error.to_string();
        let expected = format!(" does not offer the kind {kind}: it offers mutex, spin");
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(store.count(), 0);

    locks.mutex("k").lock().await.unwrap().unlock().await.unwrap();
    locks.spin("k").lock().await.unwrap().unlock().await.unwrap();
    locks.multi(["a", "b"]).lock().await.unwrap().unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mutex_cannot_be_served_as_a_kind_that_the_store_does_not_offer() {
    let store = Grantor::new(as_asked, &[Kind::Mutex]);
    let builder = Locks::builder().store(store.clone()).env(store.env.clone());
    let error = builder.mutex_as(Kind::Simple).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("does not offer the kind simple"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_majority_needs_mutexes_on_its_stores() {
    let nodes: Vec<_> = (0..3).map(|_| Grantor::new(as_asked, &[Kind::Fair])).collect();
    let mut locks = Vec::new();
    for node in &nodes {
        locks.push(node.open().await);
    }
    let lock = distlock::RedLock::new("k", &locks);
    let error = lock.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(nodes.iter().all(|node| node.count() == 0));
}
