//! A message that nobody hears: before the subscription, without it, after it broke.

use std::future::IntoFuture;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use distlock::{Guard, Result};
use distlock_testkit::assert_clean;
use distlock_testkit::proxy::Match;
use tokio::task::JoinHandle;

use crate::wake_up::{LONG, SOON, Stage, gets_in};

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
    // Waiters look every two seconds at least with this watchdog; the key would live for thirty.
    let stage = Stage::with_watchdog(Duration::from_secs(6)).await;
    let vanished = stage.holders.mutex("vanished").lock().lease(LONG).await.unwrap();
    let waiting = stage.wait_for("vanished");
    stage.asleep("vanished").await;
    stage.server.cli(&["DEL", "vanished"]).await;
    gets_in(waiting).await.unlock().await.unwrap();
    drop(vanished);
    assert_clean(&stage.server, "vanished").await;
}
