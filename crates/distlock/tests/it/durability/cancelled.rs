//! Whoever leaves while replicas are waited for leaves nothing.

use std::future::IntoFuture;

use distlock::{Guard, Locks};
use distlock_testkit::cancel::{poll_times, sweep, sweep_time};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Replicas};

use crate::durability::kinds::KINDS;
use crate::durability::{LONG, acknowledged, ms, with_acks, without_acks};

/// Nobody holds it, and nothing else is left either.
async fn assert_nothing_left(set: &Replicas, other: &Locks, what: &str) {
    let next = other.mutex("k").lock().wait(ms(10_000)).lease(LONG).await;
    next.unwrap_or_else(|e| panic!("{what}: {e}")).unlock().await.unwrap();
    let clean = || async { set.primary.keys("*").await.is_empty() };
    eventually(&format!("{what}: nothing is left"), clean).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_dropped_at_any_moment_leaves_no_lock() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let (locks, (other, _)) =
        (with_acks(&set.primary.url(), 1).await, without_acks(&set.primary).await);
    for frozen in [false, true] {
        if frozen {
            set.freeze().await;
        }
        let nothing_left = async |what: &str| assert_nothing_left(&set, &other, what).await;
        let mutex = locks.mutex("k");
        let prepare = async || (mutex.lock().lease(LONG).into_future(), ());
        sweep("lock", nothing_left, prepare, async |()| ()).await;
        sweep_time("lock", nothing_left, prepare, async |()| ()).await;
        let prepare = async || (mutex.try_lock().lease(LONG).into_future(), ());
        sweep("try_lock", nothing_left, prepare, async |()| ()).await;
        let several = locks.multi(["k", "l"]);
        let prepare = async || (several.lock().lease(LONG).into_future(), ());
        sweep("multi", nothing_left, prepare, async |()| ()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_re_entry_dropped_at_any_moment_leaves_the_outer_level() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let (locks, (other, _)) =
        (with_acks(&set.primary.url(), 1).await, without_acks(&set.primary).await);
    let mutex = locks.mutex("k");
    let check = async |outer: Guard| {
        let me = *outer.owner();
        let one = || async { mutex.hold_count(&me).await.unwrap() == 1 };
        eventually("the re-entry is taken back", one).await;
        assert!(!outer.is_lost());
        outer.unlock().await.unwrap();
    };
    for frozen in [false, true] {
        let prepare = async || {
            // The outer one is acknowledged in either case.
            set.thaw().await;
            let me = locks.owner();
            let outer = acknowledged(async || mutex.lock().owner(&me).lease(LONG).await).await;
            if frozen {
                set.freeze().await;
            }
            (mutex.lock().owner(&me).lease(LONG).into_future(), outer)
        };
        let nothing_left = async |what: &str| assert_nothing_left(&set, &other, what).await;
        sweep("re-entry", nothing_left, prepare, check).await;
    }
}

/// Every kind, dropped while the replicas are waited for, and while it is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_can_be_dropped_while_replicas_are_waited_for() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    set.freeze().await;
    for kind in KINDS {
        for polls in 1..6 {
            let name = format!("{kind:?}{polls}");
            drop(poll_times(kind.take(&locks, &name, true), polls).await);
        }
        let left = || async {
            let keys = set.primary.keys(&format!("*{kind:?}*")).await;
            keys.iter().all(|key| (1..6).any(|n| kind.may_stay(&format!("{kind:?}{n}"), key)))
        };
        eventually(&format!("{kind:?} leaves nothing"), left).await;
        for polls in 1..6 {
            let given_back = || async {
                let left = kind.permits(&locks, &format!("{kind:?}{polls}")).await;
                left.is_none_or(|left| left == 3 || left == 0)
            };
            eventually(&format!("{kind:?} gives its permits back"), given_back).await;
        }
    }
}
