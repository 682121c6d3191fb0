//! Many at once.

use std::time::Instant;

use distlock::{ErrorKind, Locks};
use distlock_testkit::{Flavor, Replicas};
use tokio::task::JoinSet;

use crate::durability::{LONG, SOON, acknowledged, assert_not_durable, ms, with_acks};

const CROWD: u64 = 64;

/// Connections and scripts are there.
async fn warm_up(locks: &Locks) {
    let held = acknowledged(async || locks.mutex("warm").lock().await).await;
    held.unlock().await.unwrap();
}

pub(crate) async fn a_crowd_shares_its_waits(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    warm_up(&locks).await;
    set.primary.reset_stats().await;
    let mut crowd = JoinSet::new();
    for at in 0..CROWD {
        let mutex = locks.mutex(format!("k{at}"));
        crowd.spawn(async move {
            loop {
                match mutex.lock().lease(LONG).await {
                    // Not in time, on a machine that stood still.
                    Err(e) if e.kind() == ErrorKind::NotDurable => {}
                    answer => break answer.unwrap(),
                }
            }
        });
    }
    let mut held = Vec::new();
    while let Some(one) = crowd.join_next().await {
        held.push(one.unwrap());
    }
    assert_eq!(set.replica().keys("k*").await.len() as u64, CROWD, "all are on the replica");
    let waits = set.primary.calls("wait").await;
    println!("{flavor:?}: {CROWD} acquisitions, {waits} waits");
    assert!(waits <= CROWD / 2, "{waits} waits for {CROWD} acquisitions");
    for guard in held {
        guard.unlock().await.unwrap();
    }
}

pub(crate) async fn a_crowd_without_replicas_is_told_in_bounded_time(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    warm_up(&locks).await;
    // What must not stand behind a WAIT.
    let held = acknowledged(async || locks.mutex("held").lock().await).await;
    set.freeze().await;
    let since = Instant::now();
    let mut crowd = JoinSet::new();
    for at in 0..CROWD {
        let mutex = locks.mutex(format!("k{at}"));
        crowd.spawn(async move { mutex.lock().lease(LONG).await });
    }
    while let Some(one) = crowd.join_next().await {
        assert_not_durable(&one.unwrap().unwrap_err(), 0, 1);
    }
    let took = since.elapsed();
    println!("{flavor:?}: {CROWD} told after {took:?}");
    // Two time-outs of half a second each, the roll-backs, and a busy machine; one by one would be half a minute.
    assert!(took < ms(10_000), "{took:?}");
    assert_eq!(set.primary.keys("k*").await, [""; 0]);
    tokio::time::timeout(SOON, held.unlock()).await.expect("not behind a WAIT").unwrap();
}
