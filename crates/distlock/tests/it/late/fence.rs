//! A connection that carried an unanswered step is ended at the server before the process sends anything else there.

use std::time::Duration;

use distlock::{Guard, Locks};
use distlock_testkit::proxy::{Delivered, Late, Match, Proxy};
use distlock_testkit::suites::eventually;

use crate::late::stage::{IMPATIENT, LEASE, SOON, Store, User, connect, url_through};

/// A server, and a process whose next step about `k` is held back.
async fn held_back(user: User, watchdog: Duration) -> (Store, Proxy, Locks) {
    let store = Store::start(1).await;
    let proxy = Proxy::start(store.servers()[0].addr()).await;
    let locks = connect(&url_through(&store.servers()[0], &proxy, user), watchdog).await;
    // The server must know the scripts.
    let warm = locks.mutex("warm").lock().lease(LEASE).await.unwrap();
    warm.extend(2 * LEASE).await.unwrap();
    warm.unlock().await.unwrap();
    (store, proxy, locks)
}

fn next_step(proxy: &Proxy) -> Late {
    proxy.deliver_late(Match::command("EVALSHA").and("k"), 1)
}

async fn hold(locks: &Locks) -> Guard {
    locks.mutex("k").lock().lease(LEASE).wait(SOON).await.unwrap()
}

#[tokio::test]
async fn an_acquire_that_is_sent_again_cannot_arrive_any_more() {
    let (_store, proxy, locks) = held_back(User::MayKill, IMPATIENT).await;
    let mut late = next_step(&proxy);
    let guard = hold(&locks).await;
    assert_eq!(late.deliver().await, Delivered::Refused);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_release_that_is_sent_again_cannot_arrive_any_more() {
    let (_store, proxy, locks) = held_back(User::MayKill, IMPATIENT).await;
    let guard = hold(&locks).await;
    let mut late = next_step(&proxy);
    guard.unlock().await.unwrap();
    assert_eq!(late.deliver().await, Delivered::Refused);
}

#[tokio::test]
async fn an_extension_that_is_sent_again_cannot_arrive_any_more() {
    let (_store, proxy, locks) = held_back(User::MayKill, IMPATIENT).await;
    let guard = hold(&locks).await;
    let mut late = next_step(&proxy);
    guard.extend(2 * LEASE).await.unwrap();
    assert_eq!(late.deliver().await, Delivered::Refused);
    guard.unlock().await.unwrap();
}

/// The watchdog has a connection of its own.
#[tokio::test]
async fn a_renewal_that_is_sent_again_cannot_arrive_any_more() {
    let (_store, proxy, locks) = held_back(User::MayKill, Duration::from_secs(3)).await;
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut late = next_step(&proxy);
    late.fired(1).await;
    proxy.watch(Match::command("EVALSHA").and("k")).fired(1).await;
    assert_eq!(late.deliver().await, Delivered::Refused);
    guard.unlock().await.unwrap();
}

/// A cancelled acquisition is not sent again, but forgotten.
#[tokio::test]
async fn an_acquire_that_was_cancelled_cannot_arrive_any_more() {
    let (store, proxy, locks) = held_back(User::MayKill, IMPATIENT).await;
    let mut late = next_step(&proxy);
    let seen = proxy.watch(Match::command("EVALSHA").and("k"));
    let caller = tokio::spawn(locks.mutex("k").lock().lease(LEASE).into_future());
    late.fired(1).await;
    caller.abort();
    drop(caller.await);
    seen.fired(2).await;
    assert_eq!(late.deliver().await, Delivered::Refused);
    assert!(!store.servers()[0].exists("k").await);
}

/// Other connections of the process, and those of others, stay.
#[tokio::test]
async fn no_other_connection_is_ended() {
    let (store, proxy, locks) = held_back(User::MayKill, Duration::from_secs(3)).await;
    let server = &store.servers()[0];
    let other = connect(&server.url(), IMPATIENT).await;
    // A connection that listens, one of the watchdog's, and one of another process.
    let theirs = other.mutex("busy").lock().await.unwrap();
    let ours = locks.mutex("watched").lock().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("busy").lock().into_future());
    eventually("it listens", || async { !server.pubsub_channels().await.is_empty() }).await;
    let guard = hold(&locks).await;
    let before = ids(&server.clients().await);
    let mut late = next_step(&proxy);
    guard.unlock().await.unwrap();
    late.fired(1).await;
    let after = ids(&server.clients().await);
    let ended: Vec<_> = before.iter().filter(|id| !after.contains(id)).collect();
    assert_eq!(ended.len(), 1, "{ended:?} of {before:?}");
    assert_eq!(late.deliver().await, Delivered::Refused);
    waiting.abort();
    ours.unlock().await.unwrap();
    theirs.unlock().await.unwrap();
}

fn ids(clients: &[String]) -> Vec<String> {
    let id = |client: &String| client.split(' ').next().unwrap_or_default().to_owned();
    clients.iter().map(id).collect()
}

/// Not being allowed to end it is no error, and is not tried for ever.
#[tokio::test]
async fn a_user_who_may_not_end_connections_works_all_the_same() {
    let (store, proxy, locks) = held_back(User::MayNotKill, IMPATIENT).await;
    for _ in 0..3 {
        let guard = hold(&locks).await;
        let mut late = next_step(&proxy);
        guard.unlock().await.unwrap();
        late.fired(1).await;
        assert!(late.deliver().await.ran());
    }
    assert!(!store.servers()[0].exists("k").await);
}
