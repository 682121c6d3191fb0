//! A server that is down, full, loading or forbidding is told by the right kind of error, in bounded time, and leaves nothing.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, Locks, State};
use distlock_testkit::proxy::Proxy;
use distlock_testkit::{Flavor, Server, assert_clean};
use tokio::net::{TcpListener, TcpStream};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(8);
/// What a call may take that has no wait of its own: the command time-out, one reply time-out, and a busy machine.
const BOUND: Duration = Duration::from_millis(3000 + 1000 + 1500);

async fn connect(url: &str, watchdog: Duration) -> Locks {
    Locks::builder().url(url).watchdog(watchdog).connect().await.expect("a connection")
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn within<T>(limit: Duration, what: &str, work: impl IntoFuture<Output = T>) -> T {
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}

#[tokio::test]
async fn connecting_where_nobody_answers_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = format!("redis://{}", listener.local_addr().unwrap());
    let error = within(BOUND, "connect", Locks::connect(&mute)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    drop(listener);
    let error = within(BOUND, "connect", Locks::connect(&mute)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn every_call_to_a_dead_server_ends_with_unavailable() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    locks.mutex("warm").lock().await.unwrap().unlock().await.unwrap();
    server.kill();
    let mutex = locks.mutex("dead");
    let is_unavailable = |what: &str, error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
        assert_eq!(error.lock_name(), Some("dead"), "{what}");
    };
    let wait = Duration::from_millis(300);
    let (lock, single, timed, must, question, force) = tokio::join!(
        within(BOUND, "lock", mutex.lock()),
        within(BOUND, "try_lock", mutex.try_lock()),
        within(wait + BOUND, "try_lock with a wait", mutex.try_lock().wait(wait)),
        within(wait + BOUND, "lock with a wait", mutex.lock().wait(wait)),
        within(BOUND, "is_locked", mutex.is_locked()),
        within(BOUND, "force_unlock", mutex.force_unlock()),
    );
    is_unavailable("lock", lock.unwrap_err());
    is_unavailable("try_lock", single.unwrap_err());
    is_unavailable("try_lock with a wait", timed.unwrap_err());
    is_unavailable("lock with a wait", must.unwrap_err());
    is_unavailable("is_locked", question.unwrap_err());
    is_unavailable("force_unlock", force.unwrap_err());
    within(BOUND, "close", locks.close()).await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again_without_a_restart_of_the_client() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    locks.mutex("back").lock().await.unwrap().unlock().await.unwrap();
    server.kill();
    // It asks while nobody is there, and is served when somebody is.
    let waiting = tokio::spawn(locks.mutex("back").lock().into_future());
    let refused = within(BOUND, "try_lock", locks.mutex("other").try_lock()).await;
    drop(refused);
    let late = tokio::spawn(locks.mutex("late").lock().into_future());
    tokio::task::yield_now().await;
    server.restart().await;
    let guard = within(SOON, "lock", late).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    // Whoever gave up meanwhile said why.
    if let Err(error) = within(SOON, "lock", waiting).await.unwrap() {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    locks.mutex("back").lock().await.unwrap().unlock().await.unwrap();
    assert_clean(&server, "").await;
}

#[tokio::test]
async fn a_restart_with_its_data_keeps_the_holder_in_and_the_waiter_out() {
    let server = Server::builder(Flavor::Redis).keep_data().start().await;
    let holders = connect(&server.url(), 5 * SECOND).await;
    let waiters = connect(&server.url(), LONG).await;
    let holder = holders.mutex("kept").lock().await.unwrap();
    let waiting = tokio::spawn(waiters.mutex("kept").lock().into_future());
    eventually("it waits", async || !server.pubsub_channels().await.is_empty()).await;
    server.restart().await;
    eventually("it waits again", async || !server.pubsub_channels().await.is_empty()).await;
    assert_ne!(holder.state(), State::Lost);
    assert!(!waiting.is_finished());
    holder.unlock().await.unwrap();
    let guard = within(SOON, "woken", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    assert_clean(&server, "kept").await;
}

#[tokio::test]
async fn connections_that_broke_while_idle_cost_no_error() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let locks = connect(&proxy.url(), LONG).await;
    for _ in 0..20 {
        let guard = locks.mutex("idle").lock().await.unwrap();
        proxy.reset_all().await;
        guard.unlock().await.unwrap();
        proxy.reset_all().await;
    }
    assert_clean(&server, "idle").await;
}

#[tokio::test]
async fn a_server_with_no_connection_left_is_unavailable_until_it_has_one() {
    let server = Server::builder(Flavor::Redis).args(["--maxclients", "4"]).start().await;
    let mut crowd = Vec::new();
    eventually("the server is full", async || {
        crowd.push(TcpStream::connect(server.addr()).await.unwrap());
        server.try_cli(&["PING"]).await.is_err()
    })
    .await;
    let error = within(BOUND, "connect", Locks::connect(&server.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    drop(crowd);
    eventually("there is room", async || Locks::connect(&server.url()).await.is_ok()).await;
}

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

#[tokio::test]
async fn a_server_that_still_loads_is_waited_for() {
    let slow = ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::builder(Flavor::Redis).args(slow).start().await;
    let locks = connect(&server.url(), LONG).await;
    let fill = "for i = 1, 2500 do redis.call('set', 'filler' .. i, i) end";
    server.cli(&["EVAL", fill, "0"]).await;
    server.cli(&["SAVE"]).await;
    let used_while_loading = async {
        eventually("it loads", async || {
            let answer = server.try_cli(&["PING"]).await;
            answer.is_err_and(|error| error.code() == Some("LOADING"))
        })
        .await;
        within(SOON, "lock", locks.mutex("loading").lock()).await
    };
    let ((), guard) = tokio::join!(server.restart(), used_while_loading);
    guard.unwrap().unlock().await.unwrap();
    assert_clean(&server, "loading").await;
}

#[tokio::test]
async fn a_replica_is_unavailable_and_nothing_is_written() {
    let primary = Server::redis().await;
    let port = primary.port().to_string();
    let link = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
    let replica = Server::builder(Flavor::Redis).args(link).start().await;
    let locks = connect(&replica.url(), LONG).await;
    let (single, timed) = tokio::join!(
        within(BOUND, "try_lock", locks.mutex("readonly-a").try_lock()),
        within(BOUND, "lock", locks.mutex("readonly-b").lock().wait(SECOND / 2)),
    );
    for error in [single.unwrap_err(), timed.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("READONLY"), "{error}");
    }
    assert_clean(&replica, "").await;
    assert_clean(&primary, "").await;
    // Promoted, it serves.
    replica.cli(&["REPLICAOF", "NO", "ONE"]).await;
    let guard = within(SOON, "lock", locks.mutex("readonly-a").lock()).await.unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_wait_beside_somebody_elses_single_try_learns_of_the_outage_too() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let mutex = locks.mutex("beside");
    let (single, timed) = tokio::join!(
        within(BOUND, "try_lock", mutex.try_lock()),
        within(BOUND, "lock", mutex.lock().wait(SECOND / 2)),
    );
    for error in [single.unwrap_err(), timed.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn a_primary_without_enough_replicas_is_unavailable_and_nothing_is_written() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), LONG).await;
    let held = locks.mutex("alone-held").lock().await.unwrap();
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let error = within(BOUND, "try_lock", locks.mutex("alone").try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!server.exists("alone").await);
    let unlocked = within(BOUND, "unlock", held.unlock()).await;
    assert_eq!(unlocked.unwrap_err().kind(), ErrorKind::Unavailable);
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    // The release went on without its caller.
    eventually("released", async || !server.exists("alone-held").await).await;
    assert_clean(&server, "alone").await;
}

#[tokio::test]
async fn the_last_handle_closes_every_connection() {
    let server = Server::redis().await;
    let locks = connect(&server.url(), SECOND).await;
    let other = connect(&server.url(), SECOND).await;
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
    assert_eq!(guard.state(), State::Held, "a guard needs no handle");
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
