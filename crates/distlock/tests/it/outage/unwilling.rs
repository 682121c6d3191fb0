//! A server that answers, and may not write.

use distlock::ErrorKind;
use distlock_testkit::{Flavor, Proxy, Replicas, Server, assert_clean};
use tokio::task::LocalSet;

use crate::outage::{BOUND, LONG, SECOND, SOON, connect, eventually, within};

#[tokio::test]
async fn a_replica_is_unavailable_and_nothing_is_written() {
    let primary = Server::redis().await;
    let port = primary.port().to_string();
    let link = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
    let replica = Server::builder(Flavor::Redis).args(link).start().await;
    let locks = connect(&replica.url(), LONG).await;
    // Long enough to be told why, on a machine that is slow to ask.
    let wait = 2 * SECOND;
    let (single, timed) = tokio::join!(
        within(BOUND, "try_lock", locks.mutex("readonly-a").try_lock()),
        within(wait + BOUND, "lock", locks.mutex("readonly-b").lock().wait(wait)),
    );
    for error in [single.unwrap_err(), timed.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("READONLY"), "{error}");
    }
    assert_clean(&replica, "").await;
    assert_clean(&primary, "").await;
    // Promoted, it serves.
    replica.cli(&["REPLICAOF", "NO", "ONE"]).await;
    let guard = within(SOON, "lock", locks.mutex("readonly-a").lock()).await.unwrap();
    guard.unlock().await.unwrap();
}

/// Whoever rents a server rents a name: after a failover it stands for another one, and the old one, a replica now, keeps its
/// connections.
#[tokio::test]
async fn a_name_that_stands_for_another_server_by_now_is_looked_up_again() {
    for flavor in Flavor::installed() {
        let (old, new) = {
            let start =
                || Server::builder(flavor).args(["--repl-diskless-sync-delay", "0"]).start();
            (start().await, start().await)
        };
        let name = Proxy::start(old.addr()).await;
        let locks = connect(&name.url(), LONG).await;
        locks.mutex("moved").lock().await.unwrap().unlock().await.unwrap();
        name.retarget(new.addr());
        old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await;
        let guard = within(SOON, "lock", locks.mutex("moved").lock()).await.unwrap();
        assert!(new.exists("moved").await);
        guard.unlock().await.unwrap();
        assert_clean(&new, "moved").await;
    }
}

/// The watchdog's own connection is left too, although its script answers for each hold and is not refused as a whole.
#[tokio::test]
async fn a_hold_is_renewed_where_the_name_stands_for_by_now() {
    let here = LocalSet::new();
    let begin = |flavor| here.spawn_local(renewed_after_a_move(flavor));
    let all: Vec<_> = Flavor::installed().into_iter().map(begin).collect();
    here.await;
    for one in all {
        one.await.unwrap();
    }
}

async fn renewed_after_a_move(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let (old, new) = (&set.primary, set.replica());
    let name = Proxy::start(old.addr()).await;
    let locks = connect(&name.url(), 9 * SECOND).await;
    let guard = locks.mutex("moved").lock().await.expect("free");
    renewed(old).await;
    eventually("replicated", async || new.exists("moved").await).await;
    name.retarget(new.addr());
    new.cli(&["REPLICAOF", "NO", "ONE"]).await;
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await;
    renewed(new).await;
    assert!(!guard.is_lost());
    guard.unlock().await.expect("held");
    assert_clean(new, "moved").await;
}

/// Until there is more time left than before.
async fn renewed(server: &Server) {
    let mut least = i64::MAX;
    eventually("renewed", async || {
        let left = server.pttl("moved").await;
        assert!(left > 0, "lost: {left}");
        least = least.min(left);
        left > least
    })
    .await;
}

#[tokio::test]
async fn a_wait_beside_somebody_elses_single_try_learns_of_the_outage_too() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let mutex = locks.mutex("beside");
    // Long enough to be told why, on a machine that is slow to ask.
    let wait = 2 * SECOND;
    let (single, timed) = tokio::join!(
        within(BOUND, "try_lock", mutex.try_lock()),
        within(wait + BOUND, "lock", mutex.lock().wait(wait)),
    );
    for error in [single.unwrap_err(), timed.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn a_primary_without_enough_replicas_is_unavailable_and_nothing_is_written() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    let held = locks.mutex("alone-held").lock().await.unwrap();
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let error = within(BOUND, "try_lock", locks.mutex("alone").try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!server.exists("alone").await);
    let unlocked = within(BOUND, "unlock", held.unlock()).await;
    assert_eq!(unlocked.unwrap_err().kind(), ErrorKind::Unavailable);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    // The release went on without its caller.
    eventually("released", async || !server.exists("alone-held").await).await;
    assert_clean(&server, "alone").await;
}
