//! The numbers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::FenceGate;
use tokio::task::JoinSet;

use crate::suites::{Ground, Section};

const HOUR: Duration = Duration::from_secs(3600);

/// Redisson: testTokenIncrease: across every way to acquire. There 1, 2, 3, 4, 5; here higher each time.
pub async fn tokens_only_rise(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let mut last = 0;
    let mut higher = |token: u64| {
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    for locks in [&here, &elsewhere, &here] {
        let lock = locks.fenced(&name);
        let guard = lock.lock().await.expect("it is free");
        higher(guard.token());
        guard.unlock().await.expect("it was held");
        let guard = lock.lock().lease(HOUR).await.expect("it is free");
        higher(guard.token());
        drop(guard);
        let guard = lock.try_lock().await.expect("the store answers").expect("it is free");
        higher(guard.token());
        assert!(lock.try_lock().await.expect("the store answers").is_none());
        lock.force_unlock().await.expect("the store answers");
        let short = lock.try_lock().lease(Duration::from_secs(1)).await;
        let short = short.expect("the store answers").expect("it is free");
        higher(short.token());
        short.lost().await;
        let next = lock.lock().lease(HOUR).await.expect("its lease ended");
        higher(next.token());
        drop(guard);
        next.unlock().await.expect("it was held");
    }
}

/// Redisson: a re-entry takes a number too.
pub async fn a_re_entry_has_a_higher_token(ground: Ground) {
    let locks = ground.open().await;
    let lock = locks.fenced(ground.name("k"));
    let me = locks.owner();
    let outer = lock.lock().owner(&me).await.expect("it is free");
    let first = outer.token();
    let inner = lock.lock().owner(&me).await.expect("it is mine");
    assert!(inner.token() > first, "{} after {first}", inner.token());
}

/// While an owner is inside, each of its guards can write, in any order: to a gate they are one.
pub async fn an_outer_guard_is_not_stale_after_an_inner_one(ground: Ground) {
    let locks = ground.open().await;
    let lock = locks.fenced(ground.name("k"));
    let (me, gate) = (locks.owner(), FenceGate::new());
    let outer = lock.lock().owner(&me).await.expect("it is free");
    gate.admit(outer.token()).expect("it is held");
    let inner = lock.lock().owner(&me).await.expect("it is mine");
    gate.admit(inner.token()).expect("it is held");
    gate.admit(outer.token()).expect("it is held, and nobody else was in between");
    inner.unlock().await.expect("it was held");
    gate.admit(outer.token()).expect("it is held");
}

/// A mutex of the same name is the same lock without numbers; whoever goes on from there with a fenced one gets one.
pub async fn a_fenced_hold_inside_a_mutexs_has_a_token(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let before = here.fenced(&name).lock().await.expect("it is free");
    let last = before.token();
    assert!(elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_none());
    before.unlock().await.expect("it was held");
    let me = here.owner();
    let plain = here.mutex(&name).lock().owner(&me).await.expect("it is free");
    assert!(elsewhere.fenced(&name).try_lock().await.expect("the store answers").is_none());
    let inner = here.fenced(&name).lock().owner(&me).await.expect("it is mine");
    assert!(inner.token() > last, "{} after {last}", inner.token());
    inner.unlock().await.expect("it was held");
    plain.unlock().await.expect("it was held");
}

/// Whoever comes in later has the higher number, from whichever process, by whichever way.
pub async fn tokens_are_in_the_order_of_the_holds(ground: Ground) {
    let rounds = ground.crowd(60);
    let (section, order) = (Section::new(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let locks = ground.open().await;
        for task in 0..3 {
            let (lock, section) = (locks.fenced(ground.name("k")), section.clone());
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                for round in 0..rounds {
                    let guard = match (process + task + round) % 3 {
                        0 => lock.try_lock().await.expect("the store answers"),
                        1 => Some(lock.lock().await.expect("it gets free")),
                        _ => Some(lock.lock().lease(HOUR).await.expect("it gets free")),
                    };
                    let Some(guard) = guard else { continue };
                    section.enter();
                    order.lock().expect("no panic").push(guard.token());
                    tokio::task::yield_now().await;
                    section.leave();
                    match round % 2 {
                        0 => drop(guard),
                        _ => guard.unlock().await.expect("it was held"),
                    }
                }
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    let order = order.lock().expect("no panic");
    assert_eq!(order.len() as u64, section.entries());
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
}

/// On a server: tokens go on rising when the counter is deleted, and Redisson counts on from them.
pub async fn tokens_survive_the_loss_of_the_counter(ground: Ground) {
    let Some(server) = ground.server() else { return };
    let locks = ground.open().await;
    let name = ground.name("k");
    let counter = format!("redisson_lock_token:{{{name}}}");
    let mut last = 0;
    for _ in 0..10 {
        let guard = locks.fenced(&name).lock().await.expect("it is free");
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        guard.unlock().await.expect("it was held");
        assert_eq!(server.ask::<u64>(&["GET", &counter]).await, last);
        assert_eq!(server.pttl(&counter).await, -1);
        // A counter that ran ahead of the clock: the clock has to catch up before it can stand in.
        tokio::time::sleep(Duration::from_millis(3)).await;
        server.cli(&["DEL", &counter]).await;
    }
    let guard = locks.fenced(&name).lock().await.expect("it is free");
    let java: u64 = server.ask(&["INCR", &counter]).await;
    assert!(java > guard.token());
    guard.unlock().await.expect("it was held");
    assert!(locks.fenced(&name).lock().await.expect("it is free").token() > java);
}
