//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::time::Duration;

use distlock::{ErrorKind, Locks};

use crate::{Match, Proxy, Server};

crate::suites::exclusive::exclusive_server!(fenced);

/// One round trip in, one out, and Redisson's keys: the hash of a mutex and a counter without a time to live.
pub async fn an_uncontended_lock_costs_two_commands(server: Server) {
    let locks = Locks::connect(&server.url()).await.expect("the server answers");
    let lock = locks.fenced("k");
    lock.lock().await.expect("it is free").unlock().await.expect("it was held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        lock.lock().await.expect("it is free").unlock().await.expect("it was held");
    }
    assert_eq!(server.calls("evalsha").await, 20);
    for command in ["eval", "subscribe", "script|load", "hello"] {
        assert_eq!(server.calls(command).await, 0, "{command}");
    }
    let guard = lock.lock().lease(Duration::from_secs(3600)).await.expect("it is free");
    let hash = server.hgetall("k").await;
    assert_eq!(hash.into_iter().collect::<Vec<_>>(), [(guard.stay().to_string(), "1".to_owned())]);
    assert!(server.pttl("k").await > 3_500_000);
    let token: u64 = server.ask(&["GET", "redisson_lock_token:{k}"]).await;
    assert_eq!(token, guard.token());
    guard.unlock().await.expect("it was held");
    assert_eq!(server.keys("*").await, ["redisson_lock_token:{k}"]);
    assert_eq!(server.pttl("redisson_lock_token:{k}").await, -1);
}

/// A lost answer costs a number and nothing else: the guard has the newest, and nothing is held twice.
pub async fn a_lost_answer_costs_a_number_and_nothing_else(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let locks = Locks::connect(&proxy.url()).await.expect("the server answers");
    let lock = locks.fenced("k");
    let first = lock.lock().await.expect("it is free");
    let before = first.token();
    first.unlock().await.expect("it was held");
    let swallowed = proxy.swallow_replies_to(Match::token("redisson_lock_token:{k}"), 1);
    let guard = lock.lock().await.expect("it asks again");
    assert_eq!(swallowed.hits(), 1);
    let counter: u64 = server.ask(&["GET", "redisson_lock_token:{k}"]).await;
    assert_eq!(guard.token(), counter);
    assert!(counter > before + 1, "{counter} after {before}");
    guard.unlock().await.expect("it was held");
    assert!(!server.exists("k").await);
}

/// A gate whose answer is lost is asked again: showing a token twice is showing it once.
pub async fn a_gate_is_asked_again_when_its_answer_is_lost(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let locks = Locks::connect(&proxy.url()).await.expect("the server answers");
    let gate = locks.fence_gate("k");
    gate.admit(7).await.expect("the first");
    for (token, passes) in [(8, true), (7, false)] {
        let swallowed = proxy.swallow_replies_to(Match::token("distlock_fence:{k}"), 1);
        let admitted = gate.admit(token).await;
        assert_eq!(swallowed.hits(), 1);
        assert_eq!(admitted.is_ok(), passes, "{admitted:?}");
        if let Err(stale) = admitted {
            assert_eq!(stale.kind(), ErrorKind::Lost, "{stale}");
        }
    }
    assert_eq!(server.ask::<u64>(&["GET", "distlock_fence:{k}"]).await, 8);
}
