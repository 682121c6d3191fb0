//! With the lock in hand.

use std::future::{IntoFuture, pending};
use std::sync::Arc;
use std::time::Duration;

use distlock::{Guard, Result};
use distlock_testkit::cancel::{sweep, sweep_time};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::cancel::{HOUR, Scene, ms};

pub(crate) async fn an_unlock(scene: Scene) {
    let prepare = async || {
        let held = scene.mutex().lock().lease(HOUR).await.unwrap();
        (held.unlock(), ())
    };
    sweep("unlock", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("unlock", scene.nothing_left(), prepare, async |()| ()).await;
    // With somebody waiting for it elsewhere and here.
    for waiter in [scene.other(), scene.mutex()] {
        let prepare = async || {
            let held = scene.mutex().lock().lease(HOUR).await.unwrap();
            let mut waiting = waiter.lock().into_future();
            assert!(timeout(ms(20), &mut waiting).await.is_err());
            (held.unlock(), tokio::spawn(waiting))
        };
        let check = async |waiting: JoinHandle<Result<Guard>>| {
            let served = timeout(Duration::from_secs(15), waiting).await.expect("it is served");
            served.unwrap().unwrap().unlock().await.unwrap();
        };
        sweep("unlock with a waiter", scene.nothing_left(), prepare, check).await;
    }
}

pub(crate) async fn an_extension(scene: Scene) {
    let prepare = async || {
        let held = Arc::new(scene.mutex().lock().lease(Duration::from_secs(60)).await.unwrap());
        let extending = held.clone();
        let work = async move {
            extending.extend(HOUR).await.unwrap();
        };
        (work, held)
    };
    let check = async |held: Arc<Guard>| {
        assert!(!held.is_lost());
        // The step that was on its way has arrived or not; the guard knows no more than that.
        let held = Arc::into_inner(held).expect("nobody else has it");
        held.unlock().await.unwrap();
    };
    sweep("extend", scene.nothing_left(), prepare, check).await;
    sweep_time("extend", scene.nothing_left(), prepare, check).await;
}

pub(crate) async fn work_under_a_lock(scene: Scene) {
    let prepare = async || {
        let held = Arc::new(scene.mutex().lock().lease(HOUR).await.unwrap());
        let holding = held.clone();
        let work = async move {
            let work = async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            };
            holding.while_held(work).await.unwrap();
            timeout(ms(20), holding.while_held(pending::<()>())).await.unwrap_err();
        };
        (work, held)
    };
    let check = async |held: Arc<Guard>| {
        assert!(!held.is_lost(), "the guard stays as it is");
        assert!(scene.other().try_lock().await.unwrap().is_none());
        Arc::into_inner(held).expect("nobody else has it").unlock().await.unwrap();
    };
    sweep("while_held", scene.nothing_left(), prepare, check).await;
}

pub(crate) async fn a_question(scene: Scene) {
    let prepare = async || {
        let mutex = scene.mutex();
        let work = async move {
            mutex.inspect().await.unwrap();
            mutex.force_unlock().await.unwrap();
        };
        (work, ())
    };
    sweep("inspect and force", scene.nothing_left(), prepare, async |()| ()).await;
}
