//! What a fenced lock and a fence leave on the server.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::server::{Server, claim as exclusive, connect, owner};
use crate::store::{Admin, Attempt, Claim, ClaimKind, Released, Store};
use crate::{ErrorKind, Owner, Result};

fn claim(name: &str, owner: Owner, depth: u32) -> Claim {
    Claim { kind: ClaimKind::Fenced, ..exclusive(name, owner, depth) }
}

async fn token(store: &dyn Store, claim: &Claim) -> u64 {
    match store.acquire(claim).await.unwrap() {
        Attempt::Acquired { token: Some(token), .. } => token,
        other => panic!("{other:?}"),
    }
}

async fn admit(store: &dyn Store, token: u64) -> Result<i64> {
    store.admin("k", &Admin::Fence { token }).await
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_hash_is_a_mutexs_and_the_counter_is_redissons() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let before = now();
    let mut last = 0;
    for depth in [1, 1, 2, 3] {
        let next = token(&*store, &claim("k", me, depth)).await;
        assert!(next > last && next >= before, "{next} after {last}");
        let fields: HashMap<String, u32> = raw.run("HGETALL k").await;
        assert_eq!(fields, HashMap::from([(me.to_string(), depth)]));
        assert_eq!(raw.run::<u64>("GET redisson_lock_token:{k}").await, next);
        assert!((20_000..=30_000).contains(&raw.run::<i64>("PTTL k").await));
        last = next;
    }
    let busy = store.acquire(&claim("k", owner(), 1)).await.unwrap();
    assert!(matches!(busy, Attempt::Busy { ttl } if ttl > Duration::from_secs(20)), "{busy:?}");
    assert_eq!(store.release(&claim("k", me, 1)).await.unwrap(), Released::StillHeld);
    let freed = Released::Freed { heard_by: 0 };
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), freed);
    // The counter outlives the lock, and has no time to live: Redisson would start again at 1.
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["redisson_lock_token:{k}"]);
    assert_eq!(raw.run::<i64>("PTTL redisson_lock_token:{k}").await, -1);
    assert_eq!(raw.run::<u64>("GET redisson_lock_token:{k}").await, last);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_refused_acquisition_costs_no_token() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let last = token(&*store, &claim("k", owner(), 1)).await;
    for refused in [claim("k", owner(), 1), claim("k", owner(), 2)] {
        assert!(matches!(store.acquire(&refused).await.unwrap(), Attempt::Busy { .. }));
    }
    assert_eq!(raw.run::<u64>("GET redisson_lock_token:{k}").await, last);
    // Nor does one of a lock that is gone.
    let gone = store.acquire(&claim("other", owner(), 2)).await.unwrap();
    assert_eq!(gone, Attempt::Busy { ttl: Duration::ZERO });
    assert_eq!(raw.run::<Vec<String>>("KEYS *other*").await, Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn tokens_go_on_rising_when_the_counter_is_lost() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut last = 0;
    for loss in ["DEL redisson_lock_token:{k}", "FLUSHALL", "SET redisson_lock_token:{k} 3"] {
        for _ in 0..50 {
            let me = owner();
            let next = token(&*store, &claim("k", me, 1)).await;
            assert!(next > last, "{next} after {last}");
            last = next;
            store.release(&claim("k", me, 0)).await.unwrap();
        }
        // Fifty in fewer milliseconds than that: the counter ran ahead of the clock, which has to catch up.
        while now() <= last {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        raw.run::<()>(loss).await;
    }
    assert!(token(&*store, &claim("k", owner(), 1)).await > last);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_counter_that_is_ahead_of_the_clock_counts_on_and_redisson_counts_on_from_it() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let ahead = now() + 3_600_000;
    raw.run::<()>(&format!("SET redisson_lock_token:{{k}} {ahead}")).await;
    assert_eq!(token(&*store, &claim("k", me, 1)).await, ahead + 1);
    assert_eq!(raw.run::<u64>("INCR redisson_lock_token:{k}").await, ahead + 2);
    assert_eq!(token(&*store, &claim("k", me, 1)).await, ahead + 3);

    // As far as Lua's numbers go, and not beyond.
    let edge = (1_u64 << 53) - 2;
    raw.run::<()>(&format!("SET redisson_lock_token:{{k}} {edge}")).await;
    assert_eq!(token(&*store, &claim("k", me, 1)).await, edge + 1);
    let error = store.acquire(&claim("k", me, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(raw.run::<u64>("GET redisson_lock_token:{k}").await, edge + 1);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_counter_is_a_conflict_found_before_anything_is_written() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    for bad in ["SET redisson_lock_token:{k} x", "RPUSH redisson_lock_token:{k} x"] {
        raw.run::<()>("DEL redisson_lock_token:{k}").await;
        raw.run::<()>(bad).await;
        let error = store.acquire(&claim("k", owner(), 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(!raw.run::<bool>("EXISTS k").await);
    }
    raw.run::<()>("SET text x PX 60000").await;
    raw.run::<()>("HSET data x 1").await;
    for name in ["text", "data"] {
        let error = store.acquire(&claim(name, owner(), 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(!raw.run::<bool>(&format!("EXISTS redisson_lock_token:{{{name}}}")).await);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_mutex_of_the_same_name_excludes_and_takes_no_token() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let plain = store.acquire(&exclusive("k", me, 1)).await.unwrap();
    assert!(matches!(plain, Attempt::Acquired { token: None, .. }), "{plain:?}");
    assert!(!raw.run::<bool>("EXISTS redisson_lock_token:{k}").await);
    assert!(matches!(store.acquire(&claim("k", owner(), 1)).await.unwrap(), Attempt::Busy { .. }));
    token(&*store, &claim("k", me, 2)).await;
    assert_eq!(raw.run::<u32>(&format!("HGET k {me}")).await, 2);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_a_user_may_not_do_leaves_no_lock() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = "+hello +evalsha +script|load +pttl +hset +hdel +hexists +get +time ~*";
    raw.run::<()>(&format!("ACL SETUSER countless on >word -@all {can} +pexpire")).await;
    raw.run::<()>(&format!("ACL SETUSER brief on >word -@all {can} +set")).await;
    for user in ["countless", "brief"] {
        let url = format!("redis://{user}:word@127.0.0.1:{}", server.port());
        let store = connect(&url).await.unwrap();
        let error = store.acquire(&claim("k", owner(), 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{user}: {error}");
        assert!(!raw.run::<bool>("EXISTS k").await, "{user}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_stops_acquiring_but_nothing_else() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let first = token(&*store, &claim("k", me, 1)).await;
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    for refused in [claim("new", owner(), 1), claim("k", me, 2)] {
        let error = store.acquire(&refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(!raw.run::<bool>("EXISTS new").await);
    assert_eq!(raw.run::<u32>(&format!("HGET k {me}")).await, 1);
    assert_eq!(raw.run::<u64>("GET redisson_lock_token:{k}").await, first);
    assert!(store.renew(&[claim("k", me, 1)]).await.remove(0).unwrap().is_held());
    let freed = Released::Freed { heard_by: 0 };
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), freed);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_fence_keeps_the_highest_token_and_says_it() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    assert_eq!(admit(&*store, 9).await.unwrap(), 1);
    assert_eq!(admit(&*store, 10).await.unwrap(), 1);
    assert_eq!(admit(&*store, 9).await.unwrap(), -10);
    assert_eq!(admit(&*store, 10).await.unwrap(), 1);
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["distlock_fence:{k}"]);
    assert_eq!(raw.run::<u64>("GET distlock_fence:{k}").await, 10);

    assert_eq!(admit(&*store, u64::MAX).await.unwrap(), 1);
    assert_eq!(admit(&*store, u64::MAX - 1).await.unwrap(), -(1 << 53));
    assert_eq!(raw.run::<u64>("GET distlock_fence:{k}").await, u64::MAX);

    assert_eq!(store.admin("k", &Admin::FenceForget).await.unwrap(), 1);
    assert_eq!(store.admin("k", &Admin::FenceForget).await.unwrap(), 0);
    assert_eq!(admit(&*store, 1).await.unwrap(), 1);

    for bad in ["SET distlock_fence:{k} x", "SADD distlock_fence:{k} x"] {
        raw.run::<()>("DEL distlock_fence:{k}").await;
        raw.run::<()>(bad).await;
        let error = admit(&*store, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
}
