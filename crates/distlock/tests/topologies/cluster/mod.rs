//! Locks on a cluster: every kind keeps its promises with plain and with sharded channels, and servers may come, go and swap
//! their slots.
mod connecting;
mod failing;
mod moving;
mod names;
mod renewing;
mod several;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use distlock::Locks;
use distlock_testkit::suites::{eventually, in_line, queued, waiting};
use distlock_testkit::{Cluster, Flavor, Server};

/// Whoever is let in long before this was woken, and did not wait for a lease to end.
const LONG: Duration = Duration::from_secs(600);

/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);

/// The ways in which releases are called out.
const WAYS: [&str; 2] = ["sharded", "classic"];

/// Three primaries with a replica each.
async fn with_replicas(flavor: Flavor) -> Cluster {
    Cluster::builder(flavor).replicas(1).start().await
}

/// One who waits for a mutex and one in line for a fair lock are subscribed at the server that `change` gives them, and woken
/// there: nobody looks again by itself before the leases end.
async fn waiters_follow(cluster: &Cluster, way: &str, change: impl AsyncFnOnce() -> Arc<Server>) {
    let locks = Locks::connect(&cluster.url(way)).await.expect("a cluster");
    let mutex = locks.mutex("{t}m").lock().lease(LONG).await.expect("free");
    let fair = locks.fair("{t}f").lock().lease(LONG).await.expect("free");
    let waiter = waiting(&cluster.url(way), "{t}m").await;
    let line = in_line(&cluster.url(way), "{t}f", 1).await;
    let now = change().await;
    eventually("both are subscribed at the server that serves them now", || async {
        now.pubsub_channels().await.iter().filter(|name| name.contains("{t}")).count() == 2
    })
    .await;
    mutex.unlock().await.expect("held");
    waiter.enters().await;
    fair.unlock().await.expect("held");
    line.enters().await;
    cluster.assert_clean("").await;
}
