//! Nothing may be left behind, and what is left is named.

use std::time::Duration;

use distlock_testkit::leak::assert_clean_within;
use distlock_testkit::{Server, assert_clean};

/// What stays is waited for in vain.
const IN_VAIN: Duration = Duration::from_secs(1);

#[tokio::test]
async fn only_what_has_the_prefix_counts() {
    let server = Server::redis().await;
    server.cli(&["SET", "x:{ab}:y", "1"]).await;
    assert_clean(&server, "a*").await;
    assert_clean(&server, "[a]").await;
    assert_clean(&server, "\\").await;
}

#[tokio::test]
async fn what_expires_in_time_is_not_left() {
    let server = Server::redis().await;
    server.cli(&["SET", "gone", "1", "PX", "50"]).await;
    assert_clean(&server, "gone").await;
}

#[tokio::test]
#[should_panic(expected = "s:\nkey x:{a*}:y (string, -1 ms left)\nkey z:a* (list, -1")]
async fn keys_that_stay_are_named() {
    let server = Server::redis().await;
    server.cli(&["SET", "x:{a*}:y", "1"]).await;
    server.cli(&["RPUSH", "z:a*", "1"]).await;
    assert_clean_within(&server, "a*", IN_VAIN).await;
}

#[tokio::test]
#[should_panic(expected = "key forgotten (string, ")]
async fn what_would_go_by_itself_later_is_left() {
    let server = Server::redis().await;
    server.cli(&["SET", "forgotten", "1", "PX", "60000"]).await;
    assert_clean_within(&server, "forgotten", IN_VAIN).await;
}

#[tokio::test]
#[should_panic(expected = "subscription to news")]
async fn a_subscription_that_stays_is_named() {
    let server = Server::redis().await;
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut subscriber = connection.as_pubsub();
    subscriber.subscribe("news").unwrap();
    assert_clean_within(&server, "any", IN_VAIN).await;
}
