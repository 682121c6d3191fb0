//! Real servers that are killed, emptied, frozen and brought back.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Guard, Locks, RedLock, State};
use distlock_testkit::proxy::{Match, Proxy};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Server, Stopwatch};
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);
/// The command time-out, a reply time-out, and a busy machine.
const GRACE: Duration = Duration::from_secs(3 + 1 + 4);

pub(crate) async fn servers(count: usize) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(Server::redis().await);
    }
    servers
}

/// One more process.
pub(crate) async fn connect(servers: &[Server], watchdog: Duration) -> RedLock {
    let mut nodes = Vec::new();
    for server in servers {
        let builder = Locks::builder().url(server.url()).watchdog(watchdog);
        nodes.push(builder.connect().await.expect("a connection"));
    }
    RedLock::new("k", &nodes)
}

/// How many of these have the hold.
async fn known(servers: &[Server], guard: &Guard) -> usize {
    let (mut known, owner) = (0, guard.stay().to_string());
    for server in servers {
        known += usize::from(server.hgetall("k").await.contains_key(&owner));
    }
    known
}

/// A single try gets nothing. On a machine that stands still too few servers may answer it in time: then it is repeated, because that
/// says nothing of who is inside.
async fn is_refused(lock: &RedLock) {
    let refused = || async {
        match lock.try_lock().await {
            Ok(second) => {
                assert!(second.is_none(), "two are inside");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                false
            }
        }
    };
    eventually("a majority answers", refused).await;
}

/// Takes a lock that is free, as often as too few servers answer in time.
async fn acquired(lock: &RedLock) -> Guard {
    let since = Instant::now();
    loop {
        match lock.lock().wait(GRACE).await {
            Ok(guard) => return guard,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                assert!(since.elapsed() < 4 * GRACE, "{error}");
            }
        }
    }
}

/// Releases a hold that was not lost. What too few servers answer in time is released in the background.
async fn released(guard: Guard) {
    if let Err(error) = guard.unlock().await {
        let late = [ErrorKind::NoQuorum, ErrorKind::Indeterminate, ErrorKind::Unavailable];
        assert!(late.contains(&error.kind()), "{error}");
    }
}

/// None of these has any key.
pub(crate) async fn assert_empty(servers: &[Server]) {
    for server in servers {
        eventually("no key is left", || async { server.keys("*").await.is_empty() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_killed_do_not_matter() {
    let servers = servers(5).await;
    let watchdog = Duration::from_secs(9);
    let (here, elsewhere) = (connect(&servers, watchdog).await, connect(&servers, watchdog).await);
    // Killed under a hold, which is kept and released.
    let guard = here.lock().await.expect("free");
    servers[1].kill();
    servers[4].kill();
    let alive = [&servers[0], &servers[2], &servers[3]];
    let since = Instant::now();
    while since.elapsed() < watchdog * 4 / 3 {
        assert!(!guard.is_lost(), "lost after {:?}", since.elapsed());
        is_refused(&elsewhere).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // A renewal that one of the three was late for leaves it in doubt until the next.
    eventually("it is held", || async { guard.state() == State::Held }).await;
    guard.unlock().await.expect("held");
    // And everything works without them.
    for process in [&elsewhere, &here] {
        let guard = process.lock().lease(HOUR).await.expect("free");
        guard.extend(HOUR * 2).await.expect("held");
        let waiter = tokio::spawn(here.lock().into_future());
        tokio::time::sleep(Duration::from_millis(50)).await;
        guard.unlock().await.expect("held");
        let next = timeout(GRACE, waiter).await.expect("it is woken").expect("no panic");
        next.expect("free").unlock().await.expect("held");
    }
    for server in alive {
        eventually("no key is left", || async { server.keys("*").await.is_empty() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_of_five_killed_is_no_quorum_in_time_and_says_what_each_of_them_said() {
    let servers = servers(5).await;
    let here = connect(&servers, Duration::from_secs(30)).await;
    here.lock().await.expect("free").unlock().await.expect("held");
    for server in &servers[1..4] {
        server.kill();
    }
    for wait in [Some(Duration::ZERO), Some(Duration::from_millis(500)), None] {
        let each_is_quoted = || async {
            let request = here.lock().lease(HOUR);
            let request = if let Some(wait) = wait { request.wait(wait) } else { request };
            let since = Stopwatch::start();
            let error = request.await.expect_err("three are gone");
            let took = since.elapsed();
            assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
            assert!(error.is_retryable());
            assert!(took < wait.unwrap_or_default() + GRACE, "after {took:?}");
            let text = error.to_string();
            println!("{text}");
            assert!(text.contains(" of 5 servers agreed, 3 are needed: "), "{text}");
            servers.iter().enumerate().all(|(at, server)| {
                let said = text.split("; ").find(|part| part.contains(&server.addr().to_string()));
                let said = said.unwrap_or_else(|| panic!("{} is not in {text}", server.addr()));
                // What it was asked may have been to take it, or to take back what it may have given before.
                let answered = ["granted", "released", "did not hold it"];
                let answered = answered.iter().any(|answer| said.contains(answer));
                let lives = at == 0 || at == 4;
                assert!(lives || !answered, "{said}");
                answered == lives
            })
        };
        // One that lives may be late, which is what is said of it then.
        eventually("those that live are quoted with their answers", each_is_quoted).await;
    }
    let error = here.try_lock().await.expect_err("three are gone");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    // What the other two gave is given back.
    for at in [0, 4] {
        eventually("no key is left", || async { servers[at].keys("*").await.is_empty() }).await;
    }
    for server in &servers[1..4] {
        server.restart().await;
    }
    here.lock().wait(GRACE).await.expect("all are back").unlock().await.expect("held");
    assert_empty(&servers).await;
}

/// redsync#147, redsync#149: emptied or restarted, it lets nobody in and gets the hold back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_node_lets_nobody_in_and_is_healed_by_the_next_renewal() {
    let servers = servers(3).await;
    let watchdog = Duration::from_secs(9);
    let (here, elsewhere) = (connect(&servers, watchdog).await, connect(&servers, watchdog).await);
    let guard = acquired(&here).await;
    for (round, at) in [0, 2, 1, 0].into_iter().enumerate() {
        eventually("all have it", || async { known(&servers, &guard).await == 3 }).await;
        match round % 2 {
            0 => drop(servers[at].cli(&["FLUSHALL"]).await),
            _ => servers[at].restart().await,
        }
        is_refused(&elsewhere).await;
        eventually("it is healed", || async { known(&servers, &guard).await == 3 }).await;
        eventually("it is held", || async { guard.state() == State::Held }).await;
    }
    released(guard).await;
    assert_empty(&servers).await;
    released(acquired(&elsewhere).await).await;
    assert_empty(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_comes_back_is_used_again() {
    let servers = servers(5).await;
    let (here, elsewhere) = (
        connect(&servers, Duration::from_secs(30)).await,
        connect(&servers, Duration::from_secs(30)).await,
    );
    for gone in [[0, 1], [2, 3], [4, 0]] {
        gone.iter().for_each(|at| servers[*at].kill());
        let guard = here.lock().wait(GRACE).lease(HOUR).await.expect("three are there");
        is_refused(&elsewhere).await;
        guard.unlock().await.expect("held");
        for at in gone {
            servers[at].restart().await;
        }
    }
    // Taken again if one was late: what a majority has, others are asked for no more than twice.
    let all_are_used = || async {
        let guard = here.lock().wait(GRACE).lease(HOUR).await.expect("all are there");
        let count = known(&servers, &guard).await;
        guard.unlock().await.expect("held");
        count == 5
    };
    eventually("all are used", all_are_used).await;
    assert_empty(&servers).await;
}

/// A server that was away when the lock was released is told so when it is back, although its data was kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_does_not_keep_a_hold_that_was_released_meanwhile() {
    let servers = servers(3).await;
    let here = connect(&servers, Duration::from_secs(30)).await;
    let guard = here.lock().lease(HOUR).await.expect("free");
    eventually("all have it", || async { known(&servers, &guard).await == 3 }).await;
    servers[1].stop();
    timeout(GRACE, guard.unlock()).await.expect("a majority answers").expect("held");
    let second = here.lock().lease(HOUR).await.expect("free");
    second.unlock().await.expect("held");
    servers[1].cont();
    assert_empty(&servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_is_lost_when_a_majority_is_gone_for_longer_than_its_lease() {
    let servers = servers(5).await;
    let watchdog = Duration::from_secs(9);
    let here = connect(&servers, watchdog).await;
    let guard = here.lock().await.expect("free");
    servers[0].stop();
    servers[1].stop();
    tokio::time::sleep(watchdog * 7 / 6).await;
    assert!(!guard.is_lost(), "three are still there");
    let (since, left) = (Instant::now(), guard.remaining());
    servers[2].stop();
    eventually("it is in doubt, then lost", || async { guard.state() != State::Held }).await;
    timeout(watchdog + GRACE, guard.lost()).await.expect("it is lost");
    let took = since.elapsed();
    assert!(took > left * 9 / 10, "given up after {took:?} of {left:?}");
    assert_eq!(guard.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    servers[..3].iter().for_each(Server::cont);
    let next = here.lock().wait(watchdog + GRACE).await.expect("all are there again");
    next.unlock().await.expect("held");
}

/// An emptied majority is a loss that the next renewal finds out, long before the lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_is_lost_when_a_majority_forgets() {
    let servers = servers(3).await;
    let here = connect(&servers, Duration::from_secs(3)).await;
    let guard = here.lock().await.expect("free");
    // A renewal that comes between the two heals the first: empty both until one comes after them.
    let forget = async {
        loop {
            tokio::join!(servers[0].cli(&["FLUSHALL"]), servers[2].cli(&["FLUSHALL"]));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = guard.lost() => {}
        () = forget => {}
        () = tokio::time::sleep(Duration::from_secs(2) + GRACE) => panic!("nobody notices it"),
    }
    assert_eq!(guard.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
}

/// Servers that refuse are a minority like any other: out of memory, read-only, something else under the name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_refuses_does_not_matter() {
    let servers = servers(5).await;
    let here = connect(&servers, Duration::from_secs(30)).await;
    servers[0].cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
    servers[3].cli(&["SET", "k", "a text"]).await;
    let guard = here.lock().lease(HOUR).await.expect("three can");
    guard.unlock().await.expect("held");
    // A majority of them is not an outage, but says what stands there.
    for at in [1, 2] {
        servers[at].cli(&["SET", "k", "a text"]).await;
    }
    let error = here.lock().wait(HOUR).await.expect_err("three cannot");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

fn acquire() -> Match {
    let script = include_str!("../../../src/redis/scripts/exclusive_acquire.lua");
    Match::command("EVALSHA").and(Match::token(redis::Script::new(script).get_hash().to_owned()))
}

/// All are asked before any has answered, and a majority is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_asked_at_once_and_the_fastest_majority_decides() {
    let servers = servers(5).await;
    let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
    for server in &servers {
        let proxy = Proxy::start(server.addr()).await;
        // Long enough that no reply time-out ends a step while the test looks.
        let builder = Locks::builder().url(proxy.url()).watchdog(Duration::from_secs(30));
        nodes.push(builder.connect().await.expect("a connection"));
        proxies.push(proxy);
    }
    let lock = RedLock::new("k", &nodes);
    lock.lock().await.expect("free").unlock().await.expect("held");
    assert_empty(&servers).await;
    for silent in [[0, 1], [4, 2]] {
        let asked: Vec<_> = proxies.iter().map(|proxy| proxy.watch(acquire())).collect();
        proxies.iter().for_each(|proxy| proxy.blackhole_replies(true));
        let locking = tokio::spawn(lock.lock().wait(HOUR).lease(HOUR).into_future());
        for rule in &asked {
            rule.fired(1).await;
        }
        assert!(!locking.is_finished(), "nobody has answered yet");
        for (at, proxy) in proxies.iter().enumerate() {
            if !silent.contains(&at) {
                proxy.blackhole_replies(false);
            }
        }
        let guard = timeout(GRACE, locking).await.expect("three have answered");
        let guard = guard.expect("no panic").expect("free");
        for at in silent {
            proxies[at].blackhole_replies(false);
        }
        guard.unlock().await.expect("held");
        assert_empty(&servers).await;
    }
}

/// R#656: what is one server in the end is refused, whatever it is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_one_server_are_refused() {
    let servers = servers(2).await;
    let port = servers[0].port();
    let same = [
        servers[0].url(),
        format!("redis://127.0.0.1:{port}/1"),
        format!("redis://localhost:{port}"),
        format!("redis://localhost:{port}/2"),
    ];
    let first = Locks::connect(&same[0]).await.expect("a connection");
    let other = Locks::connect(&servers[1].url()).await.expect("a connection");
    for url in &same {
        let again = Locks::connect(url).await.expect("a connection");
        for nodes in
            [[first.clone(), again.clone(), other.clone()], [other.clone(), again, first.clone()]]
        {
            let lock = RedLock::new("k", &nodes);
            for error in [
                lock.lock().await.expect_err("two are one"),
                lock.try_lock().await.expect_err("two are one"),
                lock.is_locked().await.expect_err("two are one"),
            ] {
                assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
                assert!(error.to_string().contains(&port.to_string()), "{error}");
            }
        }
    }
    let twice = RedLock::new("k", &[first.clone(), first.clone()]);
    assert_eq!(twice.lock().await.expect_err("twice").kind(), ErrorKind::Config);
    let none = RedLock::new("k", &[]);
    assert_eq!(none.lock().await.expect_err("no servers").kind(), ErrorKind::Config);
    let prefixed = Locks::builder().url(servers[1].url()).prefix("p:").connect().await;
    let mixed = RedLock::new("k", &[first.clone(), prefixed.expect("a connection")]);
    assert_eq!(mixed.lock().await.expect_err("other prefixes").kind(), ErrorKind::Config);
    // Two that are two are fine.
    let lock = RedLock::new("k", &[first, other]);
    lock.lock().await.expect("free").unlock().await.expect("held");
    assert_empty(&servers).await;
}
