//! What a majority promises.

use std::future::IntoFuture;
use std::sync::Arc;

use distlock::{ErrorKind, RedLock, State};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{HOUR, Nodes, Process, ms, secs};
use crate::suites::times::STEADY;
use crate::suites::{Section, eventually};

/// A hold stands at every node that can be asked, under one owner, and nowhere after the release.
pub async fn a_hold_stands_at_every_node(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    for _ in 0..3 {
        let guard = here.lock.lock().lease(secs(20)).await.expect("it is free");
        assert_eq!(guard.state(), State::Held);
        assert!(guard.remaining() < secs(20), "clocks may differ");
        // The last ones may answer after the majority has.
        let everywhere = || async { elsewhere.known(guard.owner()).await == nodes.size() };
        eventually("it stands at every node", everywhere).await;
        let seen = elsewhere.lock.holder().await.expect("the stores answer").expect("it is held");
        assert_eq!(seen.owner, guard.stay().to_string());
        let owner = *guard.owner();
        guard.unlock().await.expect("it was held");
        let nowhere = || async { elsewhere.known(&owner).await == 0 };
        eventually("it stands nowhere", nowhere).await;
    }
}

/// One at a time, and whoever is refused is told who is in the way.
pub async fn a_held_lock_refuses_everybody_else(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let guard = here.lock.lock().lease(HOUR).await.expect("it is free");
    for process in [&here, &elsewhere] {
        assert!(process.lock.try_lock().await.expect("the stores answer").is_none());
        assert!(process.lock.is_locked().await.expect("the stores answer"));
        let error = process.lock.lock().wait(ms(60)).await.expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::WaitTimeout);
        assert!(error.to_string().contains(&guard.stay().to_string()), "{error}");
    }
    assert!(!guard.is_lost());
    guard.unlock().await.expect("it was held");
    // A majority has let go; the last one may be about to, and with it what was just refused there.
    let next = elsewhere.lock.try_lock().wait(secs(10)).await.expect("the stores answer");
    next.expect("it is free").unlock().await.expect("it was held");
}

/// A release wakes those who wait, here and elsewhere: they do not wait for the time to live.
pub async fn a_waiter_gets_in_when_the_holder_lets_go(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    for round in 0..6 {
        let waiting = if round % 2 == 0 { &elsewhere } else { &here };
        let guard = here.lock.lock().lease(HOUR).await.expect("it is free");
        let waiter = tokio::spawn(waiting.lock.lock().into_future());
        tokio::time::sleep(ms(15 * round)).await;
        assert!(!waiter.is_finished(), "somebody came in beside the holder");
        let since = Instant::now();
        guard.unlock().await.expect("it was held");
        let next = timeout(nodes.slack() + secs(4), waiter).await.expect("it is woken");
        let next = next.expect("no panic").expect("it is free now");
        next.unlock().await.expect("it was held");
        assert!(since.elapsed() < nodes.slack() + secs(4), "after {:?}", since.elapsed());
    }
}

/// An owner goes in again, and is out when it has left as often; also by a handle that names the nodes in another order.
pub async fn the_same_owner_enters_again(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let me = here.nodes[0].owner();
    let mut turned = here.nodes.clone();
    turned.reverse();
    let turned = RedLock::new(&here.name, &turned);
    let outer = here.lock.lock().owner(&me).lease(HOUR).await.expect("it is free");
    let again = turned.lock().owner(&me).lease(ms(100)).into_future();
    let inner = timeout(secs(10), again).await.expect("it does not wait for itself");
    let inner = inner.expect("it is mine");
    assert_eq!(elsewhere.lock.hold_count(outer.stay()).await.expect("the stores answer"), 2);
    inner.unlock().await.expect("it was held");
    tokio::time::sleep(ms(200)).await;
    assert!(!outer.is_lost());
    assert!(elsewhere.lock.try_lock().await.expect("the stores answer").is_none());
    outer.unlock().await.expect("it was held");
    assert!(!elsewhere.lock.is_locked().await.expect("the stores answer"));
}

/// At the end of its lease a holder learns of it before anybody else gets in.
pub async fn a_lease_ends(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let guard = Arc::new(here.lock.lock().lease(ms(400)).await.expect("it is free"));
    let (waiting, before) = (elsewhere.lock.lock().into_future(), guard.clone());
    let waiter = tokio::spawn(async move {
        let next = waiting.await.expect("it gets free");
        assert!(before.is_lost(), "somebody came in before the holder knew");
        next
    });
    timeout(ms(400) + nodes.slack(), guard.lost()).await.expect("the lease ends");
    let next = timeout(secs(2) + nodes.slack(), waiter).await.expect("it is free");
    let next = next.expect("no panic");
    let guard = Arc::into_inner(guard).expect("the waiter is done with it");
    assert_eq!(guard.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    next.unlock().await.expect("it was held");
}

/// Without a lease the watchdog keeps it everywhere.
pub async fn the_watchdog_keeps_it(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process_with_watchdog(STEADY).await, nodes.process().await);
    let guard = here.lock.lock().await.expect("it is free");
    let since = Instant::now();
    // For longer than the watchdog's timeout.
    while since.elapsed() < STEADY * 7 / 6 {
        assert!(elsewhere.lock.is_locked().await.expect("the stores answer"));
        tokio::time::sleep(ms(100)).await;
    }
    // One that had lost it gets it back with a renewal.
    let everywhere = || async { elsewhere.known(guard.owner()).await == nodes.size() };
    eventually("it stands at every node", everywhere).await;
    guard.extend(HOUR).await.expect("it is held");
    let left = elsewhere.lock.ttl().await.expect("the stores answer").expect("it is held");
    assert!(left > HOUR / 2, "{left:?} left");
    guard.unlock().await.expect("it was held");
}

/// Force frees every node, and tells a holder of this process.
pub async fn force_frees_every_node(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let guard = here.lock.lock().lease(HOUR).await.expect("it is free");
    // A majority is enough to hold it; the others may still be on their way, and would come after the force.
    let everywhere = async || elsewhere.known(guard.owner()).await == nodes.size();
    eventually("it stands at every node", everywhere).await;
    assert!(here.lock.force_unlock().await.expect("the stores answer"));
    timeout(secs(5), guard.lost()).await.expect("it is told");
    assert_eq!(elsewhere.known(guard.owner()).await, 0);
    assert!(!here.lock.force_unlock().await.expect("the stores answer"), "nothing to free");
    let next = elsewhere.lock.try_lock().await.expect("the stores answer").expect("it is free");
    assert_eq!(guard.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    next.unlock().await.expect("it was held");
}

/// Closing one of the nodes closes the whole: waits end, and what is held is released everywhere.
pub async fn closing_a_node_closes_the_majority(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let guard = here.lock.lock().lease(HOUR).await.expect("it is free");
    let waiter = tokio::spawn(here.lock.lock().into_future());
    tokio::task::yield_now().await;
    here.nodes[nodes.size() - 1].close().await;
    assert_eq!(elsewhere.known(guard.owner()).await, 0, "it is told before closing ends");
    assert!(guard.is_lost());
    let ended = timeout(secs(10), waiter).await.expect("the wait ends").expect("no panic");
    assert_eq!(ended.expect_err("it is closed").kind(), ErrorKind::Closed);
    let error = here.lock.try_lock().await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    let other = elsewhere.lock.try_lock().await.expect("the stores answer");
    other.expect("it is free").unlock().await.expect("it was held");
}

/// A minority that somebody else holds does not matter; a majority does, and is waited for.
pub async fn a_minority_in_other_hands_does_not_matter(nodes: Nodes) {
    let (here, elsewhere) = (nodes.process().await, nodes.process().await);
    let minority = (nodes.size() - 1) / 2;
    let mut taken = Vec::new();
    for node in 0..minority {
        taken.push(elsewhere.at(node).lock().lease(HOUR).await.expect("it is free"));
    }
    let guard = here.lock.lock().lease(HOUR).await.expect("a majority is free");
    assert!(!guard.is_lost());
    guard.unlock().await.expect("it was held");
    taken.push(elsewhere.at(minority).lock().lease(HOUR).await.expect("it is free"));
    if nodes.size() % 2 == 1 {
        assert!(here.lock.try_lock().await.expect("the stores answer").is_none());
        let waiter = tokio::spawn(here.lock.lock().into_future());
        tokio::time::sleep(ms(50)).await;
        assert!(!waiter.is_finished(), "a minority was enough");
        taken.pop().expect("one of them").unlock().await.expect("it was held");
        let guard = timeout(secs(4) + nodes.slack(), waiter).await.expect("it is woken");
        guard.expect("no panic").expect("a majority is free").unlock().await.expect("held");
    }
    for other in taken {
        other.unlock().await.expect("it was held");
    }
}

async fn visit(process: Process, section: Arc<Section>, rounds: usize) {
    for _ in 0..rounds {
        let guard = process.lock.lock().await.expect("it gets free");
        section.visit().await;
        guard.unlock().await.expect("it was held");
    }
}

/// Tasks of several processes never meet, and all get in.
pub async fn a_crowd_never_meets(nodes: Nodes) {
    let section = Section::new();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let process = nodes.process().await;
        for _ in 0..3 {
            tasks.spawn(visit(process.clone(), section.clone(), 4));
        }
    }
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(secs(180), every).await.expect("everybody gets in within three minutes");
    assert_eq!(section.entries(), 36);
}
