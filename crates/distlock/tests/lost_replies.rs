//! A reply that is lost changes nothing: the step is done once, the caller gets the right answer, and nothing stays behind.
#![cfg(feature = "redis")]

use std::collections::BTreeMap;
use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Guard, Locks, Result, State};
use distlock_testkit::proxy::{Match, Proxy, Rule};
use distlock_testkit::{Server, assert_clean};

const LEASE: Duration = Duration::from_secs(30);
/// Much more than a healthy machine needs, much less than the lease.
const SOON: Duration = Duration::from_secs(8);
/// What a caller may have to wait beyond its own limit: the command time-out, one reply time-out, and a busy machine.
const GRACE: Duration = Duration::from_millis(3000 + 1000 + 1500);

/// A server with two clients: one through the proxy, one beside it.
struct Stage {
    locks: Locks,
    other: Locks,
    proxy: Proxy,
    server: Server,
}

impl Stage {
    async fn new() -> Stage {
        Stage::with_watchdog(LEASE).await
    }

    async fn with_watchdog(watchdog: Duration) -> Stage {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let connect = async |url: String| {
            Locks::builder().url(url).watchdog(watchdog).connect().await.expect("a connection")
        };
        let (locks, other) = (connect(proxy.url()).await, connect(server.url()).await);
        // The server must know the scripts: a rule is to strike a step, not the news that its script is unknown.
        let me = other.owner();
        let guard = other.mutex("warm").lock().owner(&me).await.expect("a free lock");
        let inner = other.mutex("warm").lock().owner(&me).await.expect("a re-entry");
        guard.extend(watchdog).await.expect("an extension");
        inner.unlock().await.expect("a release");
        guard.unlock().await.expect("a release");
        other.mutex("warm").force_unlock().await.expect("an answer");
        Stage { locks, other, proxy, server }
    }

    async fn holders(&self, name: &str) -> BTreeMap<String, String> {
        self.server.hgetall(name).await
    }

    async fn assert_held(&self, guard: &Guard, depth: u32) {
        let expected = BTreeMap::from([(guard.owner().to_string(), depth.to_string())]);
        eventually("the hold stands in the store at its depth", async || {
            self.holders(guard.name()).await == expected
        })
        .await;
        let left = self.server.pttl(guard.name()).await;
        assert!(left > 0 && left <= LEASE.as_millis() as i64, "{left} ms left");
        assert!(!guard.is_lost());
    }
}

/// How a reply is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It never comes.
    Silence,
    /// The connection breaks in its place.
    Reset,
}

impl Loss {
    const ALL: [Loss; 2] = [Loss::Silence, Loss::Reset];

    fn strike(self, proxy: &Proxy, matcher: Match, times: u64) -> Rule {
        match self {
            Loss::Silence => proxy.swallow_replies_to(matcher, times),
            Loss::Reset => proxy.reset_instead_of_replies_to(matcher, times),
        }
    }
}

/// A step about a lock, by the hash of its script.
fn step(script: &str, name: &str) -> Match {
    let sha = redis::Script::new(script).get_hash().to_owned();
    Match::command("EVALSHA").and(Match::token(sha)).and(Match::token(name))
}

fn acquire(name: &str) -> Match {
    step(include_str!("../src/redis/scripts/exclusive_acquire.lua"), name)
}

fn release(name: &str) -> Match {
    step(include_str!("../src/redis/scripts/exclusive_release.lua"), name)
}

fn renew(name: &str) -> Match {
    step(include_str!("../src/redis/scripts/exclusive_renew.lua"), name)
}

fn force(name: &str) -> Match {
    step(include_str!("../src/redis/scripts/exclusive_force.lua"), name)
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_fresh_acquisition_whose_reply_is_lost_is_held_once() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("fresh-{loss:?}");
        let rule = loss.strike(&stage.proxy, acquire(&name), 1);
        let guard = stage.locks.mutex(&name).lock().await.unwrap();
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&guard, 1).await;
        guard.unlock().await.unwrap();
        assert!(!stage.server.exists(&name).await, "{loss:?}");

        // A single attempt is no other.
        let rule = loss.strike(&stage.proxy, acquire(&name), 1);
        let guard = stage.locks.mutex(&name).try_lock().await.unwrap().expect("nobody has it");
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&guard, 1).await;
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "fresh").await;
}

#[tokio::test]
async fn a_re_entry_whose_reply_is_lost_counts_once() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("reentry-{loss:?}");
        let (mutex, me) = (stage.locks.mutex(&name), stage.locks.owner());
        let outer = mutex.lock().owner(&me).await.unwrap();
        let rule = loss.strike(&stage.proxy, acquire(&name), 1);
        let inner = mutex.lock().owner(&me).await.unwrap();
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&inner, 2).await;
        inner.unlock().await.unwrap();
        stage.assert_held(&outer, 1).await;
        outer.unlock().await.unwrap();
        assert!(!stage.server.exists(&name).await, "{loss:?}");
    }
    assert_clean(&stage.server, "reentry").await;
}

#[tokio::test]
async fn a_busy_answer_that_is_lost_stays_busy_and_leaves_the_holder_alone() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("busy-{loss:?}");
        let holder = stage.other.mutex(&name).lock().await.unwrap();
        let rule = loss.strike(&stage.proxy, acquire(&name), 1);
        assert!(stage.locks.mutex(&name).try_lock().await.unwrap().is_none(), "{loss:?}");
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&holder, 1).await;
        holder.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "busy").await;
}

#[tokio::test]
async fn a_renewal_whose_reply_is_lost_is_asked_again_and_nothing_is_lost() {
    let stage = Stage::with_watchdog(Duration::from_secs(3)).await;
    let guards = [
        stage.locks.mutex("renewal-Silence").lock().await.unwrap(),
        stage.locks.mutex("renewal-Reset").lock().await.unwrap(),
    ];
    for (loss, guard) in Loss::ALL.into_iter().zip(&guards) {
        let rule = loss.strike(&stage.proxy, renew(guard.name()), 1);
        rule.fired(1).await;
        let again = stage.proxy.watch(renew(guard.name()));
        again.fired(1).await;
        eventually("believed in again", async || guard.state() == State::Held).await;
        stage.assert_held(guard, 1).await;
    }
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "renewal").await;
}

/// Two of three renewals may fail: so it is for every watchdog time-out that may be set, not only for long ones.
#[tokio::test]
async fn a_short_watchdog_survives_one_lost_renewal_reply_too() {
    let stage = Stage::with_watchdog(Duration::from_millis(900)).await;
    let guard = stage.locks.mutex("short").lock().await.unwrap();
    let rule = Loss::Silence.strike(&stage.proxy, renew("short"), 1);
    rule.fired(1).await;
    stage.proxy.watch(renew("short")).fired(1).await;
    stage.assert_held(&guard, 1).await;
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn an_extension_whose_reply_is_lost_is_made() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("extension-{loss:?}");
        let lease = Duration::from_secs(5);
        let guard = stage.locks.mutex(&name).lock().lease(lease).await.unwrap();
        let rule = loss.strike(&stage.proxy, renew(&name), 1);
        guard.extend(Duration::from_secs(20)).await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert!(guard.remaining() > Duration::from_secs(10));
        assert!(stage.server.pttl(&name).await > 10_000);
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "extension").await;
}

#[tokio::test]
async fn an_unlock_whose_reply_is_lost_says_ok_and_not_lost() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("unlock-{loss:?}");
        let guard = stage.locks.mutex(&name).lock().await.unwrap();
        let rule = loss.strike(&stage.proxy, release(&name), 1);
        guard.unlock().await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert!(!stage.server.exists(&name).await, "{loss:?}");
    }
    assert_clean(&stage.server, "unlock").await;
}

#[tokio::test]
async fn an_inner_unlock_whose_reply_is_lost_takes_one_level() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("inner-{loss:?}");
        let (mutex, me) = (stage.locks.mutex(&name), stage.locks.owner());
        let outer = mutex.lock().owner(&me).await.unwrap();
        let middle = mutex.lock().owner(&me).await.unwrap();
        let inner = mutex.lock().owner(&me).await.unwrap();
        let rule = loss.strike(&stage.proxy, release(&name), 1);
        inner.unlock().await.unwrap();
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&middle, 2).await;
        drop(middle);
        stage.assert_held(&outer, 1).await;
        outer.unlock().await.unwrap();
        assert!(!stage.server.exists(&name).await, "{loss:?}");
    }
    assert_clean(&stage.server, "inner").await;
}

#[tokio::test]
async fn a_doubt_ends_with_the_next_answer() {
    let stage = Stage::new().await;
    let (mutex, me) = (stage.locks.mutex("doubt"), stage.locks.owner());
    let outer = mutex.lock().owner(&me).lease(LEASE).await.unwrap();
    let inner = mutex.lock().owner(&me).lease(LEASE).await.unwrap();
    let rule = Loss::Reset.strike(&stage.proxy, release("doubt"), 1);
    inner.unlock().await.unwrap();
    assert_eq!(rule.hits(), 1);
    assert_eq!(outer.state(), State::Held);
    outer.unlock().await.unwrap();
}

#[tokio::test]
async fn a_release_that_is_asked_twice_does_not_free_the_next_holder() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("next-{loss:?}");
        let guard = stage.locks.mutex(&name).lock().await.unwrap();
        let waiting = tokio::spawn(stage.other.mutex(&name).lock().into_future());
        eventually("the next one waits", async || {
            stage.server.pubsub_channels().await.iter().any(|channel| channel.contains(&name))
        })
        .await;
        let rule = loss.strike(&stage.proxy, release(&name), 1);
        let unlocking = tokio::spawn(guard.unlock());
        let next = tokio::time::timeout(SOON, waiting).await.expect("in time").unwrap().unwrap();
        unlocking.await.unwrap().unwrap();
        assert_eq!(rule.hits(), 1);
        stage.assert_held(&next, 1).await;
        next.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "next").await;
}

#[tokio::test]
async fn a_dropped_guard_whose_release_does_not_arrive_is_released_all_the_same() {
    let stage = Stage::new().await;
    let guard = stage.locks.mutex("dropped").lock().await.unwrap();
    let rule = stage.proxy.drop_requests_to(release("dropped"), 1);
    drop(guard);
    rule.fired(1).await;
    eventually("released", async || !stage.server.exists("dropped").await).await;
    assert_clean(&stage.server, "dropped").await;
}

#[tokio::test]
async fn a_hand_off_whose_reply_is_lost_leaves_one_holder() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("handoff-{loss:?}");
        let mutex = stage.locks.mutex(&name);
        let mut struck = false;
        // A hand-off happens only soon after the acquisition; on a busy machine it may take some tries.
        for _ in 0..200 {
            let first = mutex.lock().await.unwrap();
            let from = Match::token(first.owner().to_string());
            let rule = loss.strike(&stage.proxy, acquire(&name).and(from), 1);
            let mut waiting = mutex.lock().into_future();
            let queued =
                poll_fn(|cx| Poll::Ready(Pin::new(&mut waiting).poll(cx).is_pending())).await;
            assert!(queued, "the lock is held");
            first.unlock().await.unwrap();
            let second = tokio::time::timeout(SOON, waiting).await.expect("in time").unwrap();
            eventually("the store knows who it is", async || {
                let holders = stage.holders(&name).await;
                holders.len() == 1 && holders.contains_key(&second.owner().to_string())
            })
            .await;
            struck = rule.hits() == 1;
            stage.assert_held(&second, 1).await;
            second.unlock().await.unwrap();
            assert!(!stage.server.exists(&name).await, "{loss:?}");
            stage.proxy.heal().await;
            if struck {
                break;
            }
        }
        assert!(struck, "no hand-off happened");
    }
    assert_clean(&stage.server, "handoff").await;
}

#[tokio::test]
async fn a_subscription_whose_confirmation_is_lost_is_made_again() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("subscription-{loss:?}");
        let holder = stage.other.mutex(&name).lock().await.unwrap();
        let rule = loss.strike(&stage.proxy, Match::command("SUBSCRIBE"), 1);
        let waiting = tokio::spawn(stage.locks.mutex(&name).lock().into_future());
        rule.fired(1).await;
        holder.unlock().await.unwrap();
        let guard = tokio::time::timeout(SOON, waiting).await.expect("in time").unwrap().unwrap();
        stage.assert_held(&guard, 1).await;
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "subscription").await;
}

#[tokio::test]
async fn a_caller_that_leaves_after_the_reply_was_lost_leaves_no_lock() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("leaver-{loss:?}");
        let rule = loss.strike(&stage.proxy, acquire(&name), 1);
        let caller = tokio::spawn(stage.locks.mutex(&name).lock().into_future());
        rule.fired(1).await;
        caller.abort();
        let _ = caller.await;
        // Well before the lease ends, and for good.
        eventually("given back", async || !stage.server.exists(&name).await).await;
        let guard = stage.locks.mutex(&name).try_lock().await.unwrap().expect("free");
        stage.assert_held(&guard, 1).await;
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "leaver").await;
}

/// The same for a runtime that ends: what is under way goes on elsewhere.
#[test]
fn a_runtime_that_ends_after_the_reply_was_lost_leaves_no_lock() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (main, short) = (runtime(), runtime());
    let stage = main.block_on(Stage::new());
    let rule = stage.proxy.swallow_replies_to(acquire("orphan"), 1);
    short.block_on(async {
        tokio::spawn(stage.locks.mutex("orphan").lock().into_future());
        rule.fired(1).await;
    });
    drop(short);
    main.block_on(async {
        eventually("given back", async || !stage.server.exists("orphan").await).await;
        assert_clean(&stage.server, "orphan").await;
    });
}

#[tokio::test]
async fn a_lock_that_cannot_be_given_back_at_once_is_given_back_later() {
    let stage = Stage::new().await;
    // The acquisition happens, its reply is lost, and so are the first attempts to take it back.
    let taken = stage.proxy.reset_instead_of_replies_to(acquire("later"), 1);
    let back = stage.proxy.drop_requests_to(release("later"), 2);
    let caller = tokio::spawn(stage.locks.mutex("later").lock().into_future());
    taken.fired(1).await;
    caller.abort();
    back.fired(2).await;
    eventually("given back", async || !stage.server.exists("later").await).await;
    assert_clean(&stage.server, "later").await;
}

#[tokio::test]
async fn whichever_reply_is_lost_every_count_is_right() {
    let stage = Stage::new().await;
    // acquire, re-enter, extend, release, release: five steps, each struck in its turn, the last round none.
    for nth in 0..=5 {
        let name = format!("sweep-{nth}");
        let (mutex, me) = (stage.locks.mutex(&name), stage.locks.owner());
        let seen = Arc::new(AtomicU64::new(0));
        let nth_step = Match::command("EVALSHA")
            .and(Match::token(name.as_str()))
            .and(Match::by(move |_| seen.fetch_add(1, Ordering::SeqCst) == nth));
        let rule = Loss::Reset.strike(&stage.proxy, nth_step, 1);
        let outer = mutex.lock().owner(&me).await.unwrap();
        stage.assert_held(&outer, 1).await;
        let inner = mutex.lock().owner(&me).await.unwrap();
        stage.assert_held(&inner, 2).await;
        outer.extend(Duration::from_secs(20)).await.unwrap();
        stage.assert_held(&inner, 2).await;
        inner.unlock().await.unwrap();
        stage.assert_held(&outer, 1).await;
        outer.unlock().await.unwrap();
        assert!(!stage.server.exists(&name).await, "round {nth}");
        assert_eq!(rule.hits(), u64::from(nth < 5), "round {nth}");
        stage.proxy.heal().await;
    }
    assert_clean(&stage.server, "sweep").await;
}

#[tokio::test]
async fn a_reply_that_is_cut_in_the_middle_is_a_lost_reply() {
    let stage = Stage::new().await;
    // The shortest replies have three and four bytes.
    for bytes in 0..4 {
        let name = format!("cut-{bytes}");
        stage.proxy.cut_after(bytes.min(2));
        let guard = stage.locks.mutex(&name).lock().await.unwrap();
        stage.assert_held(&guard, 1).await;
        stage.proxy.cut_after(bytes);
        guard.unlock().await.unwrap();
        assert!(!stage.server.exists(&name).await, "cut after {bytes}");
        stage.proxy.heal().await;
    }
    for bytes in [0, 1, 7, 20, 40] {
        let name = format!("cut-news-{bytes}");
        let holder = stage.other.mutex(&name).lock().await.unwrap();
        let watch = stage.proxy.watch(Match::command("SUBSCRIBE"));
        let waiting = tokio::spawn(stage.locks.mutex(&name).lock().into_future());
        watch.fired(1).await;
        stage.proxy.cut_after(bytes);
        holder.unlock().await.unwrap();
        let guard = tokio::time::timeout(SOON, waiting).await.expect("in time").unwrap().unwrap();
        stage.assert_held(&guard, 1).await;
        stage.proxy.heal().await;
        guard.unlock().await.unwrap();
    }
    assert_clean(&stage.server, "cut").await;
}

/// Half a greeting is no proof that nobody speaks the protocol: it is an outage, and the next try may succeed.
#[tokio::test]
async fn a_login_that_is_cut_in_the_middle_is_an_outage_and_no_matter_of_configuration() {
    let stage = Stage::new().await;
    for bytes in [1, 2, 20, 60] {
        stage.proxy.cut_after(bytes);
        if let Err(error) = Locks::connect(&stage.proxy.url()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "cut after {bytes}: {error}");
        }
        stage.proxy.heal().await;

        let name = format!("login-{bytes}");
        let guard = stage.locks.mutex(&name).lock().await.unwrap();
        stage.proxy.reset_all().await;
        stage.proxy.cut_after(bytes);
        if let Err(error) = guard.unlock().await {
            panic!("cut after {bytes}: {error:?}");
        }
        assert!(!stage.server.exists(&name).await, "cut after {bytes}");
        stage.proxy.heal().await;
    }
    assert_clean(&stage.server, "login").await;
}

#[tokio::test]
async fn a_forced_unlock_whose_reply_is_lost_does_not_claim_that_nobody_held_it() {
    let stage = Stage::new().await;
    for loss in Loss::ALL {
        let name = format!("forced-{loss:?}");
        let guard = stage.other.mutex(&name).lock().await.unwrap();
        let rule = loss.strike(&stage.proxy, force(&name), 1);
        match stage.locks.mutex(&name).force_unlock().await {
            Ok(held) => assert!(held, "{loss:?}: it was held"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
        }
        assert_eq!(rule.hits(), 1);
        assert!(!stage.server.exists(&name).await);
        assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// Also in the process of the holder, which is told at once and need not wait for a renewal.
#[tokio::test]
async fn a_forced_unlock_whose_reply_is_lost_still_tells_a_holder_of_the_same_process() {
    let stage = Stage::new().await;
    let guard = stage.locks.mutex("told").lock().await.unwrap();
    let rule = stage.proxy.reset_instead_of_replies_to(force("told"), 1);
    let _ = stage.locks.mutex("told").force_unlock().await;
    assert_eq!(rule.hits(), 1);
    tokio::time::timeout(SOON, guard.lost()).await.expect("told");
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// Ends within the limit, and says that the store is out of reach: not that the lock is busy.
async fn meets_the_outage<T>(
    what: &str,
    limit: Duration,
    call: impl IntoFuture<Output = Result<T>>,
) {
    let since = Instant::now();
    let ended = tokio::time::timeout(limit, call).await;
    let ended = ended.unwrap_or_else(|_| panic!("{what}: no end after {limit:?}"));
    let kind = ended.map_or_else(|error| Some(error.kind()), |_| None);
    let is_outage = matches!(kind, Some(ErrorKind::Unavailable | ErrorKind::Indeterminate));
    assert!(is_outage, "{what} ended with {kind:?} after {:?}", since.elapsed());
}

#[tokio::test]
async fn in_a_black_hole_every_wait_is_kept_and_ends_with_the_outage() {
    let stage = Stage::new().await;
    stage.proxy.blackhole(true);
    let wait = Duration::from_millis(300);
    let mutex = |name: &str| stage.locks.mutex(name);
    let question = mutex("hole-e");
    tokio::join!(
        meets_the_outage("try_lock", GRACE, mutex("hole-a").try_lock()),
        meets_the_outage("lock", GRACE, mutex("hole-b").lock()),
        meets_the_outage(
            "lock.wait(1.5 s)",
            5 * wait + GRACE,
            mutex("hole-c").lock().wait(5 * wait)
        ),
        meets_the_outage("try_lock.wait(1.5 s)", 5 * wait + GRACE, {
            mutex("hole-d").try_lock().wait(5 * wait)
        }),
        meets_the_outage("a question", GRACE, question.is_locked()),
    );
    // What was under way arrives when the hole closes; it is taken back, long before its lease ends.
    stage.proxy.heal().await;
    eventually("nothing left", async || stage.server.keys("*hole*").await.is_empty()).await;
    let guard = stage.locks.mutex("hole-a").lock().await.unwrap();
    guard.unlock().await.unwrap();
    assert_clean(&stage.server, "hole").await;
}

/// A wait that is over before the first reply could be missed is no other.
#[tokio::test]
async fn in_a_black_hole_a_short_wait_ends_with_the_outage_too() {
    let stage = Stage::new().await;
    stage.proxy.blackhole(true);
    let wait = Duration::from_millis(300);
    let limit = wait + GRACE;
    tokio::join!(
        meets_the_outage("lock", limit, stage.locks.mutex("brief-a").lock().wait(wait)),
        meets_the_outage("try_lock", limit, stage.locks.mutex("brief-b").try_lock().wait(wait)),
    );
    stage.proxy.heal().await;
    eventually("nothing left", async || stage.server.keys("*brief*").await.is_empty()).await;
    assert_clean(&stage.server, "brief").await;
}

#[tokio::test]
async fn an_unlock_in_a_black_hole_ends_and_the_release_goes_on_without_its_caller() {
    let stage = Stage::new().await;
    let guard = stage.locks.mutex("stuck").lock().await.unwrap();
    stage.proxy.blackhole(true);
    meets_the_outage("unlock", GRACE, guard.unlock()).await;
    assert!(stage.server.exists("stuck").await);
    stage.proxy.heal().await;
    eventually("released", async || !stage.server.exists("stuck").await).await;
    assert_clean(&stage.server, "stuck").await;
}

#[tokio::test]
async fn a_waiter_that_meets_an_outage_says_so_and_not_that_the_lock_was_busy() {
    let stage = Stage::new().await;
    let holder = stage.other.mutex("outage").lock().await.unwrap();
    let wait = Duration::from_secs(2);
    let waiting = tokio::spawn(stage.locks.mutex("outage").lock().wait(wait).into_future());
    eventually("it waits", async || !stage.server.pubsub_channels().await.is_empty()).await;
    stage.proxy.refuse(true).await;
    stage.proxy.reset_all().await;
    meets_the_outage("lock", wait + GRACE, async { waiting.await.unwrap() }).await;
    stage.assert_held(&holder, 1).await;
    holder.unlock().await.unwrap();
}

#[tokio::test]
async fn a_waiter_that_sleeps_through_an_outage_says_so_and_not_that_the_lock_was_busy() {
    let stage = Stage::new().await;
    let holder = stage.other.mutex("asleep").lock().await.unwrap();
    let wait = Duration::from_secs(2);
    let waiting = tokio::spawn(stage.locks.mutex("asleep").lock().wait(wait).into_future());
    eventually("it waits", async || !stage.server.pubsub_channels().await.is_empty()).await;
    // Until it has stopped looking: nothing is under way that could fail.
    let (mut asked, mut since) = (stage.proxy.count("EVALSHA"), Instant::now());
    eventually("it sleeps", async || {
        let now = stage.proxy.count("EVALSHA");
        if now != asked {
            (asked, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(100)
    })
    .await;
    stage.proxy.refuse(true).await;
    stage.proxy.reset_all().await;
    meets_the_outage("lock", wait + GRACE, async { waiting.await.unwrap() }).await;
    stage.assert_held(&holder, 1).await;
    holder.unlock().await.unwrap();
}
