//! Who may not come in, and who may not do everything.

use std::time::Duration;

use distlock::{Error, ErrorKind, Locks};
use distlock_testkit::{Flavor, Server};

use crate::{LONG, SECOND, SOON, connect, eventually, within};

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

/// What a user needs, and which step cannot be done without it.
const PERMISSIONS: [(&str, Option<&str>); 17] = [
    ("+hello", None), // asked for before there is a user
    ("+ping", None),  // any answer is a sign of life
    ("+evalsha", Some("lock")),
    ("+script|load", Some("lock")),
    ("+subscribe", Some("wait")),
    ("+unsubscribe", None),
    ("+publish", None), // the lock is released all the same
    ("+pttl", Some("lock")),
    ("+pexpire", Some("lock")),
    ("+hset", Some("lock")),
    ("+hdel", Some("unlock")),
    ("+hexists", Some("wait")),
    ("+hgetall", Some("inspect")),
    ("+del", Some("force")),
    ("+scan", Some("list")),
    ("~app:*", Some("lock")),
    ("&redisson_lock__channel:*", Some("wait")),
];

/// Does everything once, with a waiter elsewhere; says where it failed.
async fn use_everything(
    locks: &Locks,
    other: &Locks,
    wait: Duration,
) -> Result<(), (&'static str, Error)> {
    let mutex = locks.mutex("app:k");
    let guard = mutex.lock().await.map_err(|e| ("lock", e))?;
    let waited = other.mutex("app:k").try_lock().wait(wait).await;
    let waited = waited.map(|got| assert!(got.is_none())).map_err(|e| ("wait", e));
    let inspected = mutex.is_locked().await.map(drop).map_err(|e| ("inspect", e));
    let listed = locks.list("app:").await.map(|all| assert_eq!(all.len(), 1, "it is held"));
    let listed = listed.map_err(|e| ("list", e));
    let extended = guard.extend(LONG).await.map_err(|e| ("extend", e));
    let unlocked = guard.unlock().await.map_err(|e| ("unlock", e));
    let held = other.mutex("app:forced").lock().await.map_err(|e| ("lock", e))?;
    let forced = locks.mutex("app:forced").force_unlock().await;
    let forced = forced.map(|held| assert!(held)).map_err(|e| ("force", e));
    // Lost where that worked.
    drop(held.unlock().await);
    waited.and(extended).and(unlocked).and(inspected).and(listed).and(forced)
}

#[tokio::test]
async fn a_permission_that_is_missing_is_a_typed_error_and_leaves_no_lock_for_ever() {
    let server = Server::redis().await;
    let url = format!("redis://lk:secret@{}", server.addr());
    for missing in 0..=PERMISSIONS.len() {
        let mut rule = vec!["ACL", "SETUSER", "lk", "reset", "on", ">secret", "resetchannels"];
        let granted = PERMISSIONS.iter().enumerate().filter(|(i, _)| *i != missing);
        rule.extend(granted.map(|(_, (permission, _))| *permission));
        rule.push("+hlen");
        server.cli(&rule).await;
        server.cli(&["SCRIPT", "FLUSH"]).await;
        let (permission, expected) = *PERMISSIONS.get(missing).unwrap_or(&("nothing", None));
        let (locks, other) = (connect(&url, LONG).await, connect(&url, LONG).await);
        // Long enough to fail where it must, short where it will run to its end.
        let wait = if expected == Some("wait") { 4 * SECOND } else { Duration::from_millis(50) };
        let done = within(SOON, permission, use_everything(&locks, &other, wait)).await;
        match done {
            Ok(()) => assert_eq!(expected, None, "without {permission}"),
            Err((step, error)) => {
                assert_eq!(Some(step), expected, "without {permission}: {error}");
                assert_eq!(error.kind(), ErrorKind::Config, "without {permission}: {error}");
            }
        }
        for key in server.keys("*").await {
            let left = server.pttl(&key).await;
            assert!(left > 0, "without {permission}: {key} lives for {left} ms");
            assert_eq!(expected, Some("unlock"), "without {permission}: {key} is left");
        }
        drop((locks, other));
        server.cli(&["FLUSHALL"]).await;
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
