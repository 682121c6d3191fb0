//! What may happen to a primary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::server::SentinelBuilder;
use distlock_testkit::{Flavor, SentinelSet, Server};

use crate::sentinel::{LONG, SOON};

/// Starts a set in which nobody is taken for dead, and no sentinel rests, because the machine is busy: what happens to the
/// primary is up to the test.
pub(crate) async fn set_up(builder: SentinelBuilder) -> SentinelSet {
    let set = builder.down_after(LONG).start().await;
    for sentinel in set.sentinels() {
        // One that stood still for two seconds would do nothing for thirty. Redis 6.2 cannot be told otherwise.
        let rests = ["SENTINEL", "DEBUG", "tilt-trigger", "600000", "tilt-period", "1"];
        let _ = sentinel.try_cli(&rests).await;
    }
    set
}

/// Has the sentinels that run take a server for dead after this time.
async fn dead_after(set: &SentinelSet, time: Duration) {
    let millis = time.as_millis().to_string();
    for sentinel in set.sentinels().iter().filter(|sentinel| !sentinel.is_stopped()) {
        let setting = ["SENTINEL", "SET", set.name(), "down-after-milliseconds", &millis];
        sentinel.cli(&setting).await;
    }
}

/// Strikes the primary, and returns the server that the sentinels choose in its place.
pub(crate) async fn replaced(
    set: &SentinelSet,
    old: &Server,
    strike: impl FnOnce(),
) -> Arc<Server> {
    dead_after(set, Duration::from_secs(1)).await;
    strike();
    let new = set.replaced(old).await;
    dead_after(set, LONG).await;
    new
}

/// How a primary is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// `kill -9`.
    Kill,
    /// `SIGSTOP`, and one of the sentinels with it: no connection is closed.
    Freeze,
    /// `SENTINEL FAILOVER`: it stays, for ten seconds as if nothing had happened and then as a replica.
    Manual,
}

impl Strike {
    pub(crate) const ALL: [Strike; 3] = [Strike::Kill, Strike::Freeze, Strike::Manual];

    /// Strikes, and returns the server that was the primary and the one that is.
    pub(crate) async fn hit(self, set: &SentinelSet) -> (Arc<Server>, Arc<Server>) {
        let old = set.primary().await;
        let new = match self {
            Strike::Kill => replaced(set, &old, || old.kill()).await,
            Strike::Freeze => {
                let freeze = || {
                    set.sentinels()[0].stop();
                    old.stop();
                };
                replaced(set, &old, freeze).await
            }
            Strike::Manual => set.fail_over().await,
        };
        (old, new)
    }

    /// What was taken away comes back.
    pub(crate) async fn heal(self, set: &SentinelSet, old: &Server) {
        match self {
            Strike::Kill => old.restart().await,
            Strike::Freeze => {
                old.cont();
                set.sentinels()[0].cont();
            }
            Strike::Manual => set.follows(old).await,
        }
    }
}

/// Locks and unlocks until `server` does it, as the primary.
pub(crate) async fn served_by(server: &Server, locks: &Locks) {
    let served = async || {
        // What a primary has after this it has not got from another.
        let is_primary = server.is_primary().await;
        let guard = locks.mutex("probe").try_lock().lease(Duration::from_secs(1)).await;
        // Sentinels cut every connection to a server whose role they change.
        let found = server.try_cli(&["EXISTS", "probe"]).await;
        if let Ok(Some(guard)) = guard {
            let _ = guard.unlock().await;
            return is_primary && matches!(found, Ok(redis::Value::Int(1)));
        }
        false
    };
    let served = async { while !served().await {} };
    tokio::time::timeout(SOON, served).await.expect("the new primary is found");
}

/// Says how long it takes until locks can be taken again. For people: nothing depends on it but that it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_to_recover() {
    let flavors = [Flavor::Redis, Flavor::Valkey];
    for flavor in flavors.into_iter().filter(|flavor| flavor.program().is_some()) {
        for strike in Strike::ALL {
            let set = set_up(SentinelSet::builder(flavor)).await;
            let locks = Locks::connect(&set.url()).await.expect("a set");
            locks.mutex("probe").lock().await.expect("free").unlock().await.expect("held");
            let new = set.replica().await;
            let since = Instant::now();
            let served = async {
                served_by(&new, &locks).await;
                since.elapsed()
            };
            let named = async {
                let (old, _) = strike.hit(&set).await;
                (old, since.elapsed())
            };
            let (served, (old, named)) = tokio::join!(served, named);
            println!(
                "{flavor:?} {strike:?}: all sentinels agree after {named:.2?}, locks again after {served:.2?}"
            );
            if strike != Strike::Manual {
                strike.heal(&set, &old).await;
            }
        }
    }
}
