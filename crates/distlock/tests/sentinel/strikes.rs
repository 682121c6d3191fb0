//! What may happen to a primary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::{Flavor, SentinelSet, Server};

use crate::SOON;

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
        match self {
            Strike::Kill => old.kill(),
            Strike::Freeze => {
                set.sentinels()[0].stop();
                old.stop();
            }
            Strike::Manual => return (old, set.fail_over().await),
        }
        let new = set.replaced(&old).await;
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
            let set = SentinelSet::builder(flavor).start().await;
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
