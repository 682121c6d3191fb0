//! What a server, its network and its clients can suffer; each of these has a server of its own.

use std::future::IntoFuture;

use distlock::{ErrorKind, Locks, Owner};
use tokio::time::{Instant, timeout};

use super::{done, left, ms, secs};
use crate::proxy::{Match, Proxy};
use crate::suites::eventually;
use crate::{Server, assert_clean, worker};

/// What a script's name is on the wire is not known here; but every step names the semaphore.
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
    let semaphore = locks.semaphore("quiet");
    semaphore.init(0).await.expect("the server answers");
    let waiter = tokio::spawn(semaphore.acquire(2).into_future());
    let listens = || async { server.pubsub_channels().await == ["redisson_sc:{quiet}"] };
    eventually("it listens", listens).await;
    tokio::time::sleep(ms(100)).await;
    // Somebody gives them back and cannot say so.
    server.cli(&["INCRBY", "quiet", "2"]).await;
    let got = timeout(secs(5), waiter).await.expect("it looks by itself").expect("no panic");
    got.expect("two are left").release().await.expect("they were held");
    done(&semaphore).await;
    assert_clean(&server, "quiet").await;
}

/// A pub/sub connection that is cut is made anew, and whoever waits looks.
pub async fn a_lost_subscription_wakes_everybody(server: Server) {
    let locks = open(&server.url(), 3600).await;
    let semaphore = locks.semaphore("cut");
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

/// R#7367 and its like: whichever reply is lost, permits are taken once and given back once.
pub async fn a_lost_reply_counts_once(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    for (round, reset) in [false, true].into_iter().enumerate() {
        let name = format!("lost-{round}");
        let lose = || match reset {
            true => proxy.reset_instead_of_replies_to(step(&name), 1),
            false => proxy.swallow_replies_to(step(&name), 1),
        };
        let (mine, theirs) = (locks.semaphore(&name), beside.semaphore(&name));
        // The server knows the scripts: what is lost is a step.
        theirs
            .clone()
            .with_permits(5)
            .acquire(1)
            .await
            .expect("left")
            .release()
            .await
            .expect("held");

        let struck = lose();
        let two = mine.acquire(2).await.expect("five are left");
        assert_eq!(struck.hits(), 1);
        assert_eq!(left(&theirs).await, 3);
        let struck = lose();
        two.release().await.expect("they were held");
        assert_eq!(struck.hits(), 1);
        assert_eq!(left(&theirs).await, 5);

        // A single attempt is no other, and neither is one that is refused.
        let struck = lose();
        let all = mine.try_acquire(5).await.expect("the server answers").expect("five are left");
        assert_eq!((struck.hits(), left(&theirs).await), (1, 0));
        let struck = lose();
        assert!(mine.try_acquire(1).await.expect("the server answers").is_none());
        assert_eq!((struck.hits(), left(&theirs).await), (1, 0));
        // Nor is a guard that is dropped.
        let struck = lose();
        drop(all);
        eventually("all are back", || async { left(&theirs).await == 5 }).await;
        struck.fired(1).await;
        assert!(!theirs.inspect().await.expect("the server answers").is_held());
        done(&theirs).await;
    }
    assert_clean(&server, "lost-").await;
}

/// A caller who leaves while its answer is lost has taken nothing.
pub async fn a_caller_who_leaves_after_a_lost_reply_has_nothing(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.semaphore("left"), beside.semaphore("left"));
    theirs.clone().with_permits(3).acquire(1).await.expect("left").release().await.expect("held");
    for wait in [None, Some(ms(50))] {
        let struck = proxy.swallow_replies_to(step("left"), 1);
        let request = mine.acquire(2);
        let request = match wait {
            Some(wait) => request.wait(wait),
            None => request,
        };
        let caller = tokio::spawn(request.into_future());
        struck.fired(1).await;
        if wait.is_none() {
            caller.abort();
        }
        drop(caller.await);
        eventually("all are back", || async { left(&theirs).await == 3 }).await;
        assert!(!theirs.inspect().await.expect("the server answers").is_held());
    }
    done(&theirs).await;
    assert_clean(&server, "left").await;
}

/// What cannot be told by sending it again is told: it may have happened.
pub async fn a_change_whose_answer_is_lost_is_not_done_twice(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.semaphore("change"), beside.semaphore("change"));
    theirs.add(0).await.expect("the server answers");
    done(&theirs).await;
    let lose = || proxy.swallow_replies_to(step("change"), 1);
    lose();
    let error = mine.init(10).await.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(left(&theirs).await, 10);
    lose();
    assert_eq!(mine.add(5).await.expect_err("nobody knows").kind(), ErrorKind::Indeterminate);
    assert_eq!(left(&theirs).await, 15);
    lose();
    assert_eq!(mine.release(1).await.expect_err("nobody knows").kind(), ErrorKind::Indeterminate);
    assert_eq!(left(&theirs).await, 16);
    lose();
    assert_eq!(left(&mine).await, 16, "a question is asked again");
    done(&theirs).await;
}

/// R#4462: the permits of a process that was killed stay out, but it is known whose they are.
pub async fn the_permits_of_a_killed_process_can_be_given_back(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.semaphore("dead");
    semaphore.init(3).await.expect("the server answers");
    let mut holder = worker("worker").start().await;
    holder.wait_for("ready").await;
    holder.send(&format!("connect {} 1000", server.url()));
    holder.send("permits dead 2");
    let line = holder.wait_for("taken ").await;
    let owner: Owner = line.trim_start_matches("taken ").parse().expect("an owner");
    holder.kill();
    tokio::time::sleep(ms(1200)).await;
    assert_eq!(left(&semaphore).await, 1, "they have no lease");
    let seen = semaphore.inspect().await.expect("the server answers");
    assert_eq!(seen.depth_of(&owner), 2);
    semaphore.unlock(&owner).await.expect("they are out");
    assert_eq!(left(&semaphore).await, 3);
    done(&semaphore).await;
    assert_clean(&server, "dead").await;
}

/// One round trip in, one out, nothing else.
pub async fn an_uncontended_permit_costs_two_commands(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.semaphore("cheap").with_permits(2);
    semaphore.acquire(1).await.expect("left").release().await.expect("held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        semaphore.acquire(1).await.expect("left").release().await.expect("held");
    }
    assert_eq!(server.calls("evalsha").await, 20);
    assert_eq!(server.calls("subscribe").await, 0);
    done(&semaphore).await;
}

/// A server that is gone is an outage, told in bounded time, and not a busy semaphore.
pub async fn a_server_that_is_gone_is_an_outage(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.semaphore("gone").with_permits(1);
    let held = semaphore.acquire(1).await.expect("one is left");
    server.kill();
    let since = Instant::now();
    let (once, short, asked) = tokio::join!(
        semaphore.try_acquire(1).into_future(),
        semaphore.acquire(1).wait(ms(500)).into_future(),
        semaphore.available(),
    );
    let set = semaphore.init(5).await;
    for error in [
        once.map(drop).expect_err("nobody is there"),
        short.map(drop).expect_err("nobody is there"),
        asked.map(drop).expect_err("nobody is there"),
        set.map(drop).expect_err("nobody is there"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.lock_name(), Some("gone"));
    }
    assert!(since.elapsed() < secs(8), "{:?}", since.elapsed());
    let released = timeout(secs(8), held.release()).await.expect("bounded");
    assert_eq!(released.expect_err("nobody is there").kind(), ErrorKind::Unavailable);
}
