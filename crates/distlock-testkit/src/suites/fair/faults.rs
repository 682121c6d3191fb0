//! Lost replies, lost calls, a server that pauses or forgets: nobody is left in the queue, and nobody waits for ever.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::{ErrorKind, Guard, Locks, Result};
use tokio::time::{Instant, timeout};

use super::line::Waiter;
use super::wire::Queue;
use crate::suites::{Section, eventually};
use crate::{Match, Proxy, Server, Stopwatch, assert_clean};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const SOON: Duration = Duration::from_secs(30);

/// A server with two clients: one through the proxy, one beside it; the server knows the scripts.
struct Stage {
    far: Locks,
    near: Locks,
    proxy: Proxy,
    server: Server,
}

impl Stage {
    async fn new(server: Server) -> Stage {
        let proxy = Proxy::start(server.addr()).await;
        let far = Locks::connect(&proxy.url()).await.expect("the server answers");
        let near = Locks::connect(&server.url()).await.expect("the server answers");
        let guard = near.fair("warm").lock().await.expect("it is free");
        Waiter::join(&near, "warm").await.leaves();
        guard.unlock().await.expect("it was held");
        assert_clean(&server, "").await;
        Stage { far, near, proxy, server }
    }

    /// Loses the reply to the `nth` step about `name`, counted from 0.
    fn lose_reply(&self, name: &str, nth: u64, silently: bool) -> crate::proxy::Rule {
        let seen = Arc::new(AtomicU64::new(0));
        let matcher = Match::command("EVALSHA")
            .and(Match::token(name))
            .and(Match::by(move |_| seen.fetch_add(1, Ordering::SeqCst) == nth));
        match silently {
            true => self.proxy.swallow_replies_to(matcher, 1),
            false => self.proxy.reset_instead_of_replies_to(matcher, 1),
        }
    }

    async fn heal(&self) {
        self.proxy.heal().await;
        self.proxy.reset_all().await;
    }

    async fn empty(&self, name: &str) {
        let queue = Queue::of(&self.server, name);
        eventually("nobody is in the queue", || async { queue.len().await == 0 }).await;
    }
}

fn is_outage(error: &distlock::Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// R#5019, R#7223: whichever reply a waiter misses, and however it misses it, its place is gone when it has left.
pub async fn a_lost_reply_leaves_no_place_behind(server: Server) {
    let stage = Stage::new(server).await;
    for silently in [false, true] {
        // It asks, asks again when it listens, and leaves.
        for nth in 0..3 {
            let name = format!("k-{silently}-{nth}");
            let guard = stage.near.fair(&name).lock().await.expect("it is free");
            let rule = stage.lose_reply(&name, nth, silently);
            let outcome = stage.far.fair(&name).try_lock().wait(ms(700)).await;
            match outcome {
                Ok(got) => assert!(got.is_none(), "two are inside"),
                Err(e) => assert!(is_outage(&e), "{e}"),
            }
            rule.fired(1).await;
            stage.empty(&name).await;
            guard.unlock().await.expect("it was held");
            let since = Stopwatch::start();
            let next = stage.near.fair(&name).lock().await.expect("it is free");
            assert!(since.elapsed() < ms(900), "in after {:?}", since.elapsed());
            next.unlock().await.expect("it was held");
            stage.heal().await;
        }
    }
    assert_clean(&stage.server, "k-").await;
}

/// The same for one that is dropped while the reply is missing.
pub async fn a_request_dropped_after_a_lost_reply_leaves_no_place(server: Server) {
    let stage = Stage::new(server).await;
    for silently in [false, true] {
        for nth in 0..2 {
            let name = format!("k-{silently}-{nth}");
            let guard = stage.near.fair(&name).lock().await.expect("it is free");
            let rule = stage.lose_reply(&name, nth, silently);
            let request = tokio::spawn(stage.far.fair(&name).lock().into_future());
            rule.fired(1).await;
            request.abort();
            stage.empty(&name).await;
            guard.unlock().await.expect("it was held");
            stage.heal().await;
        }
    }
    assert_clean(&stage.server, "k-").await;
}

/// Whichever reply a waiter misses that gets in, it gets in once and in turn.
pub async fn a_lost_reply_costs_nobody_its_turn(server: Server) {
    let stage = Stage::new(server).await;
    // It asks, asks again, enters, leaves; the last round loses nothing.
    for nth in 0..5 {
        let name = format!("k-{nth}");
        let guard = stage.near.fair(&name).lock().await.expect("it is free");
        let rule = stage.lose_reply(&name, nth, false);
        let first = Waiter::join(&stage.far, &name).await;
        let second = Waiter::join(&stage.near, &name).await;
        Queue::of(&stage.server, &name).listen(2).await;
        let section = Section::new();
        guard.unlock().await.expect("it was held");
        for waiter in [first, second] {
            let guard = waiter.enters().await;
            section.visit().await;
            let fields = stage.server.hgetall(&name).await;
            assert_eq!(
                fields.into_iter().collect::<Vec<_>>(),
                [(guard.stay().to_string(), "1".into())]
            );
            guard.unlock().await.expect("it was held");
        }
        assert!(rule.hits() <= 1);
        stage.heal().await;
    }
    assert_clean(&stage.server, "k-").await;
}

/// Redisson: testAcquireFailedNotCalledOnRedisTimeout. The server pauses while somebody waits, and the wait runs out.
pub async fn a_pause_of_the_server_leaves_nobody_in_the_queue(server: Server) {
    let locks = Locks::connect(&server.url()).await.expect("the server answers");
    let queue = Queue::of(&server, "k");
    // Long enough to be seen in line, on a machine that stands still for a while.
    let wait = ms(3000);
    // Shorter than a reply may take, and longer; the wait runs out in between.
    for (pause, before) in [("600", ms(250)), ("2500", ms(900))] {
        let guard = locks.fair("k").lock().await.expect("it is free");
        let lock = locks.fair("k");
        let since = Instant::now();
        let waiter = tokio::spawn(lock.try_lock().wait(wait).into_future());
        eventually("it is in line", || async { queue.len().await == 1 }).await;
        queue.listen(1).await;
        tokio::time::sleep_until(since + wait - before).await;
        server.cli(&["CLIENT", "PAUSE", pause, "ALL"]).await;
        let outcome: Result<Option<Guard>> =
            timeout(SOON, waiter).await.expect("bounded").expect("no panic");
        match outcome {
            Ok(got) => assert!(got.is_none(), "two are inside"),
            // A machine that stands still makes a pause longer.
            Err(e) => {
                assert!(
                    is_outage(&e) && (pause == "2500" || since.elapsed() > wait + ms(900)),
                    "{e}"
                )
            }
        }
        eventually("nobody is in the queue", || async { queue.len().await == 0 }).await;
        guard.unlock().await.expect("it was held");
        let free = locks.fair("k").try_lock().await.expect("the store answers");
        free.expect("it is free").unlock().await.expect("it was held");
    }
    assert_clean(&server, "").await;
}

/// A call is lost with the connection that it should have come over: whoever reconnects asks.
pub async fn a_lost_call_is_made_up_for(server: Server) {
    let locks = Locks::connect(&server.url()).await.expect("the server answers");
    let other = Locks::connect(&server.url()).await.expect("the server answers");
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let line = [Waiter::join(&other, "k").await, Waiter::join(&other, "k").await];
    queue.listen(2).await;
    let since = Stopwatch::start();
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    guard.unlock().await.expect("it was held");
    for waiter in line {
        waiter.enters().await.unlock().await.expect("it was held");
    }
    let took = since.elapsed();
    assert!(took < Duration::from_secs(8), "both in after {took:?}");
    assert_clean(&server, "").await;
}

/// A server that forgets everything: everybody takes a new place, and gets in.
pub async fn a_server_that_forgets_its_queue_leaves_nobody_out(server: Server) {
    let locks = Locks::connect(&server.url()).await.expect("the server answers");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let mut line = Vec::new();
    for _ in 0..5 {
        line.push(Waiter::join(&locks, "k").await);
    }
    server.restart().await;
    drop(guard);
    let section = Section::new();
    let all = line.into_iter().map(|waiter| {
        let section = section.clone();
        tokio::spawn(async move {
            let guard = waiter.enters().await;
            section.visit().await;
            guard.unlock().await.expect("it was held");
        })
    });
    for one in all.collect::<Vec<_>>() {
        timeout(Duration::from_secs(40), one).await.expect("bounded").expect("no panic");
    }
    assert_eq!(section.entries(), 5);
    assert_clean(&server, "").await;
}
