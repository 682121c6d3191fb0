//! The watchdog on a cluster: each slot needs a call of its own, and no hold is forgotten.

use std::sync::Arc;
use std::time::Duration;

use distlock::{Locks, State};
use distlock_testkit::suites::{Ground, Recorder, Site, eventually};
use distlock_testkit::{Cluster, Flavor};

use crate::cluster::SOON;

/// Not shorter: on a machine that does other things even a watchdog is late.
const WATCHDOG: Duration = Duration::from_secs(6);

/// Waits until each of these was renewed often enough to have outlived its first lease.
async fn renewed(seen: &Arc<Recorder>, names: &[String]) {
    for name in names {
        seen.renewed(name, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_every_kind_are_renewed() {
    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(WATCHDOG).observer(seen.clone());
    let locks = builder.connect().await.expect("a cluster");
    let kinds = ["mutex", "fair", "read", "write", "fenced", "simple", "spin", "leased"];
    let names: Vec<String> = kinds.iter().map(|kind| ground.name(kind)).collect();
    let [mutex, fair, read, write, fenced, simple, spin, leased] = &names[..] else { panic!() };
    let mutex = locks.mutex(mutex).lock().await.expect("free");
    let fair = locks.fair(fair).lock().await.expect("free");
    let read = locks.rw(read).read().await.expect("free");
    let write = locks.rw(write).write().await.expect("free");
    let fenced = locks.fenced(fenced).lock().await.expect("free");
    let simple = locks.simple(simple).lock().await.expect("free");
    let spin = locks.spin(spin).lock().await.expect("free");
    let semaphore = locks.leased_semaphore(leased);
    semaphore.init(3).await.expect("an answer");
    let permits = semaphore.acquire(2).await.expect("left");
    renewed(&seen, &names).await;
    mutex.unlock().await.expect("held");
    fair.unlock().await.expect("held");
    read.unlock().await.expect("held");
    write.unlock().await.expect("held");
    fenced.unlock().await.expect("held");
    simple.unlock().await.expect("held");
    spin.unlock().await.expect("held");
    permits.release().await.expect("held");
    semaphore.delete().await.expect("an answer");
    ground.assert_clean().await;
}

/// Many of one slot go in one script, and many of other slots beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_holds_are_renewed() {
    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let seen = Recorder::new();
    let builder = ground.builder().watchdog(WATCHDOG).observer(seen.clone());
    let locks = builder.connect().await.expect("a cluster");
    let apart = (0..150).map(|at| ground.name(&format!("apart-{at}")));
    let together = (0..150).map(|at| ground.name(&format!("{{together}}-{at}")));
    let names: Vec<String> = apart.chain(together).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(locks.mutex(name).lock().await.expect("free"));
    }
    renewed(&seen, &names).await;
    for guard in guards {
        eventually("it is held", || async { guard.state() == State::Held }).await;
        guard.unlock().await.expect("held");
    }
    ground.assert_clean().await;
}

/// Of the locks of a slot that moves, some are here and some there: what cannot be renewed in one step is renewed one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_of_an_open_slot_are_renewed() {
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    let seen = Recorder::new();
    let builder = Locks::builder().url(cluster.url("auto")).watchdog(WATCHDOG);
    let locks = builder.observer(seen.clone()).connect().await.expect("a cluster");
    let names: Vec<String> = (0..9).map(|at| format!("{{t}}{at}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(locks.mutex(name).lock().await.expect("free"));
    }
    let (from, to) = (cluster.primary_of("{t}").await, cluster.other_primary("{t}").await);
    let half_way = || async {
        let port = to.port().to_string();
        for name in &names[..4] {
            from.cli(&["MIGRATE", "127.0.0.1", &port, name, "0", "5000"]).await;
        }
        let before: Vec<usize> = names.iter().map(|name| seen.count(name, "renewed")).collect();
        // Although they are apart.
        for (name, before) in names.iter().zip(before) {
            seen.renewed(name, before + 4).await;
        }
    };
    cluster.move_slot("{t}", half_way).await;
    for guard in guards {
        eventually("it is held", || async { guard.state() == State::Held }).await;
        let unlocked = tokio::time::timeout(SOON, guard.unlock()).await;
        unlocked.expect("in time").expect("held");
    }
    cluster.assert_clean("").await;
}
