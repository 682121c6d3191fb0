//! What the scripts of a fair lock leave on the server.

use std::collections::HashMap;
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};

use super::server::{Raw, Server, claim, connect, owner, patient, promptly};
use crate::store::{Attempt, Claim, ClaimKind, Released, Store};
use crate::{ErrorKind, Owner};

const PATIENCE: Duration = Duration::from_secs(300);
const ACQUIRED: Attempt = Attempt::Acquired { token: None, lease: Duration::from_secs(30) };
const FREED_UNHEARD: Released = Released::Freed { heard_by: 0 };

fn waits(name: &str, owner: Owner) -> Claim {
    Claim { kind: ClaimKind::Fair { patience: Some(PATIENCE) }, ..claim(name, owner, 1) }
}

fn tries(name: &str, owner: Owner) -> Claim {
    Claim { kind: ClaimKind::Fair { patience: None }, ..claim(name, owner, 1) }
}

fn freed(name: &str, owner: Owner) -> Claim {
    Claim { depth: 0, ..waits(name, owner) }
}

fn is_busy(answer: &Attempt) -> bool {
    matches!(answer, Attempt::Busy { .. })
}

/// The queue in its order, and what is left of everybody's time in seconds: 1 for a grace at most, else rounded up to ten.
async fn queue(raw: &mut Raw, name: &str) -> Vec<(String, i64)> {
    let owners: Vec<String> = raw.run(&format!("LRANGE redisson_lock_queue:{{{name}}} 0 -1")).await;
    let scores: HashMap<String, f64> =
        raw.run(&format!("ZRANGE redisson_lock_timeout:{{{name}}} 0 -1 WITHSCORES")).await;
    let (secs, micros): (i64, i64) = raw.run("TIME").await;
    assert_eq!(owners.len(), scores.len());
    let left = |owner: &String| match scores[owner] - (secs * 1000 + micros / 1000) as f64 {
        grace if grace <= 1000.0 => 1,
        left => (left / 10_000.0).ceil() as i64 * 10,
    };
    owners.iter().map(|owner| (owner.clone(), left(owner))).collect()
}

fn places(list: &[(Owner, i64)]) -> Vec<(String, i64)> {
    list.iter().map(|(owner, left)| (owner.to_string(), *left)).collect()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_queue_is_a_list_and_a_sorted_set_as_redisson_keeps_them() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a, b) = (owner(), owner(), owner());
    assert_eq!(store.acquire(&waits("k", holder)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);
    for _ in 0..3 {
        for waiter in [a, b] {
            assert!(is_busy(&store.acquire(&waits("k", waiter)).await.unwrap()));
        }
    }
    assert_eq!(
        raw.run::<HashMap<String, u32>>("HGETALL k").await,
        [(holder.to_string(), 1)].into()
    );
    assert_eq!(queue(&mut raw, "k").await, places(&[(a, 330), (b, 630)]));
    for key in ["redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"] {
        assert_eq!(raw.run::<i64>(&format!("PTTL {key}")).await, -1);
    }
    let seen = store.inspect(tries("k", a).kind, "k").await.unwrap();
    assert_eq!((seen.depth_of(&holder), seen.queue), (1, vec![a.to_string(), b.to_string()]));

    store.acquire(&Claim { name: "x{t}y".into(), ..waits("k", holder) }).await.unwrap();
    store.acquire(&Claim { name: "x{t}y".into(), ..waits("k", a) }).await.unwrap();
    let mut keys: Vec<String> = raw.run("KEYS *x{t}y").await;
    keys.sort();
    assert_eq!(keys, ["redisson_lock_queue:x{t}y", "redisson_lock_timeout:x{t}y", "x{t}y"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_single_try_leaves_no_trace() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a) = (owner(), owner());
    assert_eq!(store.acquire(&tries("k", holder)).await.unwrap(), ACQUIRED);
    let Attempt::Busy { ttl } = store.acquire(&tries("k", a)).await.unwrap() else {
        panic!("two holders");
    };
    assert!(ttl > Duration::from_secs(20), "{ttl:?}");
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);
    assert_eq!(store.release(&freed("k", a)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&freed("k", holder)).await.unwrap(), FREED_UNHEARD);
    assert!(raw.run::<Vec<String>>("KEYS *").await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_release_calls_the_first_in_line_alone_with_redissons_message() {
    let server = Server::start().await;
    let store = server.store().await;
    let (holder, a, b) = (owner(), owner(), owner());
    for one in [holder, a, b] {
        store.acquire(&waits("k", one)).await.unwrap();
    }
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel::<PushInfo>();
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
    let config = patient().set_push_sender(sender);
    let mut ear = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    for waiter in [a, b] {
        ear.subscribe(format!("redisson_lock__channel:{{k}}:{waiter}")).await.unwrap();
    }
    ear.subscribe("redisson_lock__channel:{k}").await.unwrap();

    let freed_by = store.release(&freed("k", holder)).await.unwrap();
    assert_eq!(freed_by, Released::Freed { heard_by: 1 });
    let message = loop {
        let push = heard.recv().await.unwrap();
        if push.kind == PushKind::Message {
            break push.data;
        }
    };
    let text = |text: String| Value::BulkString(text.into_bytes());
    let channel = format!("redisson_lock__channel:{{k}}:{a}");
    assert_eq!(message, [text(channel), text("0".to_owned())]);
    // Whoever comes out of turn calls it once more, and then not again.
    for _ in 0..3 {
        assert!(is_busy(&store.acquire(&waits("k", b)).await.unwrap()));
    }
    assert_eq!(store.acquire(&waits("k", a)).await.unwrap(), ACQUIRED);
    let _: String = redis::cmd("PING").query_async(&mut ear).await.unwrap();
    let mut messages = 0;
    while let Ok(push) = heard.try_recv() {
        messages += u32::from(push.kind == PushKind::Message);
    }
    assert_eq!(messages, 1);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn who_becomes_first_in_line_behind_a_short_lease_is_told() {
    promptly(Duration::from_millis(500), first_behind_a_short_lease).await;
}

async fn first_behind_a_short_lease() {
    let server = Server::start().await;
    let store = server.store().await;
    let (holder, a, b) = (owner(), owner(), owner());
    let short = |owner| Claim { lease: Duration::from_secs(4), ..waits("k", owner) };
    for one in [holder, a, b] {
        store.acquire(&short(one)).await.unwrap();
    }
    let (soon, silence) = (Duration::from_secs(5), Duration::from_millis(100));
    let mut ears = Vec::new();
    for one in [a, b] {
        let mut ear = store.listen(&waits("k", one)).await.unwrap();
        // The subscription itself is called out, too, and may be heard a moment later.
        let _ = tokio::time::timeout(silence, ear.heard()).await;
        ears.push(ear);
    }
    let mut heard = async |index: usize, limit: Duration| {
        let ear: &mut crate::store::Listener = &mut ears[index];
        tokio::time::timeout(limit, ear.heard()).await.is_ok()
    };
    store.release(&freed("k", holder)).await.unwrap();
    assert!(heard(0, soon).await && !heard(1, silence).await);
    let shorter = Claim { lease: Duration::from_secs(1), ..waits("k", a) };
    let granted = Attempt::Acquired { token: None, lease: shorter.lease };
    assert_eq!(store.acquire(&shorter).await.unwrap(), granted);
    assert!(heard(1, soon).await);
    // It asks, and comes when the lease ends; the next comes later, unless that one leaves.
    let Attempt::Busy { ttl } = store.acquire(&short(b)).await.unwrap() else { panic!("two") };
    assert!(ttl <= Duration::from_secs(1), "{ttl:?}");
    let Attempt::Busy { ttl } = store.acquire(&short(holder)).await.unwrap() else { panic!("two") };
    assert_eq!(ttl, Duration::from_millis(1500));
    let mut ear = store.listen(&waits("k", holder)).await.unwrap();
    store.give_up(&waits("k", b)).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(5), ear.heard()).await.is_ok());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn leaving_twice_is_leaving_once_and_the_last_leaves_nothing() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a, b, c) = (owner(), owner(), owner(), owner());
    for one in [holder, a, b, c] {
        store.acquire(&waits("k", one)).await.unwrap();
    }
    for _ in 0..3 {
        store.give_up(&waits("k", b)).await.unwrap();
        assert_eq!(queue(&mut raw, "k").await, places(&[(a, 330), (c, 630)]));
    }
    // Who leaves because an answer was lost may have the lock.
    store.give_up(&waits("k", holder)).await.unwrap();
    assert!(!raw.run::<bool>("EXISTS k").await);
    store.give_up(&waits("k", a)).await.unwrap();
    store.give_up(&waits("k", c)).await.unwrap();
    assert!(raw.run::<Vec<String>>("KEYS *").await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn nobody_releases_what_it_does_not_hold() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a) = (owner(), owner());
    assert_eq!(store.release(&freed("k", a)).await.unwrap(), Released::NotHeld);
    store.acquire(&waits("k", holder)).await.unwrap();
    assert_eq!(store.release(&freed("k", a)).await.unwrap(), Released::NotHeld);
    // Redisson says that it did when the lock has expired. The one who waits is called all the same.
    store.acquire(&waits("k", a)).await.unwrap();
    let mut ear = store.listen(&waits("k", a)).await.unwrap();
    raw.run::<()>("DEL k").await;
    assert_eq!(store.release(&freed("k", holder)).await.unwrap(), Released::NotHeld);
    tokio::time::timeout(Duration::from_secs(5), ear.heard()).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_dead_share_one_grace_and_no_more_than_a_bounded_number_is_looked_at() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let holder = owner();
    store.acquire(&waits("k", holder)).await.unwrap();
    let dead: Vec<Owner> = (0..130).map(|_| owner()).collect();
    for one in &dead {
        store.acquire(&waits("k", *one)).await.unwrap();
    }
    store.release(&freed("k", holder)).await.unwrap();
    // Nobody is there who would have to wait for them.
    assert_eq!(queue(&mut raw, "k").await[0].1, 330);
    let Attempt::Busy { ttl } = store.acquire(&waits("k", owner())).await.unwrap() else {
        panic!("out of turn");
    };
    assert!(ttl <= Duration::from_secs(1), "{ttl:?}");
    let left: Vec<i64> = queue(&mut raw, "k").await.into_iter().map(|(_, left)| left).collect();
    assert_eq!(left[..2], [1, 630]);
    assert_eq!(left[129..], [39_030, 39_330]);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    store.acquire(&waits("k", owner())).await.unwrap();
    // The one, and as many as are looked at.
    let left: Vec<i64> = queue(&mut raw, "k").await.into_iter().map(|(_, left)| left).collect();
    assert_eq!(left, [1, 600, 900]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn strangers_traces_are_put_right() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a, b) = (owner(), owner(), owner());
    // A head without a time stops Redisson for good.
    raw.run::<()>("RPUSH redisson_lock_queue:{k} nobody").await;
    assert_eq!(store.acquire(&waits("k", holder)).await.unwrap(), ACQUIRED);
    assert_eq!(queue(&mut raw, "k").await, []);
    // A time without a place, because the queue was deleted: a new place.
    store.acquire(&waits("k", a)).await.unwrap();
    raw.run::<()>("DEL redisson_lock_queue:{k}").await;
    store.acquire(&waits("k", a)).await.unwrap();
    assert_eq!(queue(&mut raw, "k").await, places(&[(a, 330)]));
    // A place whose time a Java client has moved into the past: gone, unless the waiter itself asks first.
    store.acquire(&waits("k", b)).await.unwrap();
    raw.run::<()>(&format!("ZADD redisson_lock_timeout:{{k}} 1 {a} 1 {b}")).await;
    store.acquire(&waits("k", a)).await.unwrap();
    assert_eq!(queue(&mut raw, "k").await[0], places(&[(a, 300)])[0]);
    raw.run::<()>(&format!("ZADD redisson_lock_timeout:{{k}} 1 {a} 1 {b}")).await;
    assert!(is_busy(&store.acquire(&tries("k", owner())).await.unwrap()));
    assert_eq!(queue(&mut raw, "k").await, []);
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_queue_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let a = owner();
    raw.run::<()>("SET string x").await;
    raw.run::<()>("SET mortal x PX 60000").await;
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("SET redisson_lock_queue:{queue} x").await;
    raw.run::<()>("SET redisson_lock_timeout:{times} x").await;
    raw.run::<()>("RPUSH redisson_lock_queue:{times} x").await;
    let all: Vec<String> = raw.run("KEYS *").await;
    let mut before = HashMap::new();
    for key in &all {
        before.insert(key, raw.run::<Vec<u8>>(&format!("DUMP {key}")).await);
    }
    for name in ["string", "mortal", "hash", "queue", "times"] {
        let errors = [
            store.acquire(&waits(name, a)).await.unwrap_err(),
            store.acquire(&tries(name, a)).await.unwrap_err(),
            store.inspect(tries(name, a).kind, name).await.unwrap_err(),
            store.force(tries(name, a).kind, name).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{name}: {error}");
        }
    }
    let keys: Vec<String> = raw.run("KEYS *").await;
    assert_eq!(keys.len(), all.len());
    for key in &all {
        assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {key}")).await, before[key], "{key}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_stops_queueing_but_nothing_else() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (holder, a, b) = (owner(), owner(), owner());
    store.acquire(&waits("k", holder)).await.unwrap();
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    let error = store.acquire(&waits("k", a)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);
    raw.run::<()>("CONFIG SET maxmemory 0").await;
    store.acquire(&waits("k", a)).await.unwrap();
    store.acquire(&waits("k", b)).await.unwrap();
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    assert_eq!(store.release(&freed("k", holder)).await.unwrap(), FREED_UNHEARD);
    store.give_up(&waits("k", a)).await.unwrap();
    store.give_up(&waits("k", b)).await.unwrap();
    assert!(raw.run::<Vec<String>>("KEYS *").await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn missing_permissions_leave_no_trace_and_take_nobody_for_dead() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let can = "+hello +evalsha +script|load +pttl +hset +hdel +hexists +exists +del +pexpire +time +lindex +lpos +lpop \
               +lrem +lrange +zscore +zrem +zrange +zadd ~*";
    raw.run::<()>(&format!("ACL SETUSER placeless on >word -@all {can} +publish &*")).await;
    raw.run::<()>(&format!("ACL SETUSER mute on >word -@all {can} +rpush")).await;
    let url = |user| format!("redis://{user}:word@127.0.0.1:{}", server.port());
    let (holder, a, b) = (owner(), owner(), owner());

    let placeless = connect(&url("placeless")).await.unwrap();
    store.acquire(&waits("k", holder)).await.unwrap();
    let error = placeless.acquire(&waits("k", a)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);

    // May neither publish nor ask who listens.
    let mute = connect(&url("mute")).await.unwrap();
    for waiter in [a, b] {
        assert!(is_busy(&mute.acquire(&waits("k", waiter)).await.unwrap()));
    }
    assert_eq!(mute.release(&freed("k", holder)).await.unwrap(), FREED_UNHEARD);
    assert_eq!(mute.acquire(&waits("k", a)).await.unwrap(), ACQUIRED);
    assert_eq!(mute.release(&freed("k", a)).await.unwrap(), FREED_UNHEARD);
    assert_eq!(queue(&mut raw, "k").await, places(&[(b, 330)]));
    let Attempt::Busy { ttl } = mute.acquire(&tries("k", holder)).await.unwrap() else {
        panic!("out of turn");
    };
    assert!(ttl > Duration::from_secs(3), "{ttl:?}");
    assert_eq!(mute.acquire(&waits("k", b)).await.unwrap(), ACQUIRED);
}
