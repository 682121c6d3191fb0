//! What a server, its network and its clients can suffer; each of these has a server of its own.

use std::future::IntoFuture;

use distlock::{ErrorKind, Locks, PermitId, State};
use tokio::time::{Instant, timeout};

use super::{HOUR, counts, done, ms, secs};
use crate::proxy::{Match, Proxy};
use crate::suites::eventually;
use crate::{Server, assert_clean, worker};

fn step(name: &str) -> Match {
    Match::command("EVALSHA").and(Match::token(name))
}

async fn open(url: &str, watchdog: u64) -> Locks {
    let locks = Locks::builder().url(url).watchdog(secs(watchdog)).connect().await;
    locks.expect("the server answers")
}

/// §15, 12: a message that never comes delays a waiter, and no more.
pub async fn a_lost_message_hangs_nobody(server: Server) {
    let locks = open(&server.url(), 3).await;
    let semaphore = locks.leased_semaphore("quiet");
    semaphore.init(0).await.expect("the server answers");
    let waiter = tokio::spawn(semaphore.acquire(2).into_future());
    let listens = || async { server.pubsub_channels().await == ["redisson_sc:{quiet}"] };
    eventually("it listens", listens).await;
    tokio::time::sleep(ms(100)).await;
    server.cli(&["INCRBY", "quiet", "2"]).await;
    let got = timeout(secs(5), waiter).await.expect("it looks by itself").expect("no panic");
    got.expect("two are left").release().await.expect("they were held");
    done(&semaphore).await;
    assert_clean(&server, "quiet").await;
}

/// A pub/sub connection that is cut is made anew, and whoever waits looks.
pub async fn a_lost_subscription_wakes_everybody(server: Server) {
    let locks = open(&server.url(), 3600).await;
    let semaphore = locks.leased_semaphore("cut");
    semaphore.init(0).await.expect("the server answers");
    let waiter = tokio::spawn(semaphore.acquire(1).into_future());
    let listens = || async { server.pubsub_channels().await == ["redisson_sc:{cut}"] };
    eventually("it listens", listens).await;
    tokio::time::sleep(ms(100)).await;
    server.cli(&["INCRBY", "cut", "1"]).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let got = timeout(secs(8), waiter).await.expect("it looks again").expect("no panic");
    got.expect("one is left").release().await.expect("it was held");
    done(&semaphore).await;
}

/// R#4462: the permits of a process that was killed come back within the watchdog's timeout.
pub async fn the_permits_of_a_killed_process_come_back(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.leased_semaphore("dead");
    semaphore.init(3).await.expect("the server answers");
    let mut holder = worker("worker").start().await;
    holder.wait_for("ready").await;
    holder.send(&format!("connect {} 1000", server.url()));
    holder.send("leases dead 2");
    let line = holder.wait_for("taken ").await;
    let ids: Vec<PermitId> = line.split(' ').skip(1).map(|id| id.parse().expect("an id")).collect();
    assert_eq!(ids.len(), 2);
    // Renewed while it lives.
    tokio::time::sleep(ms(1500)).await;
    assert_eq!(counts(&semaphore).await, (1, 2));
    let waiter = tokio::spawn(semaphore.acquire(3).into_future());
    tokio::time::sleep(ms(50)).await;
    let since = Instant::now();
    holder.kill();
    let all = timeout(secs(10), waiter).await.expect("they come back").expect("no panic");
    assert!(since.elapsed() < secs(3), "after {:?}", since.elapsed());
    assert_eq!(semaphore.release(&ids).await.expect_err("expired").kind(), ErrorKind::NotHeld);
    all.expect("they come back").release().await.expect("they were held");
    done(&semaphore).await;
    assert_clean(&server, "dead").await;
}

/// Whichever reply is lost, permits are taken once, renewed and given back once.
pub async fn a_lost_reply_counts_once(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    for (round, reset) in [false, true].into_iter().enumerate() {
        let name = format!("lost-{round}");
        let lose = || match reset {
            true => proxy.reset_instead_of_replies_to(step(&name), 1),
            false => proxy.swallow_replies_to(step(&name), 1),
        };
        let (mine, theirs) = (locks.leased_semaphore(&name), beside.leased_semaphore(&name));
        // The server knows the scripts: what is lost is a step.
        let first = theirs.clone().with_permits(5).acquire(1).await.expect("left");
        first.extend(HOUR).await.expect("held");
        first.release().await.expect("held");

        let struck = lose();
        let two = mine.acquire(2).await.expect("five are left");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (3, 2)));
        let struck = lose();
        two.extend(HOUR).await.expect("they are held");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (3, 2)));
        assert!(theirs.remaining(two.ids()[1]).await.expect("answers").expect("out") > secs(3000));
        eventually("believed in again", || async { two.state() == State::Held }).await;
        let struck = lose();
        two.release().await.expect("they were held");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (5, 0)));

        let struck = lose();
        let all = mine.try_acquire(5).await.expect("the server answers").expect("five are left");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (0, 5)));
        let struck = lose();
        drop(all);
        eventually("all are back", || async { counts(&theirs).await == (5, 0) }).await;
        struck.fired(1).await;
        done(&theirs).await;
    }
    assert_clean(&server, "lost-").await;
}

/// A caller who leaves while its answer is lost has taken nothing; a list whose answer is lost was released once.
pub async fn nobody_is_left_with_what_nobody_knows(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.leased_semaphore("left"), beside.leased_semaphore("left"));
    theirs.clone().with_permits(3).acquire(1).await.expect("left").release().await.expect("held");
    let struck = proxy.swallow_replies_to(step("left"), 1);
    let caller = tokio::spawn(mine.acquire(2).into_future());
    struck.fired(1).await;
    caller.abort();
    drop(caller.await);
    eventually("all are back", || async { counts(&theirs).await == (3, 0) }).await;

    let guard = theirs.acquire(2).lease(HOUR).await.expect("left");
    let ids = guard.ids();
    guard.leak();
    proxy.swallow_replies_to(step("left"), 1);
    let error = mine.release(&ids).await.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(counts(&theirs).await, (3, 0));
    assert_eq!(mine.release(&ids).await.expect_err("gone").kind(), ErrorKind::NotHeld);
    assert_eq!(counts(&theirs).await, (3, 0));
    done(&theirs).await;
    assert_clean(&server, "left").await;
}

/// One round trip in, one out, nothing else; and Redisson's layout. Redisson: testGetInClusterNameMapper, a name that is
/// mapped is mapped for every key.
pub async fn an_uncontended_permit_costs_two_commands(server: Server) {
    let locks = Locks::builder().url(server.url()).prefix("app:").connect().await;
    let locks = locks.expect("the server answers");
    let semaphore = locks.leased_semaphore("cheap").with_permits(2);
    semaphore.acquire(1).await.expect("left").release().await.expect("held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        semaphore.acquire(1).await.expect("left").release().await.expect("held");
    }
    assert_eq!(server.calls("evalsha").await, 20);
    assert_eq!(server.calls("subscribe").await, 0);
    let one = semaphore.acquire(1).await.expect("left");
    assert_eq!(server.keys("*").await, ["app:cheap", "{app:cheap}:timeout"]);
    one.release().await.expect("it was held");
    done(&semaphore).await;
}

/// An answer that comes after its lease has ended is no answer; and what is then asked for again is not taken back by the
/// first one's clearing up.
pub async fn an_answer_that_is_late_gives_nothing_away(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.leased_semaphore("late"), beside.leased_semaphore("late"));
    theirs.init(1).await.expect("the server answers");
    mine.acquire(1).await.expect("left").release().await.expect("held");
    proxy.latency(ms(400));
    // Clearing up gets lost, and is sent again when the permit has been acquired anew.
    let clearing_up = proxy.drop_requests_to(step("late").and(Match::token("hold")), 1);
    let caller = tokio::spawn(mine.acquire(1).lease(ms(300)).into_future());
    tokio::time::sleep(ms(200)).await;
    proxy.latency(ms(0));
    let guard = timeout(secs(10), caller).await.expect("it gets in").expect("no panic");
    let guard = guard.expect("one is left");
    guard.extend(HOUR).await.expect("it is held");
    let end = Instant::now() + secs(3);
    while Instant::now() < end {
        tokio::time::sleep(ms(20)).await;
        assert_eq!(counts(&theirs).await, (0, 1), "a guard without its permit: {clearing_up:?}");
    }
    guard.release().await.expect("it was held");
    assert_eq!(counts(&theirs).await, (1, 0));
    done(&theirs).await;
    assert_clean(&server, "late").await;
}
