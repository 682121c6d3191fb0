//! A primary that was frozen, and comes back after it was replaced, believes that it still is one: for some seconds there are
//! two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Locks, State};
use distlock_testkit::suites::{Recorder, Section, eventually};
use distlock_testkit::{Flavor, SentinelSet};

use crate::strikes::Strike;
use crate::{LONG, SOON};

/// Nobody who has seen the new primary goes back to the old one, whatever that and a sentinel that slept say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_back_to_the_old_one() {
    let set = SentinelSet::builder(Flavor::Redis).start().await;
    let seen = Recorder::new();
    let builder = Locks::builder().url(set.url()).watchdog(Duration::from_secs(15));
    let locks = builder.observer(seen.clone()).connect().await.expect("a set");
    let guard = locks.mutex("held").lock().await.expect("free");
    set.replicated().await;
    let (old, new) = Strike::Freeze.hit(&set).await;
    let before = seen.count("held", "renewed");
    eventually("renewed at the new one", || async { seen.count("held", "renewed") > before }).await;
    Strike::Freeze.heal(&set, &old).await;
    assert!(old.is_primary().await, "it believes so");
    // What stood in its sockets while it slept is done first.
    old.reset_stats().await;
    let mut rounds = 0;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        let guard = locks.mutex("k").lock().await.expect("free");
        guard.unlock().await.expect("held");
        rounds += 1;
    }
    assert_eq!(old.calls("evalsha").await, 0, "nothing of {rounds} rounds and the renewals");
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.expect("held");
    assert!(new.is_primary().await);
    set.follows(&old).await;
    set.assert_clean("").await;
}

/// A hold that the new primary never heard of is lost, and its holder is told when its client has found the new primary: not
/// at the end of its lease, and not at the next renewal either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_at_the_old_one_is_told() {
    let set = SentinelSet::builder(Flavor::Redis).start().await;
    let locks = Locks::builder().url(set.url()).watchdog(LONG).connect().await.expect("a set");
    let (old, replica) = (set.primary().await, set.replica().await);
    // What the replica does not hear, and must not find in its socket either.
    replica.stop();
    old.cli(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    let watched = locks.mutex("watched").lock().await.expect("free");
    let fixed = locks.mutex("fixed").lock().lease(LONG).await.expect("free");
    old.stop();
    replica.cont();
    let since = Instant::now();
    let new = set.replaced(&old).await;
    let told = async { tokio::join!(watched.lost(), fixed.lost()) };
    tokio::time::timeout(SOON, told).await.expect("both are told long before their leases end");
    println!("told of the loss {:?} after the strike", since.elapsed());
    assert_eq!(watched.unlock().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(fixed.state(), State::Lost);
    drop(fixed);
    locks.mutex("watched").lock().await.expect("free at the new one").unlock().await.expect("held");
    old.cont();
    set.follows(&old).await;
    assert!(new.is_primary().await);
    set.assert_clean("").await;
}

/// With a primary that takes no writes without replicas, nobody is let in by the old one, not even those whose client has not
/// looked yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_min_replicas_there_never_are_two_inside() {
    let set = SentinelSet::builder(Flavor::Redis).replicas(2).min_replicas(1).start().await;
    let section = Section::new();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let builder = Locks::builder().url(set.url()).watchdog(LONG);
        let locks = builder.connect().await.expect("a set");
        let (section, stop) = (section.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut entries = 0;
            while !stop.load(Ordering::SeqCst) {
                // A server without replicas refuses; that passes.
                let Ok(guard) = locks.mutex("k").lock().await else { continue };
                section.visit().await;
                let _ = guard.unlock().await;
                entries += 1;
            }
            entries
        }));
    }
    let some_more = async || {
        let goal = section.entries() + 20;
        let more = async {
            while section.entries() < goal {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
        };
        tokio::time::timeout(SOON, more).await.expect("the lock goes round");
    };
    some_more().await;
    let (old, _) = Strike::Freeze.hit(&set).await;
    Strike::Freeze.heal(&set, &old).await;
    some_more().await;
    set.follows(&old).await;
    some_more().await;
    stop.store(true, Ordering::SeqCst);
    let mut entries = 0;
    for task in tasks {
        entries += tokio::time::timeout(SOON, task).await.expect("hangs").expect("no panic");
    }
    assert_eq!(section.entries(), entries);
    set.assert_clean("").await;
}
