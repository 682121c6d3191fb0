//! A runtime that goes takes its futures with it.

use std::future::{IntoFuture, pending};
use std::time::Duration;

use distlock_testkit::suites::{Ground, Site};
use distlock_testkit::{Flavor, Stopwatch};
use tokio::time::timeout;

use crate::cancel::ms;

/// Long enough that nothing here ends because a lease does: what is free again was released.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Before anybody gives up what was begun on a runtime that is gone.
fn assert_soon(since: &Stopwatch, round: u64) {
    let took = since.elapsed();
    assert!(took < Duration::from_secs(5), "round {round}: served after {took:?}");
}

/// A runtime that is shut down takes its guards and waiters with it; the locks go on.
fn a_runtime_shuts_down(site: Site) {
    let Some(ground) = Ground::at(site) else { return };
    let build = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let survivor = build();
    for round in 0..6 {
        let locks = ground.builder().watchdog(WATCHDOG).connect_blocking().unwrap();
        let (held, contended) = (ground.name("held"), ground.name("contended"));
        let elsewhere = survivor.block_on(ground.open());
        let doomed = build();
        let theirs = survivor.block_on(elsewhere.mutex(&contended).lock().into_future()).unwrap();
        for name in [&held, &held, &contended, &contended] {
            let mutex = locks.mutex(name);
            doomed.spawn(async move {
                let _guard = mutex.lock().await;
                pending::<()>().await
            });
        }
        // A waiter on the surviving runtime, behind the driver that runs on the doomed one.
        survivor.block_on(async { tokio::time::sleep(ms(10 * round)).await });
        let waiter = survivor.spawn(locks.mutex(&contended).lock().into_future());
        survivor.block_on(async { tokio::time::sleep(ms(10 * round)).await });
        match round % 2 {
            0 => drop(doomed),
            _ => doomed.shutdown_background(),
        }
        survivor.block_on(async {
            let (wait, since) = (Duration::from_secs(30), Stopwatch::start());
            let next = elsewhere.mutex(&held).lock().wait(wait).await;
            let next = next.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert_soon(&since, round);
            next.unlock().await.unwrap();
            let since = Stopwatch::start();
            let again = locks.mutex(&held).lock().wait(wait).await;
            again.unwrap_or_else(|error| panic!("round {round}: {error}")).unlock().await.unwrap();
            assert_soon(&since, round);
            theirs.unlock().await.unwrap();
            let since = Stopwatch::start();
            let served = timeout(wait, waiter).await;
            let served = served.unwrap_or_else(|_| panic!("round {round}: the survivor starves"));
            served.unwrap().unwrap().unlock().await.unwrap();
            assert_soon(&since, round);
            ground.assert_clean().await;
        });
    }
}

#[test]
fn a_runtime_shuts_down_over_memory() {
    a_runtime_shuts_down(Site::Memory);
}

#[test]
fn a_runtime_shuts_down_over_files() {
    a_runtime_shuts_down(Site::File);
}

#[test]
fn a_runtime_shuts_down_over_redis() {
    a_runtime_shuts_down(Site::Server(Flavor::Redis));
}
