//! On the way in.

use std::future::IntoFuture;

use distlock::{Guard, Mutex, Result};
use distlock_testkit::Flavor;
use distlock_testkit::cancel::{in_vain, poll_times, sweep, sweep_time};
use distlock_testkit::suites::{Ground, Recorder, Site, eventually};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::cancel::{HOUR, Scene, ms};

pub(crate) async fn an_uncontended_acquisition(scene: Scene) {
    let prepare = async || (scene.mutex().lock().into_future(), ());
    sweep("lock", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().try_lock().into_future(), ());
    sweep("try_lock", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().lock().lease(HOUR).into_future(), ());
    sweep_time("lock with a lease", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().try_lock().into_future(), ());
    sweep_time("try_lock", scene.nothing_left(), prepare, async |()| ()).await;
}

async fn held_up_by(holder: Mutex, scene: Scene) {
    let check = async |held: Guard| {
        scene.assert_nobody_waits().await;
        held.unlock().await.unwrap();
    };
    let prepare = async || {
        let held = holder.lock().lease(HOUR).await.unwrap();
        (in_vain(scene.mutex().lock().into_future()), held)
    };
    sweep("lock", scene.nothing_left(), prepare, check).await;
    let prepare = async || {
        let held = holder.lock().lease(HOUR).await.unwrap();
        (in_vain(scene.mutex().lock().wait(HOUR).into_future()), held)
    };
    sweep_time("lock", scene.nothing_left(), prepare, check).await;
}

pub(crate) async fn an_acquisition_held_up_elsewhere(scene: Scene) {
    held_up_by(scene.other(), scene).await;
}

pub(crate) async fn an_acquisition_held_up_here(scene: Scene) {
    held_up_by(scene.mutex(), scene).await;
}

/// The waiter leaves while the holder does.
pub(crate) async fn an_acquisition_released_in_that_moment(scene: Scene) {
    for holder in [scene.other(), scene.mutex()] {
        let prepare = async || {
            let held = holder.lock().lease(HOUR).await.unwrap();
            let mut waiting = scene.mutex().lock().into_future();
            // On its way to the lock, or in the queue for it.
            let early = timeout(ms(20), &mut waiting).await;
            assert!(early.is_err());
            let release = tokio::spawn(held.unlock());
            (waiting, release)
        };
        let check = async |release: JoinHandle<Result<()>>| {
            release.await.unwrap().unwrap();
        };
        sweep("lock", scene.nothing_left(), prepare, check).await;
        sweep_time("lock", scene.nothing_left(), prepare, check).await;
    }
}

pub(crate) async fn a_re_entry(scene: Scene) {
    let prepare = async || {
        let me = scene.here.owner();
        let outer = scene.mutex().lock().owner(&me).lease(HOUR).await.unwrap();
        (scene.mutex().lock().owner(&me).lease(HOUR).into_future(), outer)
    };
    let check = async |outer: Guard| {
        let me = *outer.owner();
        let one = || async { scene.mutex().hold_count(&me).await.unwrap() == 1 };
        eventually("the re-entry is taken back", one).await;
        assert!(!outer.is_lost());
        assert!(scene.other().try_lock().await.unwrap().is_none(), "the outer hold stays");
        outer.unlock().await.unwrap();
    };
    sweep("re-entry", scene.nothing_left(), prepare, check).await;
    sweep_time("re-entry", scene.nothing_left(), prepare, check).await;
}

/// Many waiters, all dropped in one moment.
pub(crate) async fn a_crowd_that_leaves(scene: Scene) {
    for holder in [scene.other(), scene.mutex()] {
        let held = holder.lock().lease(HOUR).await.unwrap();
        let mut crowd = JoinSet::new();
        for _ in 0..50 {
            crowd.spawn(scene.mutex().lock().into_future());
        }
        tokio::time::sleep(ms(30)).await;
        crowd.abort_all();
        while crowd.join_next().await.is_some() {}
        scene.assert_nobody_waits().await;
        held.unlock().await.unwrap();
        scene.assert_nothing_left("a crowd that left").await;
    }
}

/// Redisson: testLockIsNotRenewedAfterInterruptedTryLock.
#[tokio::test]
async fn what_was_cancelled_is_not_renewed() {
    for site in [Site::Memory, Site::Server(Flavor::Redis)] {
        let ground = Ground::at(site).unwrap();
        let seen = Recorder::new();
        let builder = ground.builder().watchdog(ms(3000)).observer(seen.clone());
        let locks = builder.connect().await.unwrap();
        let names: Vec<String> = (0..8).map(|polls| ground.name(&format!("k{polls}"))).collect();
        for (polls, name) in names.iter().enumerate() {
            drop(poll_times(locks.mutex(name).try_lock().into_future(), polls).await);
        }
        let free = async |name: &String| !locks.mutex(name).is_locked().await.unwrap();
        let renewed = || names.iter().map(|name| seen.count(name, "renewed")).collect::<Vec<_>>();
        for name in &names {
            eventually("it falls back by itself", || async { free(name).await }).await;
        }
        let before = renewed();
        // Longer than until a renewal would be due.
        tokio::time::sleep(ms(1500)).await;
        assert_eq!(renewed(), before);
        for name in &names {
            assert!(free(name).await, "{name}");
        }
    }
}
