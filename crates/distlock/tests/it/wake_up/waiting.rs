//! Those who wait: how they are woken, what that costs, how they leave.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use distlock_testkit::assert_clean;
use distlock_testkit::cancel::poll_once;
use distlock_testkit::proxy::Match;

use crate::wake_up::{SOON, Stage, eventually, gets_in};

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

/// A wait that ran out while it was asked for has left: what it still gets it lets go of before the next one here asks.
#[tokio::test]
async fn a_wait_that_ran_out_is_not_in_the_way_of_the_next_try() {
    let stage = Stage::new().await;
    let mutex = stage.waiters.mutex("ran-out");
    let holder = stage.holders.mutex("ran-out").lock().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none()); // scripts are loaded
    let (at_attempt, mut reached) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let asked = AtomicU64::new(0);
    // The proxy stands still with the second attempt in its hand: the one that the wait makes when it listens.
    let _held_up = stage.proxy.watch(Match::command("EVALSHA").and(Match::by(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 1 && at_attempt.send(()).is_ok() {
            let _ = may_go.lock().expect("nobody panics here").recv_timeout(2 * SOON);
        }
        true
    })));
    let wait = stage.wait_for("ran-out");
    tokio::time::timeout(SOON, reached.recv()).await.expect("it asks again");
    wait.abort(); // as a wait that runs out does, it leaves the queue
    assert!(wait.await.is_err());
    holder.unlock().await.unwrap();
    let mut next = mutex.try_lock().into_future();
    poll_once(&mut next).await;
    drop(go);
    let guard = next.await.unwrap().expect("nobody has it");
    guard.unlock().await.unwrap();
    stage.proxy.heal().await;
    assert_clean(&stage.server, "ran-out").await;
}
