//! Several locks as one: in one slot, where one script takes them, and in several, where it cannot.

use distlock::Locks;
use distlock_testkit::suites::{Site, multi};
use distlock_testkit::{Cluster, Flavor};

use crate::LONG;

/// Names of their own are in slots of their own.
macro_rules! promises {
    ($($suite:ident: $($promise:ident)*;)*) => {
        $(mod $suite {
            $(mod $promise {
                use super::super::*;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sharded() {
                    let site = Site::Cluster(Flavor::Redis, "sharded");
                    multi::stand(&[site], multi::$suite::$promise).await;
                }

                /// A cluster and a single server.
                #[tokio::test]
                async fn classic_beside_a_server() {
                    let sites = [Site::Cluster(Flavor::Redis, "classic"), Site::Server(Flavor::Redis)];
                    multi::stand(&sites, multi::$suite::$promise).await;
                }
            })*
        })*
    };
}

distlock_testkit::core_multi_promises!(promises);

/// A cluster can be one of the servers of which a majority decides.
mod majority {
    use distlock_testkit::Flavor::{Redis, Redis62, Valkey};
    use distlock_testkit::suites::Site::{Cluster, Memory, Server};
    use distlock_testkit::suites::redlock::{nodes, stand};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_clusters() {
        let sites = [Cluster(Redis, "sharded"), Cluster(Valkey, "auto"), Cluster(Redis62, "auto")];
        stand(&sites, nodes::a_held_lock_refuses_everybody_else).await;
        stand(&sites, nodes::a_waiter_gets_in_when_the_holder_lets_go).await;
    }

    #[tokio::test]
    async fn of_a_cluster_and_others() {
        let sites = [Cluster(Redis, "classic"), Server(Redis), Memory];
        stand(&sites, nodes::a_hold_stands_at_every_node).await;
    }
}

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
