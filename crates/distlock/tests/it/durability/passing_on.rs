//! Local hand-off, which replicas do not acknowledge.

use std::future::IntoFuture;

use distlock::ErrorKind;
use distlock_testkit::cancel::poll_once;
use distlock_testkit::suites::{Section, eventually};
use distlock_testkit::{Flavor, Replicas};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::durability::{LONG, SOON, acknowledged, assert_not_durable, with_acks};

/// What nobody renews is not passed on: if that were lost with the primary, its heir would not be told before others get in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_does_not_pass_on() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    for _ in 0..5 {
        let held = acknowledged(async || locks.mutex("k").lock().lease(LONG).await).await;
        let mut next = locks.mutex("k").lock().lease(LONG).into_future();
        poll_once(&mut next).await;
        // Soon after it was had, when it would pass on.
        set.replica().stop();
        held.unlock().await.unwrap();
        let error = timeout(SOON, next).await.expect("told").unwrap_err();
        assert_not_durable(&error, 0, 1);
        eventually("nothing is left", || async { !set.primary.exists("k").await }).await;
        set.thaw().await;
    }
}

/// What the watchdog keeps is: its heir is told in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_renewed_passes_on() {
    const CROWD: u64 = 64;
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    set.primary.reset_stats().await;
    let (section, mut crowd) = (Section::new(), JoinSet::new());
    for _ in 0..CROWD {
        let (mutex, section) = (locks.mutex("k"), section.clone());
        crowd.spawn(async move {
            let guard = loop {
                match mutex.lock().await {
                    // Not in time, on a machine that stood still.
                    Err(e) if e.kind() == ErrorKind::NotDurable => {}
                    answer => break answer.unwrap(),
                }
            };
            section.visit().await;
            guard.unlock().await.unwrap();
        });
    }
    timeout(SOON, crowd.join_all()).await.expect("all get in");
    assert_eq!(section.entries(), CROWD);
    let waits = set.primary.calls("wait").await;
    println!("{CROWD} entries, {waits} waits");
    assert!(waits < CROWD / 2, "{waits} waits");
    eventually("nothing is left", || async { !set.primary.exists("k").await }).await;
}
