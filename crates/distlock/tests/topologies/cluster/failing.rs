//! Servers that die, freeze, or change places.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock::{Event, Guard, Locks, Observer, State, Subject};
use distlock_testkit::suites::{eventually, in_line};
use distlock_testkit::{Cluster, Flavor, Server, Stopwatch};
use tokio::task::JoinSet;

use crate::cluster::{SOON, WAYS, waiters_follow, waiting, with_replicas};

/// Outlives a failover, and is so long that nobody who waits looks again by itself.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Waits until the replica has what stands under `name`.
async fn replicated(replica: &Server, name: &str) {
    let there = || async { !replica.keys(name).await.is_empty() };
    eventually("the replica has the lock", there).await;
}

/// A subscriber is not told that its server has become a replica: it finds out, and is woken by the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_is_subscribed_again_after_a_manual_failover() {
    for way in WAYS {
        let cluster = Cluster::builder(Flavor::Redis).replicas(1).patient().start().await;
        let swap = async || cluster.fail_over(&*cluster.primary_of("{t}").await).await;
        waiters_follow(&cluster, way, swap).await;
    }
}

/// What had reached the replica outlives its primary: the holder keeps it, and those who wait enter after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_costs_no_lock_that_was_replicated() {
    for flavor in Flavor::installed() {
        let ways = if flavor == Flavor::Redis { &WAYS[..] } else { &["auto"] };
        for way in ways {
            outlives(flavor, way, Server::kill, |_| ()).await;
        }
    }
}

/// A frozen one closes no connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_primary_costs_no_lock_that_was_replicated() {
    outlives(Flavor::Redis, "auto", Server::stop, Server::cont).await;
}

async fn outlives(flavor: Flavor, way: &str, strike: fn(&Server), heal: fn(&Server)) {
    let cluster = with_replicas(flavor).await;
    let url = cluster.url(way);
    let locks = Locks::builder().url(&url).watchdog(WATCHDOG).connect().await.expect("a cluster");
    let guard = locks.mutex("k").lock().await.expect("free");
    let other = locks.mutex("other").lock().await.expect("free");
    let waiter = waiting(&url, "k").await;
    let (slot, primary) = (cluster.slot_of("k").await, cluster.primary_of("k").await);
    let replica = cluster.replica_of(&primary).await;
    replicated(&replica, "k").await;
    strike(&primary);
    eventually("the replica has taken over", || async {
        let owner = cluster.primary_for(slot).await;
        owner.is_some_and(|owner| owner.port() == replica.port())
    })
    .await;
    found_again(&guard).await;
    guard.unlock().await.expect("held");
    waiter.enters().await;
    other.unlock().await.expect("held");
    // The connections of before are of use again, without a restart.
    locks.mutex("k").lock().await.expect("free").unlock().await.expect("held");
    heal(&primary);
    cluster.assert_clean("").await;
}

/// What is held has outlived its server, and its holder has found the new one.
async fn found_again(guard: &Guard) {
    let extended = || async { guard.extend(2 * WATCHDOG).await.is_ok() };
    eventually("it has outlived its server", extended).await;
    eventually("it is held", || async { guard.state() == State::Held }).await;
}

/// A place in a queue is kept by the store, and outlives its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_in_line_keeps_its_place() {
    let cluster = with_replicas(Flavor::Redis).await;
    let url = cluster.url("auto");
    let locks = Locks::connect(&url).await.expect("a cluster");
    let guard = locks.fair("k").lock().lease(2 * WATCHDOG).await.expect("free");
    let line = in_line(&url, "k", 4).await;
    let (slot, primary) = (cluster.slot_of("k").await, cluster.primary_of("k").await);
    let replica = cluster.replica_of(&primary).await;
    let offset = async |server: &Server, field: &str| -> u64 {
        server.info_field(field).await.and_then(|n| n.parse().ok()).unwrap_or_default()
    };
    let goal = offset(&primary, "master_repl_offset").await;
    eventually("the replica has the whole queue", || async {
        offset(&replica, "slave_repl_offset").await >= goal
    })
    .await;
    primary.kill();
    eventually("the replica has taken over", || async {
        let owner = cluster.primary_for(slot).await;
        owner.is_some_and(|owner| owner.port() == replica.port())
    })
    .await;
    found_again(&guard).await;
    eventually("all are subscribed at the new primary", || async {
        let channels = replica.pubsub_channels().await;
        channels.iter().filter(|name| name.starts_with("redisson")).count() == 4
    })
    .await;
    guard.unlock().await.expect("held");
    line.enters().await;
    cluster.assert_clean("").await;
}

/// When each lock was renewed.
#[derive(Debug, Default)]
struct Renewals(Mutex<Vec<(String, Instant)>>);

impl Observer for Renewals {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        if event == Event::Renewed {
            self.0.lock().expect("no panic").push((lock.name.to_owned(), Instant::now()));
        }
    }
}

impl Renewals {
    fn of(&self, name: &str) -> Vec<Instant> {
        let all = self.0.lock().expect("no panic");
        all.iter().filter(|(of, _)| of == name).map(|(_, at)| *at).collect()
    }
}

/// Two names that different servers serve.
async fn apart(cluster: &Cluster) -> (String, String) {
    let first = cluster.primary_of("0").await.port();
    for at in 1..100 {
        let name = at.to_string();
        if cluster.primary_of(&name).await.port() != first {
            return ("0".to_owned(), name);
        }
    }
    panic!("one server serves everything");
}

/// A shard that does not answer costs its own locks, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_shard_costs_nobody_else_a_lock() {
    let timeout = Duration::from_secs(9);
    let cluster = Cluster::builder(Flavor::Redis)
        .args(&["--cluster-require-full-coverage", "no"])
        .start()
        .await;
    let seen = Arc::new(Renewals::default());
    let builder = Locks::builder().url(cluster.url("auto")).watchdog(timeout);
    let locks = builder.observer(seen.clone()).connect().await.expect("a cluster");
    let (dead, alive) = apart(&cluster).await;
    let lost = locks.mutex(&dead).lock().await.expect("free");
    let kept = locks.mutex(&alive).lock().await.expect("free");
    let server = cluster.primary_of(&dead).await;
    server.stop();
    tokio::time::timeout(SOON, lost.lost()).await.expect("the holder is told");
    for _ in 0..4 {
        let before = seen.of(&alive).len();
        eventually("the other is renewed", || async { seen.of(&alive).len() > before }).await;
    }
    eventually("it is held", || async { kept.state() == State::Held }).await;
    kept.unlock().await.expect("held");
    server.cont();
    drop(lost);
    cluster.healed().await;
    cluster.assert_clean("").await;
}

/// Renewals are answered when their own server answers, and do not wait for one that never will.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_shard_delays_nobody_elses_renewal() {
    let timeout = Duration::from_secs(6);
    // Nobody finds out that it is frozen but its clients.
    let cluster = Cluster::builder(Flavor::Redis).args(&["--cluster-node-timeout", "60000"]);
    let cluster = cluster.start().await;
    let seen = Arc::new(Renewals::default());
    let builder = Locks::builder().url(cluster.url("auto")).watchdog(timeout);
    let locks = builder.observer(seen.clone()).connect().await.expect("a cluster");
    let (dead, alive) = apart(&cluster).await;
    let server = cluster.primary_of(&dead).await;
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let before = seen.of(&alive).len();
        let one = locks.mutex(&dead).lock().await.expect("free");
        let other = locks.mutex(&alive).lock().await.expect("free");
        let since = Instant::now();
        server.stop();
        eventually("the other is renewed", || async { seen.of(&alive).len() > before }).await;
        quickest = quickest.min(seen.of(&alive)[before] - since);
        server.cont();
        other.unlock().await.expect("held");
        let _ = one.unlock().await;
    }
    // Due after a third of the time-out; a server that does not answer is waited for a second more.
    let limit = timeout / 3 + Duration::from_millis(500);
    assert!(quickest < limit, "renewed after {quickest:?}");
    cluster.assert_clean("").await;
}

/// How often a store was asked.
#[derive(Debug, Default)]
struct Asked(AtomicUsize);

impl Observer for Asked {
    fn observe(&self, _: Subject<'_>, event: Event) {
        if event == Event::Attempted {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Thousands who ask a server that does not answer are in nobody's way who asks another one, or waits there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_before_a_frozen_shard_is_in_nobody_elses_way() {
    let cluster = Cluster::builder(Flavor::Redis).args(&["--cluster-node-timeout", "60000"]);
    let cluster = cluster.start().await;
    let asked = Arc::new(Asked::default());
    let builder = Locks::builder().url(cluster.url("auto")).observer(asked.clone());
    let locks = builder.connect().await.expect("a cluster");
    let elsewhere = Locks::connect(&cluster.url("auto")).await.expect("a cluster");
    let (dead, alive) = apart(&cluster).await;
    let server = cluster.primary_of(&dead).await;
    server.stop();
    let watch = Stopwatch::start();
    let mut crowd = JoinSet::new();
    for at in 0..4_000 {
        // With the tag it is in the slot of that name.
        let mutex = locks.mutex(format!("{{{dead}}}-{at}"));
        crowd.spawn(async move { mutex.lock().await.map(drop) });
    }
    let many = || async { asked.0.load(Ordering::Relaxed) >= 1024 };
    eventually("as many ask as may at once", many).await;
    let held = elsewhere.mutex(&alive).lock().await.expect("free");
    let waiting = tokio::spawn(locks.mutex(&alive).lock().into_future());
    let since = Instant::now();
    held.unlock().await.expect("held");
    let entered = tokio::time::timeout(SOON, waiting).await.expect("let in");
    entered.expect("no panic").expect("let in").unlock().await.expect("held");
    let mut over = 0;
    while crowd.try_join_next().is_some() {
        over += 1;
    }
    println!("let in after {:?}, when {over} of the crowd had given up", since.elapsed());
    // The crowd has three seconds, and a machine that stands still takes them from everybody.
    let stalled = watch.stalled() > Duration::from_secs(1);
    assert!(over < 4_000 || stalled, "let in when all of the crowd had given up");
    crowd.abort_all();
    server.cont();
    cluster.assert_clean("").await;
}
