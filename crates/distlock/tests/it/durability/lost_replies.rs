//! Answers that do not arrive.

use std::sync::OnceLock;

use distlock::Locks;
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Match, Proxy, Replicas};
use tokio::time::timeout;

use crate::durability::kinds::{KINDS, Kind};
use crate::durability::{SOON, acknowledged, assert_not_durable, ms, with_acks};

async fn scene(flavor: Flavor) -> (Replicas, Proxy, Locks) {
    let set = Replicas::start(flavor, 1).await;
    let proxy = Proxy::start(set.primary.addr()).await;
    let locks = with_acks(&proxy.url(), 1).await;
    // Scripts are known from here on, so that each step is one script.
    for kind in KINDS {
        let taken = acknowledged(async || kind.take(&locks, "warm", true).await).await;
        taken.expect("free").await.unwrap();
        set.primary.cli(&["DEL", "warm"]).await;
    }
    (set, proxy, locks)
}

async fn assert_nothing_left(set: &Replicas, kind: Kind, name: &str) {
    let clean = || async {
        let keys = set.primary.keys(&format!("*{name}*")).await;
        keys.iter().all(|key| kind.may_stay(name, key))
    };
    eventually(&format!("{name}: nothing is left"), clean).await;
}

/// A step about a name.
fn step(name: &str) -> Match {
    Match::command("EVALSHA").and(Match::token(name))
}

/// The first step about a name that is another one than the first of all: what takes it back, however often it was asked for.
fn roll_back(name: &str) -> Match {
    let first: OnceLock<Vec<u8>> = OnceLock::new();
    let another = Match::by(move |request| {
        let script = &request.args()[1];
        first.get_or_init(|| script.clone()) != script
    });
    step(name).and(another)
}

/// An acquisition whose answer was lost is sent again over another connection. If that wrote nothing, `WAIT` would be about
/// nothing and say yes, although the replica has not got what the first one wrote.
pub(crate) async fn what_is_sent_again_is_acknowledged_anew(flavor: Flavor) {
    let (set, proxy, locks) = scene(flavor).await;
    // There, as far as the primary can tell, but behind.
    set.replica().stop();
    for kind in KINDS {
        let name = format!("<{kind:?}");
        let lost = proxy.reset_instead_of_replies_to(step(&name), 1);
        let taken = timeout(SOON, kind.take(&locks, &name, true)).await.expect("told").map(drop);
        assert_eq!(lost.hits(), 1, "{name}");
        assert_not_durable(&taken.unwrap_err(), 0, 1);
        assert_nothing_left(&set, kind, &name).await;
    }
    // Of many permits there are enough left for the one that is sent again.
    let many = locks.semaphore("<many").with_permits(9);
    let lost = proxy.reset_instead_of_replies_to(step("<many"), 1);
    assert_not_durable(&many.acquire(2).await.unwrap_err(), 0, 1);
    assert_eq!((lost.hits(), many.available().await.unwrap()), (1, 9));
    set.replica().cont();
}

/// The same for a level that was there before.
pub(crate) async fn a_re_entry_that_is_sent_again_is_acknowledged_anew(flavor: Flavor) {
    let (set, proxy, locks) = scene(flavor).await;
    let (me, rw) = (locks.owner(), locks.rw("<rw"));
    let outer = acknowledged(async || rw.write().owner(&me).await).await;
    set.replica().stop();
    let lost = proxy.reset_instead_of_replies_to(step("<rw"), 1);
    // For less than the outer one has: nothing but the count is new, and when it is sent again not even that.
    let inner = timeout(SOON, rw.write().owner(&me).lease(ms(1000))).await.expect("told");
    assert_eq!(lost.hits(), 1);
    assert_not_durable(&inner.unwrap_err(), 0, 1);
    set.replica().cont();
    assert_eq!(rw.write_hold_count(&me).await.unwrap(), 1);
    outer.unlock().await.unwrap();
}

/// A roll-back that is lost on its way there or back is told again; the caller has its answer all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_back_without_an_answer_is_told_again() {
    let (set, proxy, locks) = scene(Flavor::Redis).await;
    set.freeze().await;
    for how in ["reply", "request", "connection"] {
        for kind in [Kind::Mutex, Kind::Fair, Kind::Write, Kind::Semaphore, Kind::LeasedSemaphore] {
            let name = format!("<{kind:?}{how}");
            let rule = match how {
                "reply" => proxy.swallow_replies_to(roll_back(&name), 1),
                "request" => proxy.drop_requests_to(roll_back(&name), 1),
                _ => proxy.reset_instead_of_replies_to(roll_back(&name), 1),
            };
            let taken =
                timeout(SOON, kind.take(&locks, &name, true)).await.expect("told").map(drop);
            assert_not_durable(&taken.unwrap_err(), 0, 1);
            assert_eq!(rule.hits(), 1, "{name}");
            assert_nothing_left(&set, kind, &name).await;
            assert!(kind.permits(&locks, &name).await.is_none_or(|left| left == 3), "{name}");
        }
    }
}

/// Nobody knows how many have it: it is asked for again, under the same owner, and had once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_of_the_replicas_is_asked_for_again() {
    let (set, proxy, locks) = scene(Flavor::Redis).await;
    for kind in KINDS {
        for must in [true, false] {
            let name = format!("<{kind:?}{must}");
            let lost = proxy.reset_instead_of_replies_to(Match::command("WAIT"), 1);
            let take = async || timeout(SOON, kind.take(&locks, &name, must)).await.expect("told");
            let unlock = acknowledged(take).await.expect("free");
            assert_eq!(lost.hits(), 1, "{name}");
            assert!(kind.permits(&locks, &name).await.is_none_or(|left| left == 1), "{name}");
            unlock.await.unwrap();
            assert_nothing_left(&set, kind, &name).await;
        }
    }
}

/// A script that the server has forgotten is loaded and run after the `WAIT` that went along with it, which says nothing of it.
pub(crate) async fn a_script_that_had_to_be_loaded_is_acknowledged(flavor: Flavor) {
    let (set, _proxy, locks) = scene(flavor).await;
    for kind in KINDS {
        let name = format!("<{kind:?}");
        set.primary.cli(&["SCRIPT", "FLUSH"]).await;
        set.thaw().await;
        set.replica().stop();
        let taken = timeout(SOON, kind.take(&locks, &name, true)).await.expect("told").map(drop);
        assert_not_durable(&taken.unwrap_err(), 0, 1);
        assert_nothing_left(&set, kind, &name).await;
        set.thaw().await;
        let taken = acknowledged(async || kind.take(&locks, &name, true).await).await;
        taken.expect("free").await.unwrap();
    }
}
