//! Several locks as one, in one slot and in several.

use distlock::Locks;
use distlock_testkit::{Cluster, Flavor};

use crate::cluster::LONG;

/// One script for all members of a slot, as on a single server.
#[tokio::test]
async fn members_of_one_slot_cost_one_script() {
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    let locks = Locks::connect(&cluster.url("auto")).await.expect("a cluster");
    let names = ["{t}a", "{t}b", "{t}c", "{t}d"];
    // The first time the server has to be told the script.
    locks.multi(names).lock().lease(LONG).await.expect("free").unlock().await.expect("held");
    let calls = async || {
        let mut calls = 0;
        for node in cluster.nodes() {
            calls += node.calls("evalsha").await;
        }
        calls
    };
    let before = calls().await;
    let guard = locks.multi(names).lock().lease(LONG).await.expect("free");
    assert_eq!(calls().await - before, 1);
    guard.unlock().await.expect("held");
    let guard = locks.multi(["a", "b", "c", "d"]).lock().lease(LONG).await.expect("free");
    guard.unlock().await.expect("held");
    cluster.assert_clean("").await;
}
