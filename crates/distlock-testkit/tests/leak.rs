//! Nothing may be left behind, and what is left is named.

use distlock_testkit::{Server, assert_clean};

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
#[should_panic(expected = "after 2s:\nkey x:{a*}:y (string, -1 ms left)\nkey z:a* (list, -1")]
async fn keys_that_stay_are_named() {
    let server = Server::redis().await;
    server.cli(&["SET", "x:{a*}:y", "1"]).await;
    server.cli(&["RPUSH", "z:a*", "1"]).await;
    assert_clean(&server, "a*").await;
}

#[tokio::test]
#[should_panic(expected = "subscription to news")]
async fn a_subscription_that_stays_is_named() {
    let server = Server::redis().await;
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut subscriber = connection.as_pubsub();
    subscriber.subscribe("news").unwrap();
    assert_clean(&server, "any").await;
}
