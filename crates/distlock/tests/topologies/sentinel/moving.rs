//! Primaries that step down or come back, sentinels that die, queues and connections that outlive them or do not.

use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::suites::{eventually, in_line, waiting};
use distlock_testkit::{Flavor, Proxy, Replicas, SentinelSet, Server, Stopwatch};

use crate::sentinel::LONG;
use crate::sentinel::strikes::{Strike, replaced, served_by, set_up};

/// Told to change places, a primary does so without a word to the sentinels, who go on naming it: it says itself whom it
/// follows now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_steps_down_by_itself_is_followed() {
    for flavor in Flavor::installed() {
        steps_down(flavor).await;
    }
}

async fn steps_down(flavor: Flavor) {
    let set = set_up(SentinelSet::builder(flavor)).await;
    let url = set.url();
    let locks = Locks::connect(&url).await.expect("a set");
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    let waiter = waiting(&url, "k").await;
    let (old, new) = (set.primary().await, set.replica().await);
    old.cli(&["FAILOVER"]).await;
    eventually("they change places", || async {
        new.is_primary().await && !old.is_primary().await
    })
    .await;
    eventually("the waiter is subscribed there", || async {
        new.pubsub_channels().await.iter().any(|name| name.starts_with("redisson"))
    })
    .await;
    served_by(&new, &locks).await;
    guard.unlock().await.expect("held");
    waiter.enters().await;
    set.assert_clean("").await;
}

/// A primary that comes back without its data says that it is one, like the one that took its place. Nobody chooses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_sentinels_an_empty_primary_is_not_chosen() {
    let set = SentinelSet::builder(Flavor::Redis).down_after(LONG).start().await;
    let url = set.replicated_url();
    let locks = Locks::connect(&url).await.expect("servers");
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    set.replicated().await;
    let (old, new) = (set.primary().await, set.replica().await);
    // Not by the sentinels, who would put things right.
    set.sentinels().iter().for_each(|sentinel| sentinel.kill());
    old.kill();
    new.cli(&["REPLICAOF", "NO", "ONE"]).await;
    served_by(&new, &locks).await;
    old.restart().await;
    assert!(old.is_primary().await && new.is_primary().await);
    for _ in 0..3 {
        let other = Locks::connect(&url).await.expect("servers");
        assert!(other.mutex("k").try_lock().await.expect("an answer").is_none(), "it is held");
    }
    served_by(&new, &locks).await;
    guard.unlock().await.expect("held");
    set.assert_clean("").await;
}

/// However long it takes until the first says that it is the primary: another one has a moment to say so too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_primaries_far_away_the_first_to_answer_is_not_the_only_one() {
    let (empty, set) = (Server::redis().await, Replicas::start(Flavor::Redis, 1).await);
    let near = Proxy::start(empty.addr()).await;
    let far = Proxy::start(set.primary.addr()).await;
    // Each later than anybody is waited for from the beginning, and the one just after the other.
    near.latency(Duration::from_millis(300));
    far.latency(Duration::from_millis(320));
    let url = format!("redis+replicated://{},{}", near.addr(), far.addr());
    for _ in 0..10 {
        let watch = Stopwatch::start();
        let locks = Locks::connect(&url).await.expect("servers");
        let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
        let chosen = set.primary.exists("k").await;
        guard.unlock().await.expect("held");
        if chosen {
            return;
        }
        // It was still on its way when the moment was over.
        assert!(watch.stalled() > Duration::from_millis(50), "one that nobody follows is chosen");
    }
    panic!("one that nobody follows is chosen every time");
}

/// A primary that is back before anybody misses it has what it wrote down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_restarts_with_its_data_costs_nothing() {
    let set = SentinelSet::builder(Flavor::Redis)
        .down_after(Duration::from_secs(60))
        .args(&["--appendonly", "yes", "--appendfsync", "always"])
        .start()
        .await;
    let url = set.url();
    let locks = Locks::builder().url(&url).watchdog(LONG).connect().await.expect("a set");
    let guard = locks.mutex("k").lock().await.expect("free");
    let fair = locks.fair("f").lock().await.expect("free");
    let waiter = waiting(&url, "k").await;
    let line = in_line(&url, "f", 1).await;
    let primary = set.primary().await;
    primary.restart().await;
    eventually("both are subscribed again", || async {
        let channels = primary.pubsub_channels().await;
        channels.iter().filter(|name| name.starts_with("redisson")).count() == 2
    })
    .await;
    guard.unlock().await.expect("held");
    waiter.enters().await;
    fair.unlock().await.expect("held");
    line.enters().await;
    set.assert_clean("").await;
}

/// A place in a queue is kept by the store, and outlives its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_in_line_keeps_its_place() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let locks = Locks::connect(&set.url()).await.expect("a set");
    let guard = locks.fair("k").lock().lease(LONG).await.expect("free");
    let line = in_line(&set.url(), "k", 4).await;
    set.replicated().await;
    let (_, new) = Strike::Kill.hit(&set).await;
    served_by(&new, &locks).await;
    eventually("all are subscribed at the new primary", || async {
        let channels = new.pubsub_channels().await;
        channels.iter().filter(|name| name.starts_with("redisson")).count() == 4
    })
    .await;
    guard.unlock().await.expect("held");
    line.enters().await;
    set.assert_clean("").await;
}

/// Whoever drops the last handle leaves no connection behind, neither to a server nor to a sentinel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_when_the_last_handle_goes() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let ours = async || {
        let mut ours = 0;
        for server in set.servers().iter().chain(set.sentinels()) {
            let clients = loop {
                // Sentinels cut every connection to a server whose role they change.
                if let Ok(list) = server.try_cli(&["CLIENT", "LIST"]).await {
                    break redis::from_redis_value::<String>(list).expect("a text");
                }
            };
            let is_ours = |client: &&str| {
                let words = ["cmd=evalsha", "cmd=role", "cmd=hello", "cmd=sentinel|sentinels"];
                words.iter().any(|word| client.contains(word))
            };
            ours += clients.lines().filter(is_ours).count();
        }
        ours
    };
    for url in [set.url(), set.replicated_url()] {
        let locks = Locks::connect(&url).await.expect("a set");
        let old = set.primary().await;
        let new = set.fail_over().await;
        served_by(&new, &locks).await;
        assert!(ours().await > 0);
        drop(locks);
        eventually("all are closed", || async { ours().await == 0 }).await;
        set.follows(&old).await;
        set.replicated().await;
    }
}

/// One sentinel of three is enough to go on, and a frozen one holds nobody up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_may_die_and_freeze() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let locks = Locks::connect(&set.url()).await.expect("a set");
    set.sentinels()[0].stop();
    set.sentinels()[1].kill();
    locks.mutex("k").lock().await.expect("free").unlock().await.expect("held");
    // Somebody new asks the frozen one first.
    let since = Instant::now();
    let other = Locks::connect(&set.url()).await.expect("one is left");
    println!("connected past a frozen and a dead sentinel in {:?}", since.elapsed());
    other.mutex("k").lock().await.expect("free").unlock().await.expect("held");
    // Two are enough to choose another primary.
    set.sentinels()[0].cont();
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    set.replicated().await;
    let old = set.primary().await;
    let new = replaced(&set, &old, || old.kill()).await;
    served_by(&new, &locks).await;
    guard.extend(2 * LONG).await.expect("replicated");
    guard.unlock().await.expect("held");
    set.assert_clean("").await;
}
