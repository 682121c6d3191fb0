//! A request may be dropped anywhere: nothing is left behind on any server.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Guard, MultiGuard, MultiLock};
use distlock_testkit::Flavor::{Redis, Valkey};
use distlock_testkit::cancel::{in_vain, sweep, sweep_time};
use distlock_testkit::suites::Site::{Acl, Server, Virtual};
use distlock_testkit::suites::eventually;
use distlock_testkit::suites::multi::{Field, Process, stand};

const HOUR: Duration = Duration::from_secs(3600);

/// For a sweep: nobody holds anything.
fn nothing_left(elsewhere: &Process) -> impl AsyncFnMut(&str) {
    async |what: &str| {
        let free = || async { !elsewhere.held().await.contains(&true) };
        eventually(&format!("{what}: nothing is left"), free).await;
    }
}

async fn an_uncontended_acquisition(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let all = here.all();
    let owner = here.store(0).owner();
    type Request = fn(&MultiLock) -> distlock::Acquire<MultiGuard, distlock::Must>;
    let requests: [Request; 2] = [|all| all.lock().lease(HOUR), |all| all.lock().wait(HOUR)];
    for request in requests {
        let prepare = async || (request(&all).into_future(), ());
        sweep("lock", nothing_left(&elsewhere), prepare, async |()| ()).await;
        let prepare = async || (request(&all).into_future(), ());
        sweep_time("lock", nothing_left(&elsewhere), prepare, async |()| ()).await;
        let prepare = async || (request(&all).owner(&owner).into_future(), ());
        sweep("lock as an owner", nothing_left(&elsewhere), prepare, async |()| ()).await;
    }
}

async fn an_acquisition_held_up_by_one_member(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for busy in 0..field.size() {
        let check = async |held: Guard| held.unlock().await.expect("it was held");
        let prepare = async || {
            let held = elsewhere.member(busy).lock().lease(HOUR).await.expect("it is free");
            (in_vain(here.all().lock().lease(HOUR).into_future()), held)
        };
        sweep("lock", nothing_left(&elsewhere), prepare, check).await;
        sweep_time("lock", nothing_left(&elsewhere), prepare, check).await;
    }
}

/// The waiter leaves while the holder does: with the member that it waited for in hand, or the next, or all.
async fn an_acquisition_released_in_that_moment(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for busy in [0, field.size() - 1] {
        let prepare = async || {
            let held = elsewhere.member(busy).lock().lease(HOUR).await.expect("it is free");
            let mut waiting = here.all().lock().lease(HOUR).into_future();
            let early = tokio::time::timeout(Duration::from_millis(25), &mut waiting).await;
            assert!(early.is_err(), "somebody came in beside the holder");
            (waiting, tokio::spawn(held.unlock()))
        };
        let check = async |release: tokio::task::JoinHandle<distlock::Result<()>>| {
            release.await.expect("no panic").expect("it was held");
        };
        sweep("lock", nothing_left(&elsewhere), prepare, check).await;
        sweep_time("lock", nothing_left(&elsewhere), prepare, check).await;
    }
}

async fn an_unlock(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let prepare = async || {
        let held = here.all().lock().lease(HOUR).await.expect("all are free");
        (held.unlock(), ())
    };
    sweep("unlock", nothing_left(&elsewhere), prepare, async |()| ()).await;
    sweep_time("unlock", nothing_left(&elsewhere), prepare, async |()| ()).await;
}

macro_rules! wherever_they_are {
    ($($what:ident)*) => {
        $(mod $what {
            use super::*;

            #[tokio::test(start_paused = true)]
            async fn two_tables() {
                stand(&[Virtual, Virtual], super::$what).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                stand(&[Server(Redis)], super::$what).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn two_servers() {
                stand(&[Server(Redis), Acl(Valkey)], super::$what).await;
            }

            /// On a runtime that runs only while the test does.
            #[tokio::test]
            async fn two_servers_one_thread() {
                stand(&[Acl(Valkey), Server(Redis)], super::$what).await;
            }
        })*
    };
}

wherever_they_are! {
    an_uncontended_acquisition
    an_acquisition_held_up_by_one_member
    an_acquisition_released_in_that_moment
    an_unlock
}
