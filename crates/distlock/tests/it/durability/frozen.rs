//! With replicas that receive nothing.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Instant;

use distlock::{Durability, ErrorKind, Locks};
use distlock_testkit::cancel::poll_once;
use distlock_testkit::suites::{Recorder, eventually};
use distlock_testkit::{Flavor, Replicas, Server};
use tokio::time::timeout;

use crate::durability::kinds::{KINDS, Kind};
use crate::durability::{
    LONG, SOON, acknowledged, assert_not_durable, ms, scripts, with_acks, without_acks,
};

/// A process whose acquisitions one replica must acknowledge, and what it was told.
async fn watched_with_acks(set: &Replicas) -> (Locks, Arc<Recorder>) {
    let seen = Recorder::new();
    let builder = Locks::builder().url(set.primary.url()).watchdog(LONG).observer(seen.clone());
    (builder.durability(Durability::Acks(1)).connect().await.unwrap(), seen)
}

pub(crate) async fn every_kind_is_rolled_back_once(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let (locks, seen) = watched_with_acks(&set).await;
    let all_can_be_had = async || {
        for kind in KINDS {
            let name = format!("<{kind:?}");
            let taken = acknowledged(async || kind.take(&locks, &name, true).await).await;
            taken.expect("free").await.unwrap();
        }
    };
    // Connections, scripts and permits are there.
    all_can_be_had().await;
    set.freeze().await;
    for kind in KINDS {
        for must in [true, false] {
            let name = format!("<{kind:?}");
            let about = kind.one_of(&name);
            // Asked for again if the answer was late.
            let count = async || scripts(&set).await - seen.count(&about, "attempted") as u64;
            let before = count().await;
            let error = match kind.take(&locks, &name, must).await {
                Ok(_) => panic!("{name} was had without a replica"),
                Err(error) => error,
            };
            assert_not_durable(&error, 0, 1);
            assert!(error.lock_name().is_some_and(|about| about.starts_with(&name)), "{error}");
            // When the call is over so is the roll-back, and there is one: of several, one each.
            let steps = if kind == Kind::Multi { 2 } else { 1 };
            assert_eq!(count().await - before, steps, "{name}");
            let mut left = set.primary.keys(&format!("*{name}*")).await;
            left.retain(|key| !kind.may_stay(&name, key));
            assert_eq!(left, [""; 0], "{name}");
            assert!(kind.permits(&locks, &name).await.is_none_or(|left| left == 3), "{name}");
        }
    }
    set.thaw().await;
    all_can_be_had().await;
}

pub(crate) async fn a_re_entry_is_rolled_back_to_the_level_before(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let (locks, seen) = watched_with_acks(&set).await;
    let (me, mutex) = (locks.owner(), locks.mutex("k"));
    let deeper = async || acknowledged(async || mutex.lock().owner(&me).await).await;
    let outer = deeper().await;
    deeper().await.unlock().await.unwrap();
    set.freeze().await;
    let count = async || scripts(&set).await - seen.count("k", "attempted") as u64;
    let before = count().await;
    for _ in 0..2 {
        assert_not_durable(&mutex.lock().owner(&me).await.unwrap_err(), 0, 1);
        assert_not_durable(&mutex.try_lock().owner(&me).await.unwrap_err(), 0, 1);
    }
    assert_eq!(count().await - before, 4, "each once back, however often it was asked for");
    assert_eq!(mutex.hold_count(&me).await.unwrap(), 1);
    assert!(!outer.is_lost());
    set.thaw().await;
    let inner = deeper().await;
    assert_eq!(mutex.hold_count(&me).await.unwrap(), 2);
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(!set.primary.exists("k").await);
}

/// One who waits elsewhere and needs no replicas is woken by the roll-back, not by the end of a lease; in a fair queue too.
pub(crate) async fn a_waiter_elsewhere_gets_in(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let (locks, (other, seen)) =
        (with_acks(&set.primary.url(), 1).await, without_acks(&set.primary).await);
    for kind in [Kind::Mutex, Kind::Fair, Kind::Write, Kind::Semaphore] {
        let name = format!("<{kind:?}");
        set.freeze().await;
        let here = {
            let (locks, name) = (locks.clone(), name.clone());
            async move { kind.take(&locks, &name, true).await }
        };
        let taking = tokio::spawn(here);
        // The primary has it while replicas are waited for, which may be over before anybody looks.
        let there = || async {
            taking.is_finished() || !set.primary.keys(&format!("*{name}*")).await.is_empty()
        };
        eventually("it stands on the primary", there).await;
        let waiting = {
            let (other, name) = (other.clone(), name.clone());
            tokio::spawn(async move { kind.take(&other, &name, true).await?.expect("must").await })
        };
        let refused = timeout(SOON, taking).await.expect("told").unwrap();
        assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::NotDurable), "{name}");
        timeout(SOON, waiting).await.expect("let in").unwrap().unwrap();
        assert!(seen.count(&name, "acquired") > 0, "{name}");
        set.thaw().await;
    }
}

/// One who has waited in line and then gets it without a replica leaves the line, and lets the others in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_has_waited_is_rolled_back_too() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let (locks, seen) = watched_with_acks(&set).await;
    let (other, _) = without_acks(&set.primary).await;
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Read) {
        let name = format!("<{kind:?}");
        let held = kind.take(&other, &name, true).await.unwrap().expect("free");
        let scripts_before = scripts(&set).await;
        let taking = {
            let (locks, name) = (locks.clone(), name.clone());
            tokio::spawn(async move { kind.take(&locks, &name, true).await.map(drop) })
        };
        let about = kind.one_of(&name);
        // Every attempt that was sent has reached the server.
        let waits = || async {
            let asked = seen.count(&about, "attempted") as u64;
            asked >= 2 && scripts(&set).await >= scripts_before + asked
        };
        eventually(&format!("{name}: a caller waits"), waits).await;
        set.freeze().await;
        held.await.unwrap();
        let error = timeout(SOON, taking).await.expect("told").unwrap().unwrap_err();
        // Callers that poll may ask once more in between.
        if !matches!(kind, Kind::Multi | Kind::Spin | Kind::Simple) {
            // Counted from before the first attempt to after the last: a waiter may ask again at any time in between, and an attempt is
            // counted when it is sent, so that a count in between may miss its script.
            let asked = seen.count(&about, "attempted") as u64;
            let others = scripts(&set).await - scripts_before - asked;
            assert_eq!(others, 2, "{name}: a release there, a roll-back here");
        }
        assert_not_durable(&error, 0, 1);
        let mut left = set.primary.keys(&format!("*{name}*")).await;
        left.retain(|key| !kind.may_stay(&name, key));
        assert_eq!(left, [""; 0], "{name}");
        assert!(kind.permits(&locks, &name).await.is_none_or(|left| left == 3), "{name}");
        set.thaw().await;
    }
}

/// What waits in one process for one lock is told together, not one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_one_lock_are_told_together() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let (locks, seen) = watched_with_acks(&set).await;
    let (other, _) = without_acks(&set.primary).await;
    let held = other.mutex("k").lock().lease(LONG).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut one = locks.mutex("k").lock().lease(LONG).into_future();
        poll_once(&mut one).await;
        waiting.push(tokio::spawn(one));
    }
    eventually("they wait", || async { seen.count("k", "attempted") >= 2 }).await;
    set.freeze().await;
    let since = Instant::now();
    held.unlock().await.unwrap();
    for one in waiting {
        let error = timeout(SOON, one).await.expect("told").unwrap().unwrap_err();
        assert_not_durable(&error, 0, 1);
    }
    // One after the other would be ten seconds.
    assert!(since.elapsed() < ms(8000), "{:?}", since.elapsed());
    assert_eq!(seen.count("k", "not durable"), 1);
    assert!(!set.primary.exists("k").await);
}

/// A lease that ends while replicas are waited for is over, although they acknowledge it then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_over_before_replicas_have_it_is_not_handed_out() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    let held = acknowledged(async || locks.mutex("k").lock().await).await;
    held.unlock().await.unwrap();
    set.replica().stop();
    let before = scripts(&set).await;
    let taking = tokio::spawn(locks.mutex("k").lock().lease(ms(100)).into_future());
    eventually("it was had", || async { scripts(&set).await > before }).await;
    eventually("and is over", || async { !set.primary.exists("k").await }).await;
    set.replica().cont();
    let error = timeout(SOON, taking).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(!set.primary.exists("k").await);
}

#[tokio::test]
async fn no_replica_at_all_and_too_few() {
    let alone = Server::redis().await;
    let locks = with_acks(&alone.url(), 1).await;
    assert_not_durable(&locks.mutex("k").lock().await.unwrap_err(), 0, 1);
    assert_eq!(alone.keys("*").await, [""; 0]);
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 2).await;
    // The one that is there has half a second.
    eventually("it is counted", || async {
        let error = locks.mutex("k").try_lock().await.unwrap_err();
        error.kind() == ErrorKind::NotDurable && error.to_string().contains("1 of 2 replicas")
    })
    .await;
    assert_eq!(set.primary.keys("*").await, [""; 0]);
}

/// Busy is busy: nobody waits for replicas to hear that.
#[tokio::test]
async fn whoever_finds_it_busy_needs_no_replica() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let (locks, (other, _)) =
        (with_acks(&set.primary.url(), 1).await, without_acks(&set.primary).await);
    let held = other.mutex("k").lock().await.unwrap();
    set.freeze().await;
    set.primary.reset_stats().await;
    for _ in 0..20 {
        assert!(locks.mutex("k").try_lock().await.unwrap().is_none());
    }
    assert!(set.primary.calls("wait").await <= 1, "none after one has come back short");
    held.unlock().await.unwrap();
}
