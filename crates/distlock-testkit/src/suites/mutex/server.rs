//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::future::IntoFuture;

use distlock::{ErrorKind, Locks};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{HOUR, ms, secs};
use crate::suites::eventually;
use crate::suites::times::STEADY;
use crate::{Server, Stopwatch, assert_clean, worker};

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// How many connections of the server are subscribed to something.
async fn subscribed(server: &Server) -> usize {
    let subscribed = |line: &&String| {
        line.split(' ').any(|field| {
            let value = ["sub=", "ssub=", "psub="].iter().find_map(|key| field.strip_prefix(key));
            value.is_some_and(|value| value != "0")
        })
    };
    server.clients().await.iter().filter(subscribed).count()
}

/// Redisson: testSubscriptionsPerConnection, testSinglePubSub. Any number of waiters for any number of locks share one
/// pub/sub connection, and leave no channel.
pub async fn five_thousand_waiters_share_one_subscription_connection(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let names: Vec<String> = (0..5).map(|n| format!("many:{n}")).collect();
    let mut held = Vec::new();
    for name in &names {
        held.push(elsewhere.mutex(name).lock().await.expect("it is free"));
    }
    let mut jobs = JoinSet::new();
    for job in 0..5000 {
        let mutex = here.mutex(&names[job % 5]);
        jobs.spawn(async move { mutex.lock().await?.unlock().await });
    }
    eventually("each lock has one channel", || async { server.pubsub_channels().await.len() == 5 })
        .await;
    assert_eq!(subscribed(&server).await, 1);
    let (clients, subscribers) = (server.client_count().await, server.calls("subscribe").await);
    assert!(clients <= 6, "{clients} connections for two processes");
    assert!(subscribers <= 5, "{subscribers} subscriptions for five locks");
    for guard in held {
        guard.unlock().await.expect("it was held");
    }
    let all = async {
        while let Some(job) = jobs.join_next().await {
            job.expect("no panic").expect("it gets in and out");
        }
    };
    timeout(secs(180), all).await.expect("every job is done");
    assert_clean(&server, "many:").await;
}

/// Redisson: testRedisFailed. A server that is gone is an outage, told in bounded time, and not a busy lock.
pub async fn a_server_that_is_gone_is_an_outage(server: Server) {
    let locks = open(&server).await;
    let guard = locks.mutex("held").lock().await.expect("it is free");
    server.kill();
    let mutex = locks.mutex("k");
    // The wait: long enough to be refused by the dead one, and not only to find the old connection broken.
    let (limit, wait) = (secs(15), secs(2));
    let since = Instant::now();
    let (once, short, long, asked, forced) = tokio::join!(
        timeout(limit, mutex.try_lock().into_future()),
        timeout(limit, mutex.lock().wait(wait).into_future()),
        timeout(limit, mutex.lock().into_future()),
        timeout(limit, mutex.is_locked()),
        timeout(limit, mutex.force_unlock()),
    );
    let took = since.elapsed();
    let short = short.expect("bounded by its wait").expect_err("nobody is there");
    let errors = [
        once.expect("bounded").expect_err("nobody is there"),
        short,
        long.expect("bounded").expect_err("nobody is there"),
        asked.expect("bounded").expect_err("nobody is there"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_retryable());
        assert_eq!(error.lock_name(), Some("k"), "{error:?}");
    }
    // What cannot be asked again may have been on its way when the connection broke.
    let forced = forced.expect("bounded").expect_err("nobody is there");
    assert!(matches!(forced.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{forced}");
    assert_eq!(forced.lock_name(), Some("k"), "{forced:?}");
    assert!(took < secs(10), "{took:?}");
    let unlocked = timeout(limit, guard.unlock()).await.expect("bounded");
    assert_eq!(unlocked.expect_err("nobody is there").kind(), ErrorKind::Unavailable);
    let refused = timeout(limit, Locks::connect(&server.url())).await.expect("bounded");
    assert_eq!(refused.expect_err("nobody is there").kind(), ErrorKind::Unavailable);

    // And when it is back, so are the locks.
    server.restart().await;
    let again = timeout(limit, mutex.lock().into_future()).await.expect("bounded");
    again.expect("the server is back").unlock().await.expect("it was held");
}

/// A short wait ends in time although the server says nothing at all.
pub async fn a_wait_ends_in_time_on_a_frozen_server(server: Server) {
    let locks = open(&server).await;
    locks.mutex("k").lock().await.expect("it is free").unlock().await.expect("it was held");
    server.stop();
    let since = Instant::now();
    let ended = timeout(secs(20), locks.mutex("k").lock().wait(ms(300)).into_future()).await;
    let error = ended.expect("bounded").expect_err("it says nothing");
    let took = since.elapsed();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error:?}");
    assert!(took < ms(300) + secs(7), "{took:?}");
    server.cont();
    let again = timeout(secs(10), locks.mutex("k").lock().into_future()).await.expect("bounded");
    again.expect("it answers again").unlock().await.expect("it was held");
    assert_clean(&server, "k").await;
}

/// Redisson: testAutoExpire. The lock of a process that was killed is free within the watchdog's timeout.
pub async fn a_killed_process_loses_its_lock_within_the_watchdogs_timeout(server: Server) {
    let locks = open(&server).await;
    let holder = worker("testkit-holder").arg(server.url()).arg(STEADY.as_millis().to_string());
    let mut holder = holder.arg("k").start().await;
    let line = holder.wait_for("held ").await;
    let owner = line.trim_start_matches("held ").parse().expect("an owner");
    // Renewed while it lives.
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(locks.mutex("k").is_held_by(&owner).await.expect("the server answers"));
    let waiter = tokio::spawn(locks.mutex("k").lock().into_future());
    tokio::time::sleep(ms(50)).await;
    let since = Stopwatch::start();
    holder.kill();
    let next = timeout(secs(30), waiter).await.expect("it gets free").expect("no panic");
    assert!(since.elapsed() < STEADY + secs(4), "free after {:?}", since.elapsed());
    next.expect("it gets free").unlock().await.expect("it was held");
    assert_clean(&server, "k").await;
}

/// One round trip in, one out, nothing else.
pub async fn an_uncontended_lock_costs_two_commands(server: Server) {
    let locks = open(&server).await;
    let mutex = locks.mutex("k");
    mutex.lock().await.expect("it is free").unlock().await.expect("it was held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        mutex.lock().lease(HOUR).await.expect("it is free").unlock().await.expect("it was held");
    }
    let stats = server.command_stats().await;
    assert_eq!(server.calls("evalsha").await, 20, "{stats:?}");
    for command in ["eval", "subscribe", "script|load", "hello"] {
        assert_eq!(stats.get(command).copied().unwrap_or_default().calls, 0, "{command}");
    }
    // Redisson's layout: a hash of owner and count with a time to live.
    let guard = mutex.lock().lease(HOUR).await.expect("it is free");
    let hash = server.hgetall("k").await;
    assert_eq!(hash.into_iter().collect::<Vec<_>>(), [(guard.stay().to_string(), "1".to_owned())]);
    let ttl = server.pttl("k").await;
    assert!(ttl > 3_500_000 && ttl <= 3_600_000, "{ttl}");
    guard.unlock().await.expect("it was held");
}

/// When nobody uses it any more, the server has no connection of it left.
pub async fn the_last_handle_takes_its_connections_along(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let guard = here.mutex("k").lock().await.expect("it is free");
    let waiter = tokio::spawn(elsewhere.mutex("k").lock().into_future());
    eventually("it listens", || async { server.pubsub_channels().await.len() == 1 }).await;
    guard.unlock().await.expect("it was held");
    waiter.await.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    drop((here, elsewhere));
    eventually("no connection is left", || async { server.client_count().await == 0 }).await;
    assert_clean(&server, "k").await;
}
