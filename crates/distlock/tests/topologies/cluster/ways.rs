//! Fleets in which not everybody calls out releases in the same way.

use distlock_testkit::Flavor;
use distlock_testkit::suites::{Ground, Site};

use crate::cluster::{LONG, waiting};

/// Whoever does both wakes everybody, and hears everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_both_wakes_and_hears_everybody() {
    for (holds, waits) in [
        ("both", "classic"),
        ("both", "sharded"),
        ("both", "both"),
        ("classic", "both"),
        ("sharded", "both"),
    ] {
        let Some(holder) = Ground::at(Site::Cluster(Flavor::Redis, holds)) else { return };
        let Some(waiter) = Ground::at(Site::Cluster(Flavor::Redis, waits)) else { return };
        let name = holder.name("k");
        let locks = holder.open().await;
        let guard = locks.mutex(&name).lock().lease(LONG).await.expect("free");
        let waits = waiting(waiter.url(), &name).await;
        guard.unlock().await.expect("held");
        waits.enters().await;
        holder.assert_clean().await;
    }
}

/// A fair lock calls the first in line, and finds out whether that one is there: both ways count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fair_queue_of_all_ways_keeps_its_order() {
    let grounds: Option<Vec<Ground>> = ["both", "sharded", "classic", "both"]
        .into_iter()
        .map(|way| Ground::at(Site::Cluster(Flavor::Redis, way)))
        .collect();
    let Some(grounds) = grounds else { return };
    // Releases are the business of those who do both: the others do not reach everybody.
    let name = grounds[0].name("k");
    let locks = grounds[0].open().await;
    let guard = locks.fair(&name).lock().lease(LONG).await.expect("free");
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (at, ground) in grounds.iter().enumerate() {
        let (here, key, order) = (ground.open().await, name.clone(), order.clone());
        let both = grounds[0].open().await;
        tasks.push(tokio::spawn(async move {
            let guard = here.fair(&key).lock().lease(LONG).await.expect("a turn");
            order.lock().expect("no panic").push(at);
            // Lets go in both ways, whatever way it waited in.
            let owner = guard.leak();
            both.fair(&key).unlock(&owner).await.expect("held");
        }));
        crate::cluster::queued(&locks, &name, at + 1).await;
    }
    guard.unlock().await.expect("held");
    for task in tasks {
        tokio::time::timeout(crate::cluster::SOON, task).await.expect("in time").expect("no panic");
    }
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3]);
    for ground in grounds {
        ground.assert_clean().await;
    }
}
