//! A request may be dropped anywhere: no key is left on any node.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::time::Duration;

use distlock_testkit::cancel::{in_vain, sweep, sweep_time};

use crate::redlock::servers::{assert_empty, connect, servers};

const HOUR: Duration = Duration::from_secs(3600);

async fn a_request_dropped_anywhere_leaves_no_key_on_any_node() {
    let servers = servers(3).await;
    let watchdog = Duration::from_secs(600);
    let (here, elsewhere) = (connect(&servers, watchdog).await, connect(&servers, watchdog).await);
    let nothing = async |()| ();
    let empty = async |_: &str| assert_empty(&servers).await;
    sweep("lock", empty, async || (here.lock().lease(HOUR).into_future(), ()), nothing).await;
    sweep("try_lock", empty, async || (here.try_lock().into_future(), ()), nothing).await;
    sweep_time("lock", empty, async || (here.lock().lease(HOUR).into_future(), ()), nothing).await;
    // Held up by somebody else.
    let prepare = async || {
        let held = elsewhere.lock().lease(HOUR).await.expect("free");
        (in_vain(here.lock().lease(HOUR).into_future()), held)
    };
    let let_go = async |held: distlock::Guard| held.unlock().await.expect("held");
    sweep("lock", empty, prepare, let_go).await;
    // In the moment of the release.
    let prepare = async || {
        let held = elsewhere.lock().lease(HOUR).await.expect("free");
        let mut waiting = here.lock().lease(HOUR).into_future();
        let early = tokio::time::timeout(Duration::from_millis(25), &mut waiting).await;
        assert!(early.is_err(), "somebody came in beside the holder");
        (waiting, tokio::spawn(held.unlock()))
    };
    let released = async |release: tokio::task::JoinHandle<distlock::Result<()>>| {
        release.await.expect("no panic").expect("held");
    };
    sweep("lock", empty, prepare, released).await;
    // And the unlock itself.
    let prepare = async || (here.lock().lease(HOUR).await.expect("free").unlock(), ());
    sweep("unlock", empty, prepare, nothing).await;
    sweep_time("unlock", empty, prepare, nothing).await;
}

mod a_request_dropped_anywhere {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn leaves_no_key_on_any_node() {
        super::a_request_dropped_anywhere_leaves_no_key_on_any_node().await;
    }

    /// On a runtime that runs only while the test does.
    #[tokio::test]
    async fn leaves_no_key_on_any_node_on_one_thread() {
        super::a_request_dropped_anywhere_leaves_no_key_on_any_node().await;
    }
}

/// A guard dropped right before its runtime ends is released all the same, everywhere.
#[test]
fn a_guard_dropped_with_its_runtime_leaves_no_key_on_any_node() {
    let build =
        || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let outer = build();
    let servers = outer.block_on(servers(3));
    for _ in 0..5 {
        let inner = build();
        let guard = inner.block_on(async {
            let lock = connect(&servers, Duration::from_secs(600)).await;
            lock.lock().lease(HOUR).await.expect("free")
        });
        drop(guard);
        inner.shutdown_background();
        outer.block_on(assert_empty(&servers));
    }
}
