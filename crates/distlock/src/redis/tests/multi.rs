//! What several locks that are taken together leave on the server.

use std::collections::HashMap;
use std::time::Duration;

use distlock_testkit::{Flavor, Server as RealServer};

use super::server::{Server, claim, connect, owner};
use crate::store::{Attempt, AttemptAll, Claim, ClaimKind, Grant, Released, Store};
use crate::{ErrorKind, Owner};

fn claims(names: &[&str], owner: Owner) -> Vec<Claim> {
    names.iter().map(|name| claim(name, owner, 1)).collect()
}

fn fenced(claim: Claim) -> Claim {
    Claim { kind: ClaimKind::Fenced, ..claim }
}

fn plain(count: usize) -> AttemptAll {
    AttemptAll::Acquired(vec![Grant::new(Duration::from_secs(30)); count])
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn all_are_taken_or_none_on_every_server() {
    for flavor in Flavor::installed() {
        let server = RealServer::builder(flavor).start().await;
        let store = connect(&server.url()).await.unwrap();
        let (me, other) = (owner(), owner());
        let wanted = claims(&["a", "b", "c"], me);
        // Twice: the first answer may have been lost.
        for _ in 0..2 {
            assert_eq!(store.acquire_all(&wanted).await.unwrap(), plain(3), "{flavor:?}");
            assert_eq!(server.keys("*").await, ["a", "b", "c"], "{flavor:?}");
            for key in ["a", "b", "c"] {
                let fields = server.hgetall(key).await;
                assert_eq!(fields.into_iter().collect::<Vec<_>>(), [(me.to_string(), "1".into())]);
                assert!((20_000..=30_000).contains(&server.pttl(key).await), "{flavor:?}");
            }
        }
        // Each is a lock of its own: it is renewed, refused and released as any other.
        assert!(
            store.renew(&wanted).await.into_iter().all(|renewed| renewed.unwrap().is_held()),
            "{flavor:?}"
        );
        let busy = store.acquire(&claim("b", other, 1)).await.unwrap();
        assert!(matches!(busy, Attempt::Busy { .. }), "{flavor:?}");
        for name in ["a", "c"] {
            let freed = store.release(&claim(name, me, 0)).await.unwrap();
            assert_eq!(freed, Released::Freed { heard_by: 0 });
        }
        // One in the way is enough, wherever it stands.
        for (names, at) in [(["a", "b", "c"], 1), (["b", "c", "d"], 0), (["a", "aa", "b"], 2)] {
            match store.acquire_all(&claims(&names, other)).await.unwrap() {
                AttemptAll::Busy { at: busy, ttl } => {
                    assert_eq!(busy, at, "{flavor:?}");
                    assert!(ttl > Duration::from_secs(20), "{flavor:?}: {ttl:?}");
                }
                taken => panic!("{flavor:?}: {taken:?}"),
            }
            assert_eq!(server.keys("*").await, ["b"], "{flavor:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn fenced_ones_get_tokens_as_they_do_alone() {
    for flavor in Flavor::installed() {
        let server = RealServer::builder(flavor).start().await;
        let store = connect(&server.url()).await.unwrap();
        let me = owner();
        let wanted = [fenced(claim("a", me, 1)), claim("b", me, 1), fenced(claim("x{t}c", me, 1))];
        let mut last = [0; 2];
        for _ in 0..3 {
            let AttemptAll::Acquired(grants) = store.acquire_all(&wanted).await.unwrap() else {
                panic!("{flavor:?}: they are free, or mine");
            };
            let tokens: Vec<Option<u64>> = grants.iter().map(|grant| grant.token).collect();
            let [Some(a), None, Some(c)] = tokens[..] else { panic!("{flavor:?}: {tokens:?}") };
            assert!(a > last[0] && c > last[1], "{flavor:?}: {tokens:?} after {last:?}");
            last = [a, c];
            // They count on from each other, together and alone.
            match store.acquire(&wanted[0]).await.unwrap() {
                Attempt::Acquired { token: Some(alone), .. } => assert!(alone > a, "{flavor:?}"),
                other => panic!("{flavor:?}: {other:?}"),
            }
        }
        let counters = server.keys("redisson_lock_token:*").await;
        assert_eq!(
            counters,
            ["redisson_lock_token:x{t}c", "redisson_lock_token:{a}"],
            "{flavor:?}"
        );
        // None is counted if one is busy.
        let before: String = server.ask(&["GET", "redisson_lock_token:{a}"]).await;
        let theirs = claims(&["a", "b"], owner()).into_iter().map(fenced).collect::<Vec<_>>();
        assert!(matches!(
            store.acquire_all(&theirs).await.unwrap(),
            AttemptAll::Busy { at: 0, .. }
        ));
        let after: String = server.ask(&["GET", "redisson_lock_token:{a}"]).await;
        assert_eq!(before, after, "{flavor:?}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_lock_is_a_conflict_found_before_anything_is_written() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET text x PX 60000").await;
    raw.run::<()>("HSET data x 1").await;
    raw.run::<()>("SET redisson_lock_token:{odd} x").await;
    let before: Vec<String> = raw.run("KEYS *").await;
    for (first, bad) in [("a", "text"), ("a", "data"), ("z", "text"), ("z", "data")] {
        let mut wanted = claims(&[first, bad], owner());
        wanted.sort_by(|a, b| a.name.cmp(&b.name));
        let error = store.acquire_all(&wanted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{bad}: {error}");
    }
    let me = owner();
    let error = store.acquire_all(&[claim("a", me, 1), fenced(claim("odd", me, 1))]).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    let mut after: Vec<String> = raw.run("KEYS *").await;
    let mut before = before;
    before.sort();
    after.sort();
    assert_eq!(before, after);
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
        let me = owner();
        let wanted = [claim("a", me, 1), fenced(claim("b", me, 1)), claim("c", me, 1)];
        let error = store.acquire_all(&wanted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{user}: {error}");
        for name in ["a", "b", "c"] {
            assert!(!raw.run::<bool>(&format!("EXISTS {name}")).await, "{user}: {name}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_takes_none() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    let me = owner();
    for wanted in [claims(&["a", "b"], me), vec![claim("a", me, 1), fenced(claim("b", me, 1))]] {
        let error = store.acquire_all(&wanted).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_one_script_cannot_take_is_taken_apart() {
    let server = Server::start().await;
    let store = server.store().await;
    let me = owner();
    let longer = Claim { lease: Duration::from_secs(60), ..claim("b", me, 1) };
    let simple = Claim { kind: ClaimKind::Simple, ..claim("b", me, 1) };
    for other in [longer, simple] {
        let answer = store.acquire_all(&[claim("a", me, 1), other]).await.unwrap();
        assert_eq!(answer, AttemptAll::NotAtomic);
    }
    assert_eq!(store.acquire_all(&[]).await.unwrap(), AttemptAll::NotAtomic);
}

/// A hundred at once is one command that the server runs in well under a second; each has its owner and its time.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_hundred_are_taken_at_once() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let names: Vec<String> = (0..100).map(|n| format!("lock:{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let me = owner();
    assert_eq!(store.acquire_all(&claims(&names, me)).await.unwrap(), plain(100));
    assert_eq!(raw.run::<usize>("DBSIZE").await, 100);
    let fields: HashMap<String, u32> = raw.run("HGETALL lock:099").await;
    assert_eq!(fields, HashMap::from([(me.to_string(), 1)]));
}
