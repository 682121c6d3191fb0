//! What a server, its network and its clients can suffer; each of these has a server of its own.

use std::future::IntoFuture;

use distlock::ErrorKind;
use tokio::time::timeout;

use super::{count, count_down, ms, secs};
use crate::proxy::Proxy;
use crate::suites::eventually;
use crate::suites::server::{open, step};
use crate::{Server, assert_clean};

/// §15, 12: a message that never comes delays a waiter, and no more.
pub async fn a_lost_message_hangs_nobody(server: Server) {
    let locks = open(&server.url(), 3).await;
    let latch = locks.latch("quiet");
    latch.init(1).await.expect("the server answers");
    let waiters = [(); 3].map(|()| tokio::spawn(latch.wait().into_future()));
    let channel = "redisson_countdownlatch__channel__{quiet}";
    eventually("it listens", || async { server.pubsub_channels().await == [channel] }).await;
    tokio::time::sleep(ms(100)).await;
    server.cli(&["DEL", "quiet"]).await;
    for waiter in waiters {
        let ended = timeout(secs(20), waiter).await.expect("it looks by itself");
        ended.expect("no panic").expect("it is open");
    }
    assert_clean(&server, "quiet").await;
}

/// A pub/sub connection that is cut is made anew, and whoever waits looks.
pub async fn a_lost_subscription_wakes_everybody(server: Server) {
    let locks = open(&server.url(), 3600).await;
    let latch = locks.latch("cut");
    latch.init(1).await.expect("the server answers");
    let waiters = [(); 3].map(|()| tokio::spawn(latch.wait().into_future()));
    let channel = "redisson_countdownlatch__channel__{cut}";
    eventually("it listens", || async { server.pubsub_channels().await == [channel] }).await;
    tokio::time::sleep(ms(100)).await;
    server.cli(&["DEL", "cut"]).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    for waiter in waiters {
        let ended = timeout(secs(20), waiter).await.expect("it looks again");
        ended.expect("no panic").expect("it is open");
    }
    assert_clean(&server, "cut").await;
}

/// A count-down whose request or answer is lost counts once, and its caller gets the right answer.
pub async fn a_lost_reply_counts_once(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let warm = beside.latch("warm");
    warm.init(1).await.expect("the server answers");
    count_down(&warm).await; // the server knows the scripts: what is lost is a step
    for (round, way) in [0, 1, 2].into_iter().enumerate() {
        let name = format!("lost-{round}");
        let lose = || match way {
            0 => proxy.swallow_replies_to(step(&name), 1),
            1 => proxy.reset_instead_of_replies_to(step(&name), 1),
            _ => proxy.drop_requests_to(step(&name), 1),
        };
        let (mine, theirs) = (locks.latch(&name), beside.latch(&name));
        theirs.init(3).await.expect("the server answers");
        let struck = lose();
        assert_eq!(count_down(&mine).await, 2);
        assert_eq!((struck.hits(), count(&theirs).await), (1, 2));
        // Others count meanwhile: the answer is that of the first time.
        let struck = lose();
        let slow = tokio::spawn({
            let mine = mine.clone();
            async move { mine.count_down().await }
        });
        struck.fired(1).await;
        assert!(count_down(&theirs).await < 2);
        let answer = slow.await.expect("no panic").expect("the server answers");
        assert!((0..2).contains(&answer), "{answer}");
        assert_eq!(count(&theirs).await, 0);
        // One that opens it, and the next latch of that name is set before it is asked again.
        if way < 2 {
            theirs.init(1).await.expect("the server answers");
            let struck = lose();
            let slow = tokio::spawn({
                let mine = mine.clone();
                async move { mine.count_down().await }
            });
            struck.fired(1).await;
            eventually("it is open", || async { count(&theirs).await == 0 }).await;
            theirs.init(7).await.expect("the server answers");
            assert_eq!(slow.await.expect("no panic").expect("the server answers"), 0);
            assert_eq!(count(&theirs).await, 7, "it counts for the one it was sent to");
            theirs.delete().await.expect("the server answers");
        }
        // A wait asks again, too.
        theirs.init(1).await.expect("the server answers");
        let struck = lose();
        assert!(!mine.wait_for(ms(0)).await.expect("the server answers"));
        assert_eq!(struck.hits(), 1);
        theirs.delete().await.expect("the server answers");
    }
    // What was in doubt is remembered for a minute, and nothing else is left.
    for mark in server.keys("{lost-*}:distlock_counted:*").await {
        let left = server.pttl(&mark).await;
        assert!((1..=60_000).contains(&left), "{mark}: {left}");
        server.cli(&["DEL", &mark]).await;
    }
    assert_clean(&server, "lost-").await;
}

/// A count-down that was asked for twice counts once, also if the first request arrives after the answer to the second.
pub async fn a_late_request_counts_once(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    // A user who may not end connections at the server: nothing keeps the first request from arriving.
    let rules = ["+@all", "-client", "~*", "&*"].map(str::to_owned);
    let url = server.user_with("lk", &rules);
    let url = url.replace(&server.addr().to_string(), &proxy.addr().to_string());
    let (locks, beside) = (open(&url, 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.latch("late"), beside.latch("late"));
    theirs.init(3).await.expect("the server answers");
    assert_eq!(count_down(&mine).await, 2); // the server knows the script
    eventually("nothing is in doubt", || async {
        server.keys("{late}:distlock_counted:*").await.is_empty()
    })
    .await;
    let mut held = proxy.deliver_late(step("late"), 1);
    assert_eq!(count_down(&mine).await, 1);
    assert_eq!(held.hits(), 1);
    // One without any doubt is forgotten; by then the other would be as well.
    let (sure, forgotten) = (locks.latch("sure"), proxy.watch(step("sure").and("forget")));
    sure.init(2).await.expect("the server answers");
    assert_eq!(count_down(&sure).await, 1);
    forgotten.fired(1).await;
    assert!(held.deliver().await.ran(), "nothing kept the first request from arriving");
    assert_eq!(count(&theirs).await, 1, "it counted twice");
}

/// Setting it cannot be told by setting it again: it may have happened.
pub async fn a_count_whose_answer_is_lost_is_not_set_twice(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.latch("set"), beside.latch("set"));
    assert_eq!(count(&theirs).await, 0);
    proxy.swallow_replies_to(step("set"), 1);
    let error = mine.init(4).await.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(count(&theirs).await, 4);
    theirs.delete().await.expect("the server answers");
}

/// A server that is gone is an outage, told in bounded time, and not a latch that is closed or open.
pub async fn a_server_that_is_gone_is_an_outage(server: Server) {
    let locks = open(&server.url(), 30).await;
    let latch = locks.latch("gone");
    latch.init(1).await.expect("the server answers");
    server.kill();
    // Long enough to be refused by the dead one, and not only to find the old connection broken.
    let wait = secs(2);
    let all = async {
        tokio::join!(
            latch.wait().into_future(),
            latch.wait_for(wait),
            latch.count_down(),
            latch.count()
        )
    };
    let (waited, timed, counted, asked) = timeout(secs(10), all).await.expect("bounded");
    for error in [
        waited.expect_err("nobody is there"),
        timed.map(drop).expect_err("nobody is there"),
        counted.map(drop).expect_err("nobody is there"),
        asked.map(drop).expect_err("nobody is there"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.lock_name(), Some("gone"));
    }
}
