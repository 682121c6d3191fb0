//! What becomes of all when one server, one member or one reply fails.
#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Locks, MultiLock, State};
use distlock_testkit::proxy::{Match, Proxy, Rule};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Server, Stopwatch, assert_clean};

const HOUR: Duration = Duration::from_secs(3600);
/// The command time-out, one reply time-out for each of two, and a busy machine.
const GRACE: Duration = Duration::from_secs(3 + 2 + 4);
/// With this much less time, a command that got no answer may not be asked again.
const STALL: Duration = Duration::from_secs(1);

async fn connect(url: &str) -> Locks {
    Locks::connect(url).await.expect("a connection")
}

/// Two servers, the second behind a proxy, and a client beside it.
struct Two {
    servers: [Server; 2],
    proxy: Proxy,
    here: [Locks; 2],
    elsewhere: [Locks; 2],
}

impl Two {
    async fn new() -> Two {
        let servers = [Server::redis().await, Server::redis().await];
        let proxy = Proxy::start(servers[1].addr()).await;
        let here = [connect(&servers[0].url()).await, connect(&proxy.url()).await];
        let elsewhere = [connect(&servers[0].url()).await, connect(&servers[1].url()).await];
        // Scripts are known from now on: a rule is to strike a step.
        let two = Two { servers, proxy, here, elsewhere };
        two.both(&two.elsewhere).lock().await.expect("free").unlock().await.expect("held");
        two
    }

    fn both(&self, of: &[Locks; 2]) -> MultiLock {
        MultiLock::new([of[0].mutex("k").into(), of[1].mutex("k").into()])
    }

    async fn assert_clean(&self) {
        for server in &self.servers {
            assert_clean(server, "k").await;
        }
    }
}

/// An error about a member also says on which server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_named_and_the_other_is_let_go() {
    let two = Two::new().await;
    two.servers[1].kill();
    let place = two.proxy.addr().to_string();
    for request in [two.both(&two.here).lock(), two.both(&two.here).lock().wait(HOUR)] {
        let since = Stopwatch::start();
        let error = request.await.expect_err("one server is gone");
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error}");
        assert!(error.to_string().contains(&place), "{error} does not name {place}");
        assert_eq!(error.lock_name(), Some("k"));
        assert!(since.elapsed() < GRACE, "after {:?}", since.elapsed());
        assert!(!two.servers[0].exists("k").await, "let go before the caller is told");
    }
    // And it is found out without keeping others from the member that is well.
    let both = two.both(&two.here);
    let trying = tokio::spawn(both.try_lock().into_future());
    eventually("it has the first", || async { two.servers[0].exists("k").await }).await;
    let since = Stopwatch::start();
    let single = two.elsewhere[0].mutex("k").lock().wait(GRACE).await;
    let _single = single.expect("the other one is well");
    let took = since.elapsed();
    let limit = Duration::from_millis(2900);
    assert!(took < limit, "somebody waits for a dead server with a member in hand: {took:?}");
    assert!(trying.await.expect("no panic").is_err());
}

/// Something else under one name is no reason to hold the others, and is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_no_lock_is_named_and_the_others_are_let_go() {
    let two = Two::new().await;
    let locks = &two.here[0];
    for (bad, make) in
        [("text", vec!["SET", "text", "x"]), ("data", vec!["HSET", "data", "x", "1"])]
    {
        two.servers[0].cli(&make).await;
        for names in [["a", bad, "z"], ["z", bad, "a"]] {
            let error = locks.multi(names).lock().await.expect_err("one is no lock");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            assert_eq!(error.lock_name(), Some(bad), "{error}");
            for other in ["a", "z"] {
                assert!(!two.servers[0].exists(other).await, "{other} was not let go");
            }
        }
        // The same when it stands on the other server.
        let apart = MultiLock::new([two.here[1].mutex("k").into(), locks.mutex(bad).into()]);
        let error = apart.try_lock().await.expect_err("one is no lock");
        assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Conflict, Some(bad)));
        assert!(!two.servers[1].exists("k").await);
        two.servers[0].cli(&["DEL", bad]).await;
    }
    two.assert_clean().await;
}

/// The other one is released at once, and the error names the dead one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_with_one_server_dead_releases_the_other_and_names_the_dead_one() {
    for dead in [0, 1] {
        let two = Two::new().await;
        let guard = two.both(&two.elsewhere).lock().lease(HOUR).await.expect("free");
        two.servers[dead].kill();
        let place = two.servers[dead].addr().to_string();
        let since = Stopwatch::start();
        let unlock = tokio::spawn(guard.unlock());
        // Long before the dead one is given up.
        let well = &two.servers[1 - dead];
        eventually("the other one is released", || async { !well.exists("k").await }).await;
        assert!(since.elapsed() < Duration::from_secs(2), "after {:?}", since.elapsed());
        let error = unlock.await.expect("no panic").expect_err("one server is gone");
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error}");
        assert!(error.to_string().contains(&place), "{error} does not name {place}");
        assert!(since.elapsed() < GRACE, "after {:?}", since.elapsed());
    }
}

/// Every one of them is named if both are dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_with_both_servers_dead_names_both() {
    let two = Two::new().await;
    let guard = two.both(&two.elsewhere).lock().lease(HOUR).await.expect("free");
    two.servers.iter().for_each(Server::kill);
    let since = Stopwatch::start();
    let error = guard.unlock().await.expect_err("both servers are gone").to_string();
    for server in &two.servers {
        assert!(error.contains(&server.addr().to_string()), "{error}");
    }
    assert!(since.elapsed() < GRACE, "one after the other: {:?}", since.elapsed());
}

/// Of one member the release gets no answer, another one was lost: it is the loss that says what the work was worth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_comes_before_a_release_without_an_answer() {
    let two = Two::new().await;
    let both = two.both(&two.elsewhere).lock().lease(HOUR);
    let robbed = both.run(async |_| {
        // By somebody else: nobody here knows of it before the release.
        assert!(two.here[1].mutex("k").force_unlock().await?);
        two.servers[0].kill();
        Ok::<_, distlock::Error>(7)
    });
    let error = robbed.await.expect_err("one was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let places = two.servers.each_ref().map(|server| server.addr().to_string());
    assert!(places.iter().all(|place| error.to_string().contains(place)), "{error}");
}

/// The same on a thread, which cannot be stopped when the loss is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_is_known_comes_before_a_release_without_an_answer() {
    let two = Two::new().await;
    let work = |scope: distlock::Scope| {
        assert!(distlock::block_on(two.elsewhere[1].mutex("k").force_unlock())?);
        assert!(scope.is_lost());
        two.servers[0].kill();
        Ok::<_, distlock::Error>(7)
    };
    let both = two.both(&two.elsewhere).lock().lease(HOUR);
    let robbed = tokio::task::block_in_place(|| both.run_blocking(work));
    let error = robbed.expect_err("one was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let place = two.servers[0].addr().to_string();
    assert!(error.to_string().contains(&place), "{error} does not name {place}");
}

/// One server out of reach for longer than the lease is the loss of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_is_lost_when_one_server_is_away_for_longer_than_its_lease() {
    let servers = [Server::redis().await, Server::redis().await];
    let watchdog = Duration::from_secs(6);
    let mut members = Vec::new();
    for server in &servers {
        let builder = Locks::builder().url(server.url()).watchdog(watchdog);
        members.push(builder.connect().await.expect("a connection").mutex("k").into());
    }
    let guard = MultiLock::new(members).lock().await.expect("free");
    servers[1].stop();
    let since = Instant::now();
    tokio::time::timeout(watchdog + GRACE, guard.lost()).await.expect("it is lost");
    assert_eq!(guard.state(), State::Lost);
    assert!(since.elapsed() > watchdog / 3, "given up after {:?}", since.elapsed());
    servers[1].cont();
    drop(guard);
    eventually("nothing is left", || async {
        !servers[0].exists("k").await && !servers[1].exists("k").await
    })
    .await;
}

/// How a reply is lost.
const LOSSES: [fn(&Proxy, Match, u64) -> Rule; 2] = [
    |proxy, matcher, times| proxy.swallow_replies_to(matcher, times),
    |proxy, matcher, times| proxy.reset_instead_of_replies_to(matcher, times),
];

/// The script that takes several at once.
fn multi_acquire() -> Match {
    let script = include_str!("../../../src/redis/scripts/multi_acquire.lua");
    Match::command("EVALSHA").and(Match::token(redis::Script::new(script).get_hash().to_owned()))
}

/// A lost reply is asked for again: all are held, once, and one unlock frees them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_to_the_script_changes_nothing() {
    for (lose, times) in LOSSES.into_iter().zip([1, 2]) {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let (here, elsewhere) = (connect(&proxy.url()).await, connect(&server.url()).await);
        elsewhere.multi(["a", "b"]).lock().await.expect("free").unlock().await.expect("held");
        for owned in [false, true] {
            let rule = lose(&proxy, multi_acquire(), times);
            let me = here.owner();
            let request = here.multi(["a", "b"]).try_lock().lease(HOUR);
            let request = if owned { request.owner(&me) } else { request };
            let watch = Stopwatch::start();
            let guard = match request.await {
                // The machine stood still until there was no time to ask again.
                Err(_) if watch.stalled() > STALL => {
                    proxy.heal().await;
                    given_back(&server).await;
                    continue;
                }
                got => got.expect("it is asked for again").expect("they are free"),
            };
            rule.fired(times).await;
            for name in ["a", "b"] {
                let fields = server.hgetall(name).await;
                let of = guard.guards().iter().find(|guard| guard.name() == name);
                let stay = of.expect("one of both").stay().to_string();
                assert_eq!(fields.into_iter().collect::<Vec<_>>(), [(stay, "1".to_owned())]);
                assert!(elsewhere.mutex(name).try_lock().await.expect("an answer").is_none());
            }
            guard.unlock().await.expect("held");
            for name in ["a", "b"] {
                assert!(!server.exists(name).await, "one unlock did not free {name}");
            }
        }
    }
}

async fn given_back(server: &Server) {
    eventually("what was taken unseen is given back", || async {
        !server.exists("a").await && !server.exists("b").await
    })
    .await;
}

/// If no reply ever comes nobody is inside, and what was taken unseen is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_unseen_is_given_back() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (here, elsewhere) = (connect(&proxy.url()).await, connect(&server.url()).await);
    elsewhere.multi(["a", "b"]).lock().await.expect("free").unlock().await.expect("held");
    let rule = proxy.swallow_replies_to(multi_acquire(), u64::MAX);
    let since = Stopwatch::start();
    let error = here.multi(["a", "b"]).lock().lease(HOUR).await.expect_err("no reply comes");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert!(since.elapsed() < GRACE, "after {:?}", since.elapsed());
    // Unless the machine stood still until there was no time to ask again.
    assert!(rule.hits() >= 2 || since.stalled() > STALL, "asked {} times", rule.hits());
    given_back(&server).await;
    proxy.heal().await;
    let next = here.multi(["a", "b"]).try_lock().await.expect("an answer").expect("free");
    next.unlock().await.expect("held");
    assert_clean(&server, "").await;
}

/// A first reply is lost, somebody else gets one member meanwhile: nothing of the first time stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_and_then_a_busy_member_leave_nothing() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (here, elsewhere) = (connect(&proxy.url()).await, connect(&server.url()).await);
    elsewhere.multi(["a", "b"]).lock().await.expect("free").unlock().await.expect("held");
    let rule = proxy.swallow_replies_to(multi_acquire(), 1);
    let (go, may_go) = mpsc::channel::<()>();
    let (may_go, asked) = (Mutex::new(may_go), AtomicU64::new(0));
    // The proxy stands still with the second question in its hand.
    let _held_up = proxy.watch(multi_acquire().and(Match::by(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) == 1 {
            let _ = may_go.lock().expect("nobody panics here").recv_timeout(2 * GRACE);
        }
        true
    })));
    let watch = Stopwatch::start();
    let asking = tokio::spawn(here.multi(["a", "b"]).try_lock().lease(HOUR).into_future());
    rule.fired(1).await;
    // Taken unseen, and before it is asked for again an operator gives one of them to somebody else.
    eventually("it is taken", || async { server.exists("b").await }).await;
    assert!(elsewhere.mutex("b").force_unlock().await.expect("an answer"));
    let held = elsewhere.mutex("b").lock().lease(HOUR).await.expect("free");
    drop(go);
    match asking.await.expect("no panic") {
        // The machine stood still until there was no time to ask again.
        Err(_) if watch.stalled() > STALL => {}
        got => assert!(got.expect("an answer").is_none(), "two hold one member"),
    }
    eventually("the other one is given back", || async { !server.exists("a").await }).await;
    held.unlock().await.expect("held");
    assert_clean(&server, "").await;
}
