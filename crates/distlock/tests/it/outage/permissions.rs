//! Who may not come in, and who may not do everything. What a user needs is in `tests/doctor`.

use distlock::{ErrorKind, Locks};
use distlock_testkit::{Flavor, Server};

use crate::outage::{LONG, SECOND, SOON, connect, eventually, within};

#[tokio::test]
async fn a_wrong_password_is_a_matter_of_configuration_and_is_not_repeated() {
    let server = Server::builder(Flavor::Redis).password("canary0right").start().await;
    Locks::connect(&server.url()).await.unwrap();
    let addr = server.addr();
    for url in [
        format!("redis://{addr}"),
        format!("redis://:canary1wrong@{addr}"),
        format!("redis://nobody:canary1wrong@{addr}"),
    ] {
        let error = Locks::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!error.is_retryable());
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

/// An operator must not read "nothing is held" where the truth is "you may not look".
#[tokio::test]
async fn a_list_that_may_not_be_read_is_an_error_and_not_empty() {
    let server = Server::redis().await;
    server.cli(&["ACL", "SETUSER", "lk", "on", ">secret", "~*", "&*", "+@all", "-hlen"]).await;
    let locks = connect(&format!("redis://lk:secret@{}", server.addr()), LONG).await;
    let guard = locks.mutex("listed").lock().await.unwrap();
    match locks.list("").await {
        Ok(all) => assert_eq!(all.len(), 1, "it is held"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Config, "{error}"),
    }
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_permission_that_is_taken_away_costs_the_lock_and_is_said() {
    let server = Server::redis().await;
    let user = ["ACL", "SETUSER", "lk", "on", ">secret", "~*", "&*", "+@all"];
    server.cli(&user).await;
    let url = format!("redis://lk:secret@{}", server.addr());
    let locks = connect(&url, SECOND).await;
    let guard = locks.mutex("taken").lock().await.unwrap();
    server.cli(&["ACL", "SETUSER", "lk", "-pexpire"]).await;
    within(SOON, "lost", guard.lost()).await;
    let error = locks.mutex("taken2").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    eventually("all gone by its lease", async || server.keys("*").await.is_empty()).await;
}
