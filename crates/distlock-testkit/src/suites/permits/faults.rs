//! What a server, its network and its clients can suffer; each of these has a server of its own.

use std::future::IntoFuture;

use distlock::ErrorKind;
use tokio::time::{Instant, timeout};

use super::{Kind, all_back, counts, done};
use crate::proxy::Proxy;
use crate::suites::eventually;
use crate::suites::server::{open, step};
use crate::suites::times::{ms, secs};
use crate::{Server, assert_clean};

/// §15, 12: a message that never comes delays a waiter, and no more.
pub(crate) async fn a_lost_message_hangs_nobody<S: Kind>(server: Server) {
    let semaphore = S::of(&open(&server.url(), 3).await, "quiet");
    semaphore.init(0).await.expect("the server answers");
    let waiter = tokio::spawn(semaphore.acquire(2).into_future());
    let listens = || async { server.pubsub_channels().await == ["redisson_sc:{quiet}"] };
    eventually("it listens", listens).await;
    tokio::time::sleep(ms(100)).await;
    // Somebody gives them back and cannot say so.
    server.cli(&["INCRBY", "quiet", "2"]).await;
    let got = timeout(secs(20), waiter).await.expect("it looks by itself").expect("no panic");
    got.expect("two are left").release().await.expect("they were held");
    done(&semaphore).await;
    assert_clean(&server, "quiet").await;
}

/// A pub/sub connection that is cut is made anew, and whoever waits looks.
pub(crate) async fn a_lost_subscription_wakes_everybody<S: Kind>(server: Server) {
    let semaphore = S::of(&open(&server.url(), 3600).await, "cut");
    semaphore.init(0).await.expect("the server answers");
    let waiter = tokio::spawn(semaphore.acquire(1).into_future());
    let listens = || async { server.pubsub_channels().await == ["redisson_sc:{cut}"] };
    eventually("it listens", listens).await;
    tokio::time::sleep(ms(100)).await;
    server.cli(&["INCRBY", "cut", "1"]).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let got = timeout(secs(20), waiter).await.expect("it looks again").expect("no panic");
    got.expect("one is left").release().await.expect("it was held");
    done(&semaphore).await;
}

/// R#7367 and its like: whichever reply is lost, permits are taken once and given back once.
pub(crate) async fn a_lost_reply_counts_once<S: Kind>(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    for (round, reset) in [false, true].into_iter().enumerate() {
        let name = format!("lost-{round}");
        let lose = || match reset {
            true => proxy.reset_instead_of_replies_to(step(&name), 1),
            false => proxy.swallow_replies_to(step(&name), 1),
        };
        let (mine, theirs) = (S::of(&locks, &name), S::of(&beside, &name));
        // The server knows the scripts: what is lost is a step.
        let first = theirs.clone().with_permits(5).acquire(1).await.expect("five are left");
        first.release().await.expect("it was held");

        let struck = lose();
        let two = mine.acquire(2).await.expect("five are left");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (3, 2)));
        let struck = lose();
        two.release().await.expect("they were held");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (5, 0)));

        // A single attempt is no other, and neither is one that is refused.
        let struck = lose();
        let all = mine.try_acquire(5).await.expect("the server answers").expect("five are left");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (0, 5)));
        let struck = lose();
        assert!(mine.try_acquire(1).await.expect("the server answers").is_none());
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (0, 5)));
        // Nor is a guard that is dropped.
        let struck = lose();
        drop(all);
        all_back(&theirs, 5).await;
        struck.fired(1).await;
        assert!(!theirs.inspect().await.expect("the server answers").is_held());
        done(&theirs).await;
    }
    assert_clean(&server, "lost-").await;
}

/// A caller who leaves while its answer is lost has taken nothing.
pub(crate) async fn a_caller_who_leaves_after_a_lost_reply_has_nothing<S: Kind>(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (S::of(&locks, "left"), S::of(&beside, "left"));
    let first = theirs.clone().with_permits(3).acquire(1).await.expect("three are left");
    first.release().await.expect("it was held");
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
        all_back(&theirs, 3).await;
        assert!(!theirs.inspect().await.expect("the server answers").is_held());
    }
    done(&theirs).await;
    assert_clean(&server, "left").await;
}

/// One round trip in, one out, nothing else.
pub(crate) async fn an_uncontended_permit_costs_two_commands<S: Kind>(server: Server) {
    let semaphore = S::of(&open(&server.url(), 30).await, "cheap").with_permits(2);
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
pub(crate) async fn a_server_that_is_gone_is_an_outage<S: Kind>(server: Server) {
    let semaphore = S::of(&open(&server.url(), 30).await, "gone").with_permits(1);
    let held = semaphore.acquire(1).await.expect("one is left");
    server.kill();
    // Long enough to be refused by the dead one, and not only to find the old connection broken.
    let wait = secs(2);
    let since = Instant::now();
    let (once, short, asked) = tokio::join!(
        semaphore.try_acquire(1).into_future(),
        semaphore.acquire(1).wait(wait).into_future(),
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
    assert!(since.elapsed() < secs(12), "{:?}", since.elapsed());
    let released = timeout(secs(12), held.release()).await.expect("bounded");
    assert_eq!(released.expect_err("nobody is there").kind(), ErrorKind::Unavailable);
}
