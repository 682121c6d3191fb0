//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::time::Duration;

use distlock::Locks;

use crate::Server;

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
    assert_eq!(hash.into_iter().collect::<Vec<_>>(), [(guard.owner().to_string(), "1".to_owned())]);
    assert!(server.pttl("k").await > 3_500_000);
    let token: u64 = server.ask(&["GET", "redisson_lock_token:{k}"]).await;
    assert_eq!(token, guard.token());
    guard.unlock().await.expect("it was held");
    assert_eq!(server.keys("*").await, ["redisson_lock_token:{k}"]);
    assert_eq!(server.pttl("redisson_lock_token:{k}").await, -1);
}
