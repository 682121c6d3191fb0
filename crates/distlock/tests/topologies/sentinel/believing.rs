//! Whom to believe, if they do not agree.

use distlock::Locks;
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, SentinelSet, Server};

use crate::sentinel::strikes::{served_by, set_up};
use crate::sentinel::{LONG, SOON};

/// Whether the library has asked a sentinel by now, and will again.
async fn asked(sentinel: &Server) {
    let asks =
        || async { sentinel.clients().await.iter().any(|client| client.contains("cmd=sentinel")) };
    let asks = async {
        while !asks().await {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, asks).await.expect("everybody is asked in turn");
}

/// A sentinel that was cut off names a primary from before, and that one may still believe in itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_knows_less_is_not_believed() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    // It has the same name for another primary, and knows of no change.
    let old = set_up(SentinelSet::builder(Flavor::Redis).replicas(0)).await;
    let new = set.fail_over().await;
    let mut sentinels = set.sentinels().to_vec();
    sentinels.push(old.sentinels()[0].clone());
    let url = set.url_by(&sentinels, set.name());
    // Whoever knows nothing yet believes the first to answer: it is silent until the change is known here.
    old.sentinels()[0].stop();
    let locks = Locks::connect(&url).await.expect("a set");
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    old.sentinels()[0].cont();
    asked(&old.sentinels()[0]).await;
    for _ in 0..20 {
        served_by(&new, &locks).await;
    }
    assert!(new.exists("k").await);
    assert_eq!(old.servers()[0].calls("evalsha").await, 0, "it was not believed");
    guard.unlock().await.expect("held");
    set.assert_clean("").await;
}

/// Sentinels that are set up anew count from 0 again: they know less than before, but all of them say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_were_set_up_anew_are_believed() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let locks = Locks::connect(&set.url()).await.expect("a set");
    let first = set.fail_over().await;
    served_by(&first, &locks).await;
    let old = set.servers()[0].clone();
    set.follows(&old).await;
    set.replicated().await;
    for sentinel in set.sentinels() {
        sentinel.cli(&["SENTINEL", "REMOVE", set.name()]).await;
    }
    first.cli(&["FAILOVER"]).await;
    eventually("they change places", || async { old.is_primary().await }).await;
    let port = old.port().to_string();
    for sentinel in set.sentinels() {
        sentinel.cli(&["SENTINEL", "MONITOR", set.name(), "127.0.0.1", &port, "2"]).await;
    }
    served_by(&old, &locks).await;
    set.assert_clean("").await;
}
