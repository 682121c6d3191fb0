//! Names whose keys would be on different servers are refused before anything is sent.

use distlock::store::Command;
use distlock::{ErrorKind, Locks};
use distlock_testkit::suites::{Ground, Site, eventually};
use distlock_testkit::{Cluster, Flavor};

use crate::cluster::LONG;

const SPLIT: [&str; 6] = ["a{b", "a}b", "{}", "x{}y", "{", "}{"];

#[tokio::test]
async fn names_that_split_are_refused_by_every_kind() {
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    let locks = Locks::connect(&cluster.url("auto")).await.expect("a cluster");
    let sent = async || {
        let mut sent = 0;
        for node in cluster.nodes() {
            sent += node.calls("evalsha").await + node.calls("ssubscribe").await;
        }
        sent
    };
    assert_eq!(sent().await, 0);
    for name in SPLIT {
        let refused = [
            locks.mutex(name).try_lock().await.map(drop),
            locks.fair(name).lock().await.map(drop),
            locks.rw(name).read().await.map(drop),
            locks.rw(name).write().await.map(drop),
            locks.fenced(name).lock().await.map(drop),
            locks.spin(name).lock().await.map(drop),
            locks.simple(name).lock().await.map(drop),
            locks.multi([name, "other"]).lock().await.map(drop),
            locks.semaphore(name).init(1).await.map(drop),
            locks.semaphore(name).acquire(1).await.map(drop),
            locks.leased_semaphore(name).init(1).await.map(drop),
            locks.leased_semaphore(name).acquire(1).await.map(drop),
            locks.latch(name).init(1).await.map(drop),
            locks.latch(name).wait().await.map(drop),
            locks.mutex(name).force_unlock().await.map(drop),
            locks.mutex(name).inspect().await.map(drop),
            locks.fence_gate(name).forget().await.map(drop),
        ];
        for (at, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err("a name that splits");
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{name} {at}: {error}");
        }
    }
    // Asking for several goes to those that can be asked first; what they got is given back.
    let free = || async { !locks.mutex("other").is_locked().await.expect("an answer") };
    eventually("it is given back", free).await;
    for name in ["x{t}y", "{t}"] {
        let error = locks.latch(name).init(1).await.expect_err("a latch with a brace");
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name}: {error}");
    }
    cluster.assert_clean("").await;
}

#[tokio::test]
async fn names_with_a_tag_are_as_good_as_any() {
    for way in crate::cluster::WAYS {
        let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, way)) else { return };
        let (here, elsewhere) = (ground.open().await, ground.open().await);
        let name = ground.name("x{tag}y");
        let guard = here.fair(&name).lock().lease(LONG).await.expect("free");
        let waiting = tokio::spawn(async move { elsewhere.fair(&name).lock().await.map(drop) });
        eventually("somebody waits", || async {
            let seen = here.fair(guard.name()).inspect().await;
            seen.is_ok_and(|seen| !seen.queue.is_empty())
        })
        .await;
        guard.unlock().await.expect("held");
        let waited = tokio::time::timeout(crate::cluster::SOON, waiting).await;
        waited.expect("woken").expect("no panic").expect("a lock");
        ground.assert_clean().await;
    }
}

#[tokio::test]
async fn a_guarded_command_must_stay_in_the_locks_slot() {
    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let locks = ground.open().await;
    let (name, data) = (ground.name("{t}lock"), ground.name("{t}data"));
    let guard = locks.mutex(&name).lock().lease(LONG).await.expect("free");
    let stray = Command::new("SET").key(ground.name("elsewhere")).arg("1");
    let error = guard.send(&stray).await.expect_err("a key in another slot");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    guard.send(&Command::new("SET").key(&data).arg("1")).await.expect("held");
    guard.send(&Command::new("DEL").key(&data)).await.expect("held");
    guard.unlock().await.expect("held");
    ground.assert_clean().await;
}
