//! Several servers: majorities and clusters.

use distlock::{ErrorKind, Locks, RedLock};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Replicas};

use crate::durability::{LONG, acknowledged, with_acks};

async fn three() -> (Vec<Replicas>, Vec<Locks>) {
    let (mut sets, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let set = Replicas::start(Flavor::Redis, 1).await;
        nodes.push(with_acks(&set.primary.url(), 1).await);
        sets.push(set);
    }
    (sets, nodes)
}

async fn all_clean(sets: &[Replicas]) {
    for set in sets {
        let clean = || async { set.primary.keys("*").await.is_empty() };
        eventually("nothing is left", clean).await;
    }
}

/// A node whose replica is gone has no vote; two others are enough, one is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_durable_has_no_vote() {
    let (sets, nodes) = three().await;
    let lock = RedLock::new("k", &nodes);
    sets[0].freeze().await;
    let guard = acknowledged(async || lock.lock().lease(LONG).await).await;
    assert!(lock.try_lock().await.unwrap().is_none(), "it is held");
    guard.unlock().await.unwrap();
    all_clean(&sets).await;

    sets[1].freeze().await;
    for must in [true, false] {
        let told = || async {
            let error = match must {
                true => lock.lock().lease(LONG).await.unwrap_err(),
                false => lock.try_lock().lease(LONG).await.unwrap_err(),
            };
            // An answer may be late where the machine stands still.
            if error.kind() == ErrorKind::NoQuorum {
                return false;
            }
            assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
            assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
            true
        };
        eventually("too few are durable", told).await;
        all_clean(&sets).await;
    }
    sets[0].thaw().await;
    let guard = acknowledged(async || lock.lock().await).await;
    guard.unlock().await.unwrap();
    all_clean(&sets).await;
}

mod cluster {
    use std::sync::Arc;
    use std::time::Duration;

    use distlock::Locks;
    use distlock_testkit::suites::eventually;
    use distlock_testkit::{Cluster, Flavor, Server};

    use crate::durability::kinds::KINDS;
    use crate::durability::{LONG, acknowledged, assert_not_durable, with_acks};

    /// Who has a copy of what this server has.
    async fn replica_of(cluster: &Cluster, primary: &Server) -> Arc<Server> {
        let port = primary.port().to_string();
        for node in cluster.nodes() {
            if node.info_field("master_port").await.as_ref() == Some(&port) {
                return node.clone();
            }
        }
        panic!("nobody follows {port}");
    }

    async fn every_kind(flavor: Flavor) {
        let cluster = Cluster::builder(flavor).replicas(1).patient().start().await;
        let locks = with_acks(&cluster.url("auto"), 1).await;
        for kind in KINDS {
            let name = format!("{{{kind:?}}}");
            let taken = acknowledged(async || kind.take(&locks, &name, true).await).await;
            let unlock = taken.expect("free");
            let primary = cluster.primary_of(&name).await;
            let replica = replica_of(&cluster, &primary).await;
            let keys = replica.keys(&format!("*{name}*")).await;
            assert!(!keys.is_empty(), "{name} is on the replica");
            unlock.await.unwrap();
        }
        // A replica is gone: what it should have is not had, what others have is.
        let primary = cluster.primary_of("{t}").await;
        let replica = replica_of(&cluster, &primary).await;
        replica.stop();
        primary.cli(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        let mut had = 0;
        for at in 0..12 {
            let name = format!("k{at}");
            let served_there = cluster.primary_of(&name).await.port() == primary.port();
            let mutex = locks.mutex(&name);
            if served_there {
                assert_not_durable(&mutex.lock().await.unwrap_err(), 0, 1);
                assert!(!primary.exists(&name).await);
            } else {
                let guard = acknowledged(async || mutex.lock().await).await;
                guard.unlock().await.unwrap();
                had += 1;
            }
        }
        assert!(had > 0, "one replica of three is gone");
        replica.cont();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_kind_is_acknowledged_where_it_is_served_redis() {
        every_kind(Flavor::Redis).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_kind_is_acknowledged_where_it_is_served_valkey() {
        if Flavor::Valkey.program().is_some() {
            every_kind(Flavor::Valkey).await;
        }
    }

    /// The primary is killed: the one replica that has acknowledged is the one that takes over.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_acknowledged_survives_its_primary() {
        let cluster = Cluster::builder(Flavor::Redis).replicas(1).start().await;
        let (locks, other) = (with_acks(&cluster.url("auto"), 1).await, cluster.url("auto"));
        let other = Locks::connect(&other).await.unwrap();
        let held = acknowledged(async || locks.mutex("{t}k").lock().await).await;
        let primary = cluster.primary_of("{t}k").await;
        let replica = replica_of(&cluster, &primary).await;
        primary.kill();
        let slot = replica.ask(&["CLUSTER", "KEYSLOT", "{t}k"]).await;
        eventually("the replica serves it", || async {
            cluster.primary_for(slot).await.is_some_and(|now| now.port() == replica.port())
        })
        .await;
        // Each of them has to find the new primary first.
        eventually("the new primary is asked", || async {
            let again = other.mutex("{t}k").try_lock().wait(Duration::from_secs(1)).await;
            again.is_ok_and(|again| {
                assert!(again.is_none(), "a second holder");
                true
            })
        })
        .await;
        eventually("it is still held", || async { held.extend(LONG).await.is_ok() }).await;
        held.unlock().await.unwrap();
        // The new primary has nobody who could acknowledge.
        assert_not_durable(&locks.mutex("{t}k").lock().await.unwrap_err(), 0, 1);
        assert_eq!(replica.keys("*{t}*").await, [""; 0]);
    }

    /// MOVED and ASK are followed, and the server that ran the script is the one whose replicas are waited for.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slot_that_moves_is_followed() {
        let cluster = Cluster::builder(Flavor::Redis).replicas(1).patient().start().await;
        let locks = with_acks(&cluster.url("auto"), 1).await;
        let name = "{t}k";
        let take = async || acknowledged(async || locks.mutex(name).lock().lease(LONG).await).await;
        take().await.unlock().await.unwrap();
        let open = async || {
            // The slot is open and has no such key: ASK.
            take().await.unlock().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        cluster.move_slot(name, open).await;
        let guard = take().await;
        let primary = cluster.primary_of(name).await;
        let replica = replica_of(&cluster, &primary).await;
        assert_eq!(replica.keys("*{t}*").await, [name]);
        assert!(primary.calls("wait").await > 0);
        guard.unlock().await.unwrap();
        cluster.assert_clean("{t}").await;
    }
}
