//! Promises that look at a whole server.

use std::future::IntoFuture;

use distlock::{ErrorKind, Locks};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{HOUR, ms, secs};
use crate::Server;
use crate::cancel::poll_once;
use crate::suites::eventually;
use crate::suites::times::STEADY;

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

async fn open_with_watchdog(server: &Server) -> Locks {
    let builder = Locks::builder().url(server.url()).watchdog(STEADY);
    builder.connect().await.expect("the server answers")
}

/// Redisson: testReadLockAfterTimeout. After the server has forgotten a read, its unlock says so, and later reads are renewed.
pub async fn a_read_that_the_server_forgot_is_lost_and_the_next_is_kept(server: Server) {
    let locks = open_with_watchdog(&server).await;
    let rw = locks.rw("k");
    let reading = rw.read().await.expect("it is free");
    server.restart().await;
    timeout(secs(20), reading.lost()).await.expect("nobody has it any more");
    assert_eq!(reading.unlock().await.expect_err("it is lost").kind(), ErrorKind::Lost);
    let again = rw.read().wait(secs(20)).await.expect("the server is back");
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(!again.is_lost());
    assert_eq!(rw.read_hold_count(again.owner()).await.expect("the server answers"), 1);
    again.unlock().await.expect("it was held");
    eventually("no key is left", || async { server.keys("*k*").await.is_empty() }).await;
}

/// Redisson: testWriteLockAfterTimeout.
pub async fn a_write_that_the_server_forgot_is_lost_and_the_next_is_kept(server: Server) {
    let locks = open_with_watchdog(&server).await;
    let rw = locks.rw("k");
    let writing = rw.write().await.expect("it is free");
    server.restart().await;
    timeout(secs(20), writing.lost()).await.expect("nobody has it any more");
    assert_eq!(writing.unlock().await.expect_err("it is lost").kind(), ErrorKind::Lost);
    let again = rw.write().wait(secs(20)).await.expect("the server is back");
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(!again.is_lost());
    assert_eq!(rw.write_hold_count(again.owner()).await.expect("the server answers"), 1);
    again.unlock().await.expect("it was held");
    eventually("no key is left", || async { server.keys("*k*").await.is_empty() }).await;
}

/// One round trip in, one out, in each half.
pub async fn an_uncontended_half_costs_two_commands(server: Server) {
    let locks = open(&server).await;
    let rw = locks.rw("k");
    for round in 0..2 {
        server.reset_stats().await;
        for _ in 0..10 {
            let reading = rw.read().lease(HOUR).await.expect("it is free");
            reading.unlock().await.expect("it was held");
            let writing = rw.write().lease(HOUR).await.expect("it is free");
            writing.unlock().await.expect("it was held");
        }
        if round == 1 {
            assert_eq!(server.calls("evalsha").await, 40);
            assert_eq!(server.calls("subscribe").await, 0);
        }
    }
}

/// When a writer leaves, twenty readers of one process come in with one message, one attempt that finds it open, and one command
/// for each of the others.
pub async fn readers_that_come_in_together_cost_one_command_each(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let writing = elsewhere.rw("k").write().lease(HOUR).await.expect("it is free");
    let mut readers = JoinSet::new();
    for _ in 0..20 {
        let mut reader = here.rw("k").read().lease(HOUR).into_future();
        poll_once(&mut reader).await;
        readers.spawn(reader);
    }
    eventually("they listen", || async { server.pubsub_channels().await.len() == 1 }).await;
    tokio::time::sleep(ms(100)).await; // and have asked once more
    server.reset_stats().await;
    writing.unlock().await.expect("it was held");
    let mut inside = Vec::new();
    while let Some(reader) = timeout(secs(10), readers.join_next()).await.expect("they get in") {
        inside.push(reader.expect("no panic").expect("it gets free"));
    }
    let commands = server.calls("evalsha").await;
    // The release, and one for each; a few may have asked again before the message came.
    assert!((21..=24).contains(&commands), "{commands} commands for a release and 20 readers");
    for guard in inside {
        guard.unlock().await.expect("it was held");
    }
    eventually("no key is left", || async { server.keys("*k*").await.is_empty() }).await;
}

/// Everything a lock leaves on the server while it is held is named after it, and goes with it.
pub async fn nothing_is_left_of_what_was_held(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let me = here.owner();
    let outer = here.rw("k").read().owner(&me).lease(HOUR).await.expect("it is free");
    let inner = here.rw("k").read().owner(&me).lease(HOUR).await.expect("it is mine");
    let waits = tokio::spawn(elsewhere.rw("k").write().into_future());
    let keys = [
        "k".to_owned(),
        "{k}:distlock_writer".to_owned(),
        format!("{{k}}:{}:rwlock_timeout:1", outer.stay()),
        format!("{{k}}:{}:rwlock_timeout:2", outer.stay()),
    ];
    let all = || async {
        let mut found = server.keys("*").await;
        found.sort_by_key(|key| keys.iter().position(|known| known == key));
        found == keys
    };
    eventually("these keys and no others", all).await;
    for key in &keys {
        assert!(server.pttl(key).await > 0, "{key} would stay for ever");
    }
    waits.abort();
    drop(waits.await);
    let gone = || async { !server.exists("{k}:distlock_writer").await };
    eventually("nobody waits any more", gone).await;
    drop((outer, inner));
    eventually("no key is left", || async { server.keys("*").await.is_empty() }).await;
}
