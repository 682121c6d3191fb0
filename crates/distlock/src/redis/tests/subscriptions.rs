//! Hearing of releases, through everything that can happen to the connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use distlock_testkit::Proxy;
use tokio::time::timeout;

use super::played::{LIMIT, Played};
use super::server::{Reconnects, Server, claim, connect, connect_observed, eventually, owner};
use crate::ErrorKind;
use crate::locks::Durability;
use crate::redis::{RedisStore, Target};
use crate::store::{ClaimKind, Listener, Released, Store};

async fn hears(listener: &mut Listener) -> bool {
    timeout(Duration::from_secs(30), listener.heard()).await.is_ok()
}

async fn hears_nothing(listener: &mut Listener) -> bool {
    timeout(Duration::from_millis(50), listener.heard()).await.is_err()
}

/// Once it has heard what was called out so far: the subscription itself is, and may be heard a moment later.
async fn quiet(mut listener: Listener) -> Listener {
    let _ = hears_nothing(&mut listener).await;
    listener
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_release_is_heard_by_those_who_listen_to_it() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let mut one = quiet(store.listen(&claim("k", owner(), 1)).await.unwrap()).await;
    let mut two = store.listen(&claim("k", owner(), 1)).await.unwrap();
    let mut other = quiet(store.listen(&claim("x{t}y", owner(), 1)).await.unwrap()).await;
    let mut channels = raw.channels().await;
    channels.sort();
    assert_eq!(channels, ["redisson_lock__channel:x{t}y", "redisson_lock__channel:{k}"]);
    assert!(hears_nothing(&mut one).await);

    store.acquire(&claim("k", me, 1)).await.unwrap();
    let freed = store.release(&claim("k", me, 0)).await.unwrap();
    assert_eq!(freed, Released::Freed { heard_by: 1 });
    assert!(hears(&mut one).await && hears(&mut two).await);
    assert!(hears_nothing(&mut other).await);

    store.acquire(&claim("k", me, 1)).await.unwrap();
    store.force(ClaimKind::Exclusive, "k").await.unwrap();
    assert!(hears(&mut one).await);
    // A Java peer's message, and anything else that anybody may publish.
    for message in ["0", "1", "nonsense"] {
        raw.run::<()>(&format!("PUBLISH redisson_lock__channel:x{{t}}y {message}")).await;
        assert!(hears(&mut other).await);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_last_listener_takes_the_subscription_with_it() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let one = store.listen(&claim("k", owner(), 1)).await.unwrap();
    let mut two = quiet(store.listen(&claim("k", owner(), 1)).await.unwrap()).await;
    drop(one);
    assert!(hears_nothing(&mut two).await);
    assert_eq!(raw.channels().await.len(), 1);
    drop(two);
    eventually("unsubscribed", async || raw.channels().await.is_empty()).await;
    // And back, many times over: what is wanted last is what counts.
    for _ in 0..100 {
        drop(store.listen(&claim("k", owner(), 1)).await.unwrap());
    }
    let mut last = store.listen(&claim("k", owner(), 1)).await.unwrap();
    raw.run::<()>("PUBLISH redisson_lock__channel:{k} 0").await;
    assert!(hears(&mut last).await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_dropped_listen_leaves_no_subscription() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    for i in 0..100 {
        let wanted = claim("k", owner(), 1);
        let _ = timeout(Duration::from_micros(i * 10), store.listen(&wanted)).await;
    }
    eventually("unsubscribed", async || raw.channels().await.is_empty()).await;
    drop(store.listen(&claim("k", owner(), 1)).await.unwrap());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_killed_subscription_comes_back_and_wakes_everybody() {
    let server = Server::start().await;
    let seen = Arc::<Reconnects>::default();
    let store = connect_observed(&server.url(), seen.clone()).await.unwrap();
    let mut raw = server.raw().await;
    let mut one = store.listen(&claim("a", owner(), 1)).await.unwrap();
    let mut two = store.listen(&claim("b", owner(), 1)).await.unwrap();
    for round in 1..=3 {
        raw.run::<()>("CLIENT KILL TYPE pubsub").await;
        assert!(hears(&mut one).await && hears(&mut two).await);
        eventually("announced", async || seen.0.load(Ordering::SeqCst) == round).await;
        raw.run::<()>("PUBLISH redisson_lock__channel:{b} 0").await;
        assert!(hears(&mut two).await);
    }
    assert_eq!(raw.connections().await, 2);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_server_that_fell_silent_is_noticed() {
    let server = Server::start().await;
    let seen = Arc::<Reconnects>::default();
    let proxy = Proxy::start(server.addr()).await;
    let store = connect_observed(&proxy.url(), seen.clone()).await.unwrap();
    let mut listener = store.listen(&claim("k", owner(), 1)).await.unwrap();
    let logins = proxy.count("HELLO");
    server.stop();
    eventually("it tries another connection", async || proxy.count("HELLO") > logins).await;
    server.cont();
    assert!(hears(&mut listener).await);
    eventually("announced", async || seen.0.load(Ordering::SeqCst) == 1).await;
}

/// What the server said meanwhile is read before it is taken for silent.
#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_keeps_its_subscriptions() {
    let (surroundings, mut played) = Played::new(Durability::Primary);
    let target = Target::parse("redis://played").unwrap();
    let store = RedisStore::connect(target, surroundings, true).await.unwrap();
    let listening =
        tokio::spawn(async move { (store.listen(&claim("k", owner(), 1)).await, store) });
    let mut peer = played.next_listener().await;
    let channel = "redisson_lock__channel:{k}";
    peer.asked(channel).await;
    let length = channel.len();
    peer.answer(&format!(">3\r\n+subscribe\r\n${length}\r\n{channel}\r\n:1\r\n")).await;
    for _ in 0..3 {
        peer.asked("PING").await;
        tokio::time::advance(10 * LIMIT).await;
        peer.answer("+PONG\r\n").await;
    }
    listening.await.unwrap().0.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_server_that_is_down_is_unavailable_to_listeners() {
    let server = Server::start().await;
    let store = server.store().await;
    drop(server);
    let error = store.listen(&claim("k", owner(), 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_channel_we_may_not_hear_spoils_no_other() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let rule = "+hello +subscribe +unsubscribe +ping resetchannels &redisson_lock__channel:{ok*";
    raw.run::<()>(&format!("ACL SETUSER lk on >word {rule}")).await;
    let store = connect(&format!("redis://lk:word@127.0.0.1:{}", server.port())).await.unwrap();
    let asked: Vec<_> = (0..20)
        .map(|i| {
            let (store, ok) = (store.clone(), i != 13);
            let name = if ok { format!("ok{i}") } else { "secret".to_owned() };
            tokio::spawn(async move { (ok, store.listen(&claim(&name, owner(), 1)).await) })
        })
        .collect();
    let mut kept = Vec::new();
    for asked in asked {
        match asked.await.unwrap() {
            (true, heard) => kept.push(heard.unwrap()),
            (false, heard) => {
                assert_eq!(heard.unwrap_err().kind(), ErrorKind::Config);
            }
        }
    }
    assert_eq!(raw.channels().await.len(), 19);
    drop(kept);
    eventually("unsubscribed", async || raw.channels().await.is_empty()).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn thousands_of_channels_survive_a_lost_connection() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let asked: Vec<_> = (0..10_000)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move { store.listen(&claim(&format!("k{i}"), owner(), 1)).await })
        })
        .collect();
    let mut listeners = Vec::new();
    for asked in asked {
        listeners.push(asked.await.unwrap().unwrap());
    }
    assert_eq!(raw.channels().await.len(), 10_000);
    raw.run::<()>("CLIENT KILL TYPE pubsub").await;
    for listener in &mut listeners {
        assert!(hears(listener).await);
    }
    assert_eq!(raw.channels().await.len(), 10_000);
    assert_eq!(raw.connections().await, 2);
    drop(listeners);
    eventually("unsubscribed", async || raw.channels().await.is_empty()).await;
}
