//! A server that is down, and one that comes back.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks, State};
use distlock_testkit::proxy::Proxy;
use distlock_testkit::{Flavor, Server, Stopwatch, assert_clean};
use tokio::net::{TcpListener, TcpStream};

use crate::outage::{BOUND, LONG, SECOND, SOON, connect, eventually, within};

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
    // Long enough to be refused by the dead one, and not only to find the old connection broken.
    let wait = Duration::from_secs(2);
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
    let watch = Stopwatch::start();
    let late = tokio::spawn(locks.mutex("late").lock().into_future());
    tokio::task::yield_now().await;
    server.restart().await;
    let guard = match within(SOON, "lock", late).await.unwrap() {
        // The machine stood still for as long as anybody waits for a first answer.
        Err(_) if watch.stalled() > SECOND => locks.mutex("late").lock().await,
        served => served,
    };
    guard.unwrap().unlock().await.unwrap();
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
    let holders = connect(&server.url(), 9 * SECOND).await;
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
    // One that has gone still counts for a moment, so it is full only when the library is refused.
    eventually("the server is full", async || {
        crowd.push(TcpStream::connect(server.addr()).await.unwrap());
        let refused = within(BOUND, "connect", Locks::connect(&server.url())).await.err();
        if let Some(error) = &refused {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        refused.is_some()
    })
    .await;
    drop(crowd);
    eventually("there is room", async || Locks::connect(&server.url()).await.is_ok()).await;
}

#[tokio::test]
async fn a_server_that_still_loads_is_waited_for() {
    // Ten seconds and more, unless it is told to go on.
    let slow = ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::builder(Flavor::Redis).args(slow).start().await;
    let locks = connect(&server.url(), LONG).await;
    let fill = "for i = 1, 20000 do redis.call('set', 'filler' .. i, i) end";
    server.cli(&["EVAL", fill, "0"]).await;
    server.cli(&["SAVE"]).await;
    let used_while_loading = async {
        eventually("it loads", async || {
            let answer = server.try_cli(&["PING"]).await;
            answer.is_err_and(|error| error.code() == Some("LOADING"))
        })
        .await;
        let goes_on = async {
            eventually("it was asked", async || {
                let stats = server.command_stats().await;
                stats.get("evalsha").is_some_and(|asked| asked.rejected > 0)
            })
            .await;
            server.cli(&["CONFIG", "SET", "key-load-delay", "0"]).await;
        };
        let lock = within(SOON, "lock", locks.mutex("loading").lock());
        tokio::join!(lock, goes_on).0
    };
    let ((), guard) = tokio::join!(server.restart(), used_while_loading);
    guard.unwrap().unlock().await.unwrap();
    assert_clean(&server, "loading").await;
}
