//! What it costs.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Locks, MultiLock};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Server};

const HOUR: Duration = Duration::from_secs(3600);

/// One script takes them all, however many there are and whoever owns them; each is released by one of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_one_server_are_taken_by_one_command() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let locks = Locks::connect(&server.url()).await.expect("a connection");
        let warm = locks.multi(["x", "y"]).lock().await.expect("free");
        warm.unlock().await.expect("held");
        let me = locks.owner();
        for count in [2_u64, 5, 20] {
            let names: Vec<String> = (0..count).map(|n| format!("lock:{n}")).collect();
            for owned in [false, true] {
                server.reset_stats().await;
                let request = locks.multi(&names).lock().lease(HOUR);
                let request = if owned { request.owner(&me) } else { request };
                let guard = request.await.expect("free");
                assert_eq!(server.calls("evalsha").await, 1, "{flavor:?}: {count} locks");
                guard.unlock().await.expect("held");
                assert_eq!(server.calls("evalsha").await, 1 + count, "{flavor:?}: {count} locks");
                for other in ["subscribe", "publish|channel", "eval", "script|load", "scan"] {
                    assert_eq!(server.calls(other).await, 0, "{flavor:?}: {other}");
                }
            }
        }
    }
}

/// Mutexes, fenced and spin locks of one server are one command too; what stands in another format is one more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_share_a_format_are_taken_by_one_command() {
    let server = Server::redis().await;
    let locks = Locks::connect(&server.url()).await.expect("a connection");
    let plain = || {
        let members = [locks.mutex("a").into(), locks.fenced("b").into(), locks.spin("c").into()];
        MultiLock::new(members)
    };
    let with_simple = || {
        let members = [locks.mutex("a").into(), locks.fenced("b").into(), locks.simple("d").into()];
        MultiLock::new(members)
    };
    for (lock, commands) in [(plain(), 1), (with_simple(), 2)] {
        for round in 0..2 {
            server.reset_stats().await;
            let guard = lock.lock().await.expect("free");
            if round > 0 {
                assert_eq!(server.calls("evalsha").await, commands);
            }
            guard.unlock().await.expect("held");
        }
    }
}

/// A busy member costs one command to find out; those who wait for it wait in one subscription, and do not poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_do_not_poll() {
    let server = Server::redis().await;
    let (here, elsewhere) = (
        Locks::connect(&server.url()).await.expect("a connection"),
        Locks::connect(&server.url()).await.expect("a connection"),
    );
    let guard = elsewhere.multi(["a", "b"]).lock().lease(HOUR).await.expect("free");
    assert!(here.multi(["a", "b"]).try_lock().await.expect("an answer").is_none());
    server.reset_stats().await;
    assert!(here.multi(["a", "b"]).try_lock().await.expect("an answer").is_none());
    assert_eq!(server.calls("evalsha").await, 1);
    let waiting = tokio::spawn(here.multi(["a", "b"]).lock().into_future());
    eventually("it listens", || async { !server.pubsub_channels().await.is_empty() }).await;
    // After the single try it asks for both, for the busy one, and for that one again when it listens.
    eventually("it has asked", || async { server.calls("evalsha").await >= 4 }).await;
    let mut before = 0;
    while server.calls("evalsha").await != before {
        before = server.calls("evalsha").await;
        assert!(before <= 8, "it polls");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(server.calls("evalsha").await, before, "it polls");
    guard.unlock().await.expect("held");
    waiting.await.expect("no panic").expect("free now").unlock().await.expect("held");
}
