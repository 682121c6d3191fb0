//! The end of a client, with or without a server.

use std::future::IntoFuture;

use distlock::{ErrorKind, State};
use distlock_testkit::proxy::Proxy;
use distlock_testkit::{Server, assert_clean};

use crate::outage::{BOUND, LONG, SECOND, SOON, connect, eventually, within};

#[tokio::test]
async fn the_last_handle_closes_every_connection() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), 6 * SECOND).await;
    let other = connect(&server.url(), 6 * SECOND).await;
    let guard = locks.mutex("last").lock().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("busy").lock().into_future());
    waiting.await.unwrap().unwrap().unlock().await.unwrap();
    let held = other.mutex("held").lock().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("held").lock().into_future());
    eventually("it waits", async || !server.pubsub_channels().await.is_empty()).await;
    // Command, watchdog and subscription: all that there can be.
    eventually("it renews", async || server.client_count().await >= 4).await;
    waiting.abort();
    let _ = waiting.await;
    drop(held);
    drop(other);
    let mutex = locks.mutex("last");
    drop(locks);
    drop(mutex);
    eventually("a guard needs no handle", async || guard.state() == State::Held).await;
    drop(guard);
    eventually("no connection is left", async || server.client_count().await == 0).await;
    assert_clean(&server, "").await;
}

#[tokio::test]
async fn a_black_hole_does_not_keep_the_connections_of_the_last_handle() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let locks = connect(&proxy.url(), SECOND).await;
    let guard = locks.mutex("hole").lock().await.unwrap();
    proxy.blackhole(true);
    drop(locks);
    drop(guard);
    // The release is asked again until the lease is over, and then there is nothing left to do.
    eventually("the key is gone", async || !server.exists("hole").await).await;
    proxy.heal().await;
    eventually("no connection is left", async || proxy.connections() == 0).await;
    assert_clean(&server, "hole").await;
}

#[tokio::test]
async fn closing_ends_waits_and_releases_even_when_the_server_is_gone() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    let other = connect(&server.url(), LONG).await;
    let _held = other.mutex("held").lock().await.unwrap();
    let guard = locks.mutex("closed").lock().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("held").lock().into_future());
    eventually("it waits", async || !server.pubsub_channels().await.is_empty()).await;
    locks.close().await;
    assert!(!server.exists("closed").await);
    assert!(guard.is_lost());
    let error = within(SOON, "the wait ends", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(locks.mutex("k").lock().await.unwrap_err().kind(), ErrorKind::Closed);

    let _guard = other.mutex("stuck").lock().await.unwrap();
    server.kill();
    within(BOUND, "close", other.close()).await;
}
