//! Callers that leave, connections that are cut, black holes.

use super::*;

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
    // Long enough to be seen waiting, on a machine that stands still for a while.
    let wait = Duration::from_secs(6);
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
    // Long enough to be seen waiting, on a machine that stands still for a while.
    let wait = Duration::from_secs(6);
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
