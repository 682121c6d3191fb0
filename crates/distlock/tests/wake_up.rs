//! Whoever waits gets in when the lock is free, whatever becomes of the message that says so; and waiting costs nothing.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use distlock::{Guard, Locks, Result};
use distlock_testkit::proxy::{Match, Proxy};
use distlock_testkit::{Server, assert_clean};
use tokio::task::JoinHandle;

/// Holders have this much time to live, and waiters look by themselves each third of it.
const LONG: Duration = Duration::from_secs(30);
/// Long before a waiter would have looked by itself.
const SOON: Duration = Duration::from_secs(6);

/// Holders talk to the server, waiters through the proxy.
struct Stage {
    holders: Locks,
    waiters: Locks,
    proxy: Proxy,
    server: Server,
}

impl Stage {
    async fn new() -> Stage {
        Stage::with_watchdog(LONG).await
    }

    async fn with_watchdog(watchdog: Duration) -> Stage {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let holders = Locks::connect(&server.url()).await.expect("a connection");
        let waiters = Locks::builder().url(proxy.url()).watchdog(watchdog).connect().await;
        Stage { holders, waiters: waiters.expect("a connection"), proxy, server }
    }

    fn wait_for(&self, name: &str) -> JoinHandle<Result<Guard>> {
        tokio::spawn(self.waiters.mutex(name).lock().into_future())
    }

    /// Ends when the server knows that somebody waits for this lock.
    async fn subscribed(&self, name: &str) {
        eventually("subscribed", async || {
            self.server.pubsub_channels().await.iter().any(|channel| channel.contains(name))
        })
        .await;
    }

    /// Ends when somebody waits for this lock and has stopped looking: from here on only a message, a new connection or the
    /// next look by itself can wake it.
    async fn asleep(&self, name: &str) {
        self.subscribed(name).await;
        let mut asked = self.proxy.count("EVALSHA");
        let mut since = Instant::now();
        eventually("asleep", async || {
            let now = self.proxy.count("EVALSHA");
            if now != asked {
                (asked, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_millis(100)
        })
        .await;
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The waiter is in, and long before it would have looked by itself.
async fn gets_in(waiting: JoinHandle<Result<Guard>>) -> Guard {
    let waited = tokio::time::timeout(SOON, waiting).await;
    waited.expect("the waiter is not woken").expect("no panic").expect("no error")
}

#[tokio::test]
async fn a_release_wakes_the_waiter_long_before_the_lease_ends() {
    let stage = Stage::new().await;
    for _ in 0..20 {
        let holder = stage.holders.mutex("plain").lock().await.unwrap();
        let waiting = stage.wait_for("plain");
        stage.subscribed("plain").await;
        assert!(!waiting.is_finished());
        holder.unlock().await.unwrap();
        gets_in(waiting).await.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "plain").await;
}

#[tokio::test]
async fn a_waiter_with_an_owner_of_its_own_gets_in() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("owned").lock().await.unwrap();
    let me = stage.waiters.owner();
    let waiting = tokio::spawn(stage.waiters.mutex("owned").lock().owner(&me).into_future());
    stage.subscribed("owned").await;
    holder.unlock().await.unwrap();
    let guard = gets_in(waiting).await;
    assert_eq!(stage.waiters.mutex("owned").hold_count(&me).await.unwrap(), 1);
    guard.unlock().await.unwrap();
    assert_clean(&stage.server, "owned").await;
}

/// Releases `holder` while the SUBSCRIBE that `wait` leads to is on its way: the message goes out when nobody is
/// subscribed yet, and only an attempt after the subscription can notice.
async fn released_between(stage: &Stage, wait: impl FnOnce() -> JoinHandle<Result<Guard>>) {
    let holder = stage.holders.mutex("between").lock().await.expect("a free lock");
    let (at_subscribe, mut reached) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    // The whole proxy stands still in here, with the SUBSCRIBE in its hand.
    let _held_up = stage.proxy.watch(Match::command("SUBSCRIBE").and(Match::by(move |_| {
        if at_subscribe.send(()).is_ok() {
            let may_go = may_go.lock().expect("nobody panics here");
            let _ = may_go.recv_timeout(Duration::from_secs(20));
        }
        true
    })));
    let waiting = wait();
    tokio::time::timeout(SOON, reached.recv()).await.expect("it subscribes");
    assert!(stage.server.pubsub_channels().await.is_empty());
    holder.unlock().await.expect("a release");
    drop(go);
    gets_in(waiting).await.unlock().await.expect("a release");
    stage.proxy.heal().await;
    assert_clean(&stage.server, "between").await;
}

#[tokio::test]
async fn a_release_between_the_attempt_and_the_subscription_is_noticed() {
    let stage = Stage::new().await;
    released_between(&stage, || stage.wait_for("between")).await;
}

/// The same for one that came while another caller's single try was under way, and so made no attempt of its own.
#[tokio::test]
async fn a_release_before_the_subscription_is_noticed_by_one_that_queued_behind_a_single_try() {
    let stage = Stage::new().await;
    released_between(&stage, || {
        // Tasks run in the order in which they were spawned: the try is on its way when the other one comes.
        drop(tokio::spawn(stage.waiters.mutex("between").try_lock().into_future()));
        stage.wait_for("between")
    })
    .await;
}

#[tokio::test]
async fn a_subscription_that_is_lost_on_its_way_is_made_again() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("lost").lock().await.unwrap();
    let rule = stage.proxy.drop_requests_to(Match::command("SUBSCRIBE"), 1);
    let waiting = stage.wait_for("lost");
    rule.fired(1).await;
    holder.unlock().await.unwrap();
    gets_in(waiting).await.unlock().await.unwrap();
    assert_clean(&stage.server, "lost").await;
}

#[tokio::test]
async fn a_waiter_whose_subscription_was_killed_hears_the_next_release() {
    let stage = Stage::new().await;
    for _ in 0..5 {
        let holder = stage.holders.mutex("killed").lock().await.unwrap();
        let waiting = stage.wait_for("killed");
        stage.asleep("killed").await;
        let again = stage.proxy.watch(Match::command("SUBSCRIBE"));
        stage.server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        again.fired(1).await;
        stage.subscribed("killed").await;
        assert!(!waiting.is_finished());
        holder.unlock().await.unwrap();
        gets_in(waiting).await.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "killed").await;
}

#[tokio::test]
async fn a_release_while_the_subscription_is_down_is_noticed_when_it_is_up_again() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("down").lock().await.unwrap();
    let waiting = stage.wait_for("down");
    stage.asleep("down").await;
    stage.proxy.refuse(true).await;
    stage.server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    holder.unlock().await.unwrap();
    assert!(stage.server.pubsub_channels().await.is_empty(), "nobody heard it");
    stage.proxy.refuse(false).await;
    gets_in(waiting).await.unlock().await.unwrap();
    assert_clean(&stage.server, "down").await;
}

#[tokio::test]
async fn a_waiter_gets_in_after_a_restart_that_forgot_the_holder() {
    let stage = Stage::new().await;
    let lost = stage.holders.mutex("restart").lock().await.unwrap();
    let waiting = stage.wait_for("restart");
    stage.asleep("restart").await;
    stage.server.restart().await;
    gets_in(waiting).await.unlock().await.unwrap();
    drop(lost);
    assert_clean(&stage.server, "restart").await;
}

/// The connection is open and silent: only asking shows that nobody is there.
#[tokio::test]
async fn a_subscription_that_died_without_a_word_is_replaced() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("mute").lock().await.unwrap();
    let rule = stage.proxy.swallow_replies_to(Match::command("PING"), 1);
    let waiting = stage.wait_for("mute");
    stage.subscribed("mute").await;
    // From here on, nothing more comes over the subscription's connection.
    rule.fired(1).await;
    holder.unlock().await.unwrap();
    gets_in(waiting).await.unlock().await.unwrap();
    assert_clean(&stage.server, "mute").await;
}

/// One connection serves all: what breaks it for one name must not deafen the others.
#[tokio::test]
async fn a_subscription_that_breaks_takes_no_other_with_it() {
    let stage = Stage::new().await;
    let first = stage.holders.mutex("first").lock().await.unwrap();
    let second = stage.holders.mutex("second").lock().await.unwrap();
    let one = stage.wait_for("first");
    stage.asleep("first").await;
    let rule = stage.proxy.swallow_replies_to(Match::command("SUBSCRIBE").and("second"), 1);
    let two = stage.wait_for("second");
    rule.fired(1).await;
    first.unlock().await.unwrap();
    second.unlock().await.unwrap();
    gets_in(one).await.unlock().await.unwrap();
    gets_in(two).await.unlock().await.unwrap();
    assert_clean(&stage.server, "").await;
}

#[tokio::test]
async fn a_lock_that_vanished_without_a_message_is_found_by_looking_now_and_then() {
    // Waiters look each second at least with this watchdog; the key would live for thirty.
    let stage = Stage::with_watchdog(Duration::from_secs(3)).await;
    let vanished = stage.holders.mutex("vanished").lock().lease(LONG).await.unwrap();
    let waiting = stage.wait_for("vanished");
    stage.asleep("vanished").await;
    stage.server.cli(&["DEL", "vanished"]).await;
    gets_in(waiting).await.unlock().await.unwrap();
    drop(vanished);
    assert_clean(&stage.server, "vanished").await;
}

#[tokio::test]
async fn waiting_costs_next_to_nothing() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("quiet").lock().await.unwrap();
    let waiting = stage.wait_for("quiet");
    stage.asleep("quiet").await;
    stage.proxy.forget_seen();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let seen = stage.proxy.seen();
    let commands: u64 = seen.values().flat_map(|client| client.values()).sum();
    assert!(commands <= 3, "{seen:?}");
    assert_eq!(stage.proxy.count("EVALSHA"), 0, "{seen:?}");
    holder.unlock().await.unwrap();
    gets_in(waiting).await.unlock().await.unwrap();
}

#[tokio::test]
async fn a_flood_of_messages_costs_no_more_attempts_than_it_must_and_no_error() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("flood").lock().await.unwrap();
    let waiting = stage.wait_for("flood");
    stage.asleep("flood").await;
    let channel = "redisson_lock__channel:{flood}";
    for odd in ["", "1", "0\r\n", "\u{0}\u{1F512}", "read", &"x".repeat(1 << 20)] {
        stage.server.cli(&["PUBLISH", channel, odd]).await;
    }
    stage.server.cli(&["PUBLISH", "redisson_lock__channel:{other}", "0"]).await;
    stage.proxy.forget_seen();
    let flood = "for i = 1, 20000 do redis.call('publish', ARGV[1], tostring(i)) end";
    stage.server.cli(&["EVAL", flood, "0", channel]).await;
    // All of it has been read when the answer to a question behind it is: the connection is in order.
    let behind = stage.holders.mutex("behind").lock().await.unwrap();
    let second = stage.wait_for("behind");
    stage.subscribed("behind").await;
    behind.unlock().await.unwrap();
    gets_in(second).await.unlock().await.unwrap();
    let attempts = stage.proxy.count("EVALSHA");
    assert!(attempts < 2000, "{attempts} attempts for 20000 messages");
    assert!(!waiting.is_finished(), "a message is no lock");
    holder.unlock().await.unwrap();
    gets_in(waiting).await.unlock().await.unwrap();
    assert_clean(&stage.server, "").await;
}

#[tokio::test]
async fn a_waiter_that_leaves_takes_its_subscription_along() {
    let stage = Stage::new().await;
    let holder = stage.holders.mutex("left").lock().await.unwrap();
    let waiting = stage.wait_for("left");
    stage.subscribed("left").await;
    waiting.abort();
    eventually("unsubscribed", async || stage.server.pubsub_channels().await.is_empty()).await;
    let wait = Duration::from_millis(100);
    assert!(stage.waiters.mutex("left").try_lock().wait(wait).await.unwrap().is_none());
    eventually("unsubscribed", async || stage.server.pubsub_channels().await.is_empty()).await;
    holder.unlock().await.unwrap();
    assert_clean(&stage.server, "left").await;
}

#[tokio::test]
async fn a_wake_up_that_its_waiter_does_not_use_is_passed_on() {
    let stage = Stage::new().await;
    for round in 0..40_u64 {
        let holder = stage.holders.mutex("passed").lock().await.unwrap();
        let (first, second) = (stage.wait_for("passed"), stage.wait_for("passed"));
        stage.subscribed("passed").await;
        holder.unlock().await.unwrap();
        // It leaves about when it is woken.
        tokio::time::sleep(Duration::from_micros(round * 50)).await;
        first.abort();
        drop(first.await);
        gets_in(second).await.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "passed").await;
}

#[tokio::test]
async fn many_waiters_get_in_one_by_one_while_connections_break() {
    let stage = Stage::new().await;
    let (inside, entries) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..24)
        .map(|i| {
            let locks = if i % 2 == 0 { &stage.holders } else { &stage.waiters };
            let (mutex, inside, entries) = (locks.mutex("many"), inside.clone(), entries.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = mutex.lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    entries.fetch_add(1, Ordering::SeqCst);
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let mut breaks = 0;
    while entries.load(Ordering::SeqCst) < 200 && breaks < 20 {
        let before = entries.load(Ordering::SeqCst);
        stage.server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        if breaks % 3 == 0 {
            stage.proxy.reset_all().await;
        }
        breaks += 1;
        eventually("somebody gets in", async || entries.load(Ordering::SeqCst) > before).await;
    }
    for task in tasks {
        tokio::time::timeout(SOON * 2, task).await.expect("everybody gets in").unwrap();
    }
    assert_eq!(entries.load(Ordering::SeqCst), 240);
    assert_clean(&stage.server, "many").await;
}
