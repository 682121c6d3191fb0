//! A primary that was frozen, and comes back after it was replaced, believes that it still is one: for some seconds there are
//! two.

use std::time::{Duration, Instant};

use distlock::{ErrorKind, Locks, State};
use distlock_testkit::suites::{Recorder, eventually};
use distlock_testkit::{Flavor, SentinelSet};

use crate::sentinel::strikes::{Strike, replaced, served_by, set_up};
use crate::sentinel::{LONG, SOON};

/// Nobody who has seen the new primary goes back to the old one, whatever that and a sentinel that slept say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_back_to_the_old_one() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let seen = Recorder::new();
    let builder = Locks::builder().url(set.url()).watchdog(Duration::from_secs(30));
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
    // A renewal whose answer is late is asked for again.
    eventually("held", || async { guard.state() == State::Held }).await;
    guard.unlock().await.expect("held");
    assert!(new.is_primary().await);
    set.follows(&old).await;
    set.assert_clean("").await;
}

/// A hold that the new primary never heard of is lost, and its holder is told when its client has found the new primary: not
/// at the end of its lease, and not at the next renewal either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_at_the_old_one_is_told() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let locks = Locks::builder().url(set.url()).watchdog(LONG).connect().await.expect("a set");
    let (old, replica) = (set.primary().await, set.replica().await);
    // What the replica does not hear, and must not find in its socket either.
    replica.stop();
    old.cli(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    let watched = locks.mutex("watched").lock().await.expect("free");
    let fixed = locks.mutex("fixed").lock().lease(LONG).await.expect("free");
    let since = Instant::now();
    let strike = || {
        old.stop();
        replica.cont();
    };
    let new = replaced(&set, &old, strike).await;
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

/// Whether the old primary, when it is back, lets somebody in who asks it alone, while somebody else is inside at the new one.
async fn old_one_lets_in(set: &SentinelSet) -> bool {
    let locks = Locks::connect(&set.url()).await.expect("a set");
    let old = set.primary().await;
    let mut pinned = Locks::connect(&old.url()).await.expect("a server");
    set.replicated().await;
    let (old, new) = Strike::Freeze.hit(set).await;
    served_by(&new, &locks).await;
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    Strike::Freeze.heal(set, &old).await;
    let mut entered = false;
    let mut tries = 0;
    while old.is_primary().await {
        match pinned.mutex("k").try_lock().lease(Duration::from_secs(1)).await {
            Ok(Some(guard)) => {
                entered = true;
                let _ = guard.unlock().await;
            }
            Ok(None) => {}
            Err(_) => {
                // Sentinels cut every connection to a server whose role they change.
                if let Ok(again) = Locks::connect(&old.url()).await {
                    pinned = again;
                }
            }
        }
        tries += 1;
    }
    println!("asked {tries} times while there were two primaries");
    assert!(tries > 0);
    guard.unlock().await.expect("held");
    set.assert_clean("").await;
    entered
}

/// A primary that takes no writes without replicas lets nobody in when it is none any more, not even clients that never look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_min_replicas_the_old_one_lets_nobody_in() {
    let set = set_up(SentinelSet::builder(Flavor::Redis).replicas(2).min_replicas(1)).await;
    assert!(!old_one_lets_in(&set).await);
}

/// What the setting is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_min_replicas_the_old_one_lets_in_whoever_never_looks() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    assert!(old_one_lets_in(&set).await);
}
