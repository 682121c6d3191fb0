//! Primaries that die, freeze, or change places with a replica: whoever waits enters, whoever holds keeps.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Locks, State};
use distlock_testkit::suites::{Recorder, Section, eventually};
use distlock_testkit::{Flavor, SentinelSet};
use tokio::task::JoinHandle;

use crate::sentinel::strikes::{Strike, served_by, set_up};
use crate::sentinel::{LONG, SOON};

/// Outlives a failover on a machine that does other things.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Somebody who waits for a lock of any kind.
struct Waiting(&'static str, JoinHandle<distlock::Result<()>>);

impl Waiting {
    /// One who has found it busy and is subscribed. It does not look again by itself for minutes.
    async fn begin<F>(url: &str, name: &'static str, wait: impl FnOnce(Locks) -> F) -> Waiting
    where
        F: Future<Output = distlock::Result<()>> + Send + 'static,
    {
        let seen = Recorder::new();
        let builder = Locks::builder().url(url).watchdog(LONG).observer(seen.clone());
        let task = tokio::spawn(wait(builder.connect().await.expect("a set")));
        eventually(name, || async { seen.count(name, "attempted") >= 2 }).await;
        Waiting(name, task)
    }

    async fn enters(self) {
        let entered = tokio::time::timeout(SOON, self.1).await;
        let entered = entered.unwrap_or_else(|_| panic!("{} was not woken", self.0));
        entered.expect("no panic").unwrap_or_else(|error| panic!("{}: {error}", self.0));
    }
}

/// Whoever waits, for whatever, is woken by the new primary: nobody looks again by itself before the leases end.
async fn waiters_enter(flavor: Flavor, strike: Strike, url: impl Fn(&SentinelSet) -> String) {
    let set = set_up(SentinelSet::builder(flavor)).await;
    let url = url(&set);
    let locks = Locks::connect(&url).await.expect("a set");
    let semaphore = locks.semaphore("s");
    let leased = locks.leased_semaphore("p");
    let latch = locks.latch("l");
    semaphore.init(1).await.expect("new");
    leased.init(1).await.expect("new");
    latch.init(1).await.expect("new");
    let mutex = locks.mutex("m").lock().lease(LONG).await.expect("free");
    let fair = locks.fair("f").lock().lease(LONG).await.expect("free");
    let write = locks.rw("w").write().lease(LONG).await.expect("free");
    let permit = semaphore.acquire(1).await.expect("left");
    let lease = leased.acquire(1).lease(LONG).await.expect("left");

    let waiters = [
        Waiting::begin(&url, "m", |locks| async move {
            locks.mutex("m").lock().lease(LONG).await?.unlock().await
        })
        .await,
        Waiting::begin(&url, "f", |locks| async move {
            locks.fair("f").lock().lease(LONG).await?.unlock().await
        })
        .await,
        Waiting::begin(&url, "w", |locks| async move {
            locks.rw("w").read().lease(LONG).await?.unlock().await
        })
        .await,
        Waiting::begin(&url, "s", |locks| async move {
            locks.semaphore("s").acquire(1).await?.release().await
        })
        .await,
        Waiting::begin(&url, "p", |locks| async move {
            locks.leased_semaphore("p").acquire(1).lease(LONG).await?.release().await
        })
        .await,
        Waiting::begin(&url, "l", |locks| async move { locks.latch("l").wait().await }).await,
    ];
    set.replicated().await;
    let since = Instant::now();
    let (old, new) = strike.hit(&set).await;
    if strike == Strike::Manual && url.contains("+replicated") {
        // Without sentinels nobody can tell which of two primaries is the right one, and everybody stays with the old one.
        set.follows(&old).await;
    }
    eventually("all are subscribed at the new primary", || async {
        let mut channels = new.pubsub_channels().await;
        channels.retain(|name| name.starts_with("redisson"));
        channels.len() >= waiters.len()
    })
    .await;
    println!("{flavor:?} {strike:?}: six waiters are subscribed again after {:?}", since.elapsed());
    // A release that goes to the old primary would be no release.
    served_by(&new, &locks).await;
    mutex.unlock().await.expect("held");
    fair.unlock().await.expect("held");
    write.unlock().await.expect("held");
    permit.release().await.expect("held");
    lease.release().await.expect("held");
    latch.count_down().await.expect("not open yet");
    for waiter in waiters {
        waiter.enters().await;
    }
    strike.heal(&set, &old).await;
    semaphore.delete().await.expect("an answer");
    leased.delete().await.expect("an answer");
    set.assert_clean("").await;
}

mod whoever_waits_enters {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_kill() {
        waiters_enter(Flavor::Redis, Strike::Kill, SentinelSet::url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_freeze() {
        waiters_enter(Flavor::Redis, Strike::Freeze, SentinelSet::url).await;
    }

    /// A subscriber is not told that its server has become a replica: it finds out.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_manual_failover() {
        waiters_enter(Flavor::Redis, Strike::Manual, SentinelSet::url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_sentinels() {
        for strike in Strike::ALL {
            waiters_enter(Flavor::Redis, strike, SentinelSet::replicated_url).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_other_servers() {
        let all = [(Flavor::Valkey, &Strike::ALL[..]), (Flavor::Redis62, &[Strike::Manual])];
        for (flavor, strikes) in all {
            if flavor.program().is_none() {
                eprintln!("SKIPPED: no server for {flavor:?}");
                continue;
            }
            for strike in strikes {
                waiters_enter(flavor, *strike, SentinelSet::url).await;
            }
        }
    }
}

/// What had reached the replica outlives its primary: the watchdog keeps it, a crowd that wants it stays out, and nobody
/// hangs when it is let go.
async fn holders_keep(flavor: Flavor, strike: Strike, url: impl Fn(&SentinelSet) -> String) {
    let set = set_up(SentinelSet::builder(flavor)).await;
    let url = url(&set);
    let seen = Recorder::new();
    let builder = Locks::builder().url(&url).watchdog(WATCHDOG).observer(seen.clone());
    let locks = builder.connect().await.expect("a set");
    let section = Section::new();
    let guard = locks.mutex("k").lock().await.expect("free");
    section.enter();
    let fenced = locks.fenced("n").lock().await.expect("free");
    let mut crowd = Vec::new();
    for at in 0..6 {
        let locks = Locks::connect(&url).await.expect("a set");
        crowd.push(tokio::spawn(visits(locks, section.clone(), at)));
    }
    set.replicated().await;
    let since = Instant::now();
    let (before, numbered) = (seen.count("k", "renewed"), seen.count("n", "renewed"));
    let (old, new) = strike.hit(&set).await;
    let again =
        || async { seen.count("k", "renewed") > before && seen.count("n", "renewed") > numbered };
    eventually("the watchdog does not wait for its time when the primary has changed", again).await;
    println!("{flavor:?} {strike:?}: renewed {:?} after the strike", since.elapsed());
    served_by(&new, &locks).await;
    guard.extend(2 * WATCHDOG).await.expect("held");
    fenced.extend(2 * WATCHDOG).await.expect("held");
    assert_eq!(guard.state(), State::Held);
    assert_eq!(fenced.state(), State::Held);
    assert!(new.exists("k").await, "it stands at the new primary");
    strike.heal(&set, &old).await;
    section.leave();
    guard.unlock().await.expect("held");
    let token = fenced.token();
    fenced.unlock().await.expect("held");
    for one in crowd {
        let visits =
            tokio::time::timeout(SOON, one).await.expect("nobody hangs").expect("no panic");
        assert_eq!(visits, 3);
    }
    let fenced = locks.fenced("n").lock().await.expect("free");
    assert!(fenced.token() > token, "numbers go on rising");
    fenced.unlock().await.expect("held");
    assert_eq!(seen.count("k", "lost"), 0);
    set.assert_clean("").await;
}

/// Goes in three times.
async fn visits(locks: Locks, section: Arc<Section>, at: usize) -> u32 {
    for _ in 0..3 {
        match at % 2 {
            0 => {
                let guard = locks.mutex("k").lock().await.expect("a lock");
                section.visit().await;
                guard.unlock().await.expect("held");
            }
            _ => {
                let guard = locks.mutex("k").lock().lease(LONG).await.expect("a lock");
                section.visit().await;
                guard.unlock().await.expect("held");
            }
        }
    }
    3
}

mod whoever_holds_keeps {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_kill() {
        holders_keep(Flavor::Redis, Strike::Kill, SentinelSet::url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_freeze() {
        holders_keep(Flavor::Redis, Strike::Freeze, SentinelSet::url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_manual_failover() {
        holders_keep(Flavor::Redis, Strike::Manual, SentinelSet::url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn without_sentinels() {
        holders_keep(Flavor::Redis, Strike::Kill, SentinelSet::replicated_url).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_other_servers() {
        for flavor in Flavor::installed().into_iter().filter(|flavor| *flavor != Flavor::Redis) {
            holders_keep(flavor, Strike::Kill, SentinelSet::url).await;
        }
    }
}
