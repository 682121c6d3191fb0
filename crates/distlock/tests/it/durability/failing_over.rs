//! A primary that dies before its replica has the lock, without chance: the replica is stopped and cut off, the lock taken, the
//! primary killed, the replica promoted. Clients find the primary at one address that leads to whoever is it, or among several.

use std::time::Duration;

use distlock::{Durability, Locks};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Proxy, Replicas, Server};
use tokio::time::{Instant, timeout, timeout_at};

use crate::durability::{LONG, SOON, acknowledged, assert_not_durable, ms};

/// Told of a loss within this; and so long that a machine that stands still for some seconds costs nobody a lock.
const WATCHDOG: Duration = ms(6000);
/// By how much a busy machine may be late.
const SLACK: Duration = ms(4000);

/// How clients find the primary.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It has an address that goes with it.
    Address,
    /// They know both servers and ask.
    #[cfg(feature = "sentinel")]
    Asking,
}

const WAYS: &[Way] = &[
    Way::Address,
    #[cfg(feature = "sentinel")]
    Way::Asking,
];

/// A set, and two processes there.
struct Scene {
    set: Replicas,
    address: Proxy,
    one: Locks,
    two: Locks,
}

impl Scene {
    async fn start(flavor: Flavor, way: Way, durability: Durability) -> Scene {
        let set = Replicas::start(flavor, 1).await;
        let address = Proxy::start(set.primary.addr()).await;
        let url = match way {
            Way::Address => address.url(),
            #[cfg(feature = "sentinel")]
            Way::Asking => {
                format!("redis+replicated://{},{}", set.primary.addr(), set.replica().addr())
            }
        };
        let open = async || {
            let builder = Locks::builder().url(&url).watchdog(WATCHDOG);
            builder.durability(durability).connect().await.expect("a server")
        };
        let (one, two) = (open().await, open().await);
        Scene { set, address, one, two }
    }

    /// The replica is the primary from now on.
    async fn fail_over(&self) {
        self.set.fail_over().await;
        self.address.retarget(self.set.replica().addr());
        self.address.reset_all().await;
    }
}

pub(crate) async fn without_acks_a_second_holder_gets_in_and_the_first_is_told(flavor: Flavor) {
    for way in WAYS {
        let scene = Scene::start(flavor, *way, Durability::Primary).await;
        let Scene { set, one, two, .. } = &scene;
        let before = one.fenced("k").lock().await.unwrap();
        let token_before = before.token();
        before.unlock().await.unwrap();
        set.freeze().await;
        let sent = Instant::now();
        let first = one.fenced("k").lock().await.unwrap();
        let leased = one.mutex("leased").lock().lease(WATCHDOG).await.unwrap();
        scene.fail_over().await;
        assert!(!set.replica().exists("k").await, "it was not replicated");

        // This is what is lost, and what docs/guarantees.md says of it.
        let second = timeout(SOON, two.fenced("k").lock()).await.expect("free").unwrap();
        println!("{flavor:?} {way:?}: a second one {:?} after the first", sent.elapsed());
        // One is told when it is renewed, the other no later than by its own clock.
        timeout_at(sent + WATCHDOG + SLACK, first.lost()).await.expect("told");
        println!("{flavor:?} {way:?}: the first is told after {:?}", sent.elapsed());
        timeout_at(sent + WATCHDOG + SLACK, leased.lost()).await.expect("told");
        assert!(first.is_lost() && !second.is_lost());
        // Numbers go on all the same, because they follow the clock: the first one's work is refused where they are checked.
        assert!(first.token() > token_before);
        assert!(second.token() > first.token(), "{} and {}", second.token(), first.token());
        second.unlock().await.unwrap();
    }
}

pub(crate) async fn with_acks_there_is_never_a_second_holder(flavor: Flavor) {
    for way in WAYS {
        let scene = Scene::start(flavor, *way, Durability::Acks(1)).await;
        let Scene { set, one, two, .. } = &scene;
        let before = acknowledged(async || one.mutex("k").lock().await).await;
        before.unlock().await.unwrap();
        set.freeze().await;
        let error = one.mutex("k").lock().await.unwrap_err();
        assert_not_durable(&error, 0, 1);
        scene.fail_over().await;
        assert_eq!(set.replica().keys("*").await, [""; 0]);
        // The new primary has no replica of its own yet, so nobody gets in until it has one.
        let refused = timeout(SOON, two.mutex("k").lock()).await.expect("told").unwrap_err();
        assert_not_durable(&refused, 0, 1);
        let port = set.replica().port().to_string();
        let follower = Server::builder(flavor).args(["--replicaof", "127.0.0.1", &port]);
        let _follower = follower.start().await;
        let again = || async { two.mutex("k").try_lock().await.is_ok_and(|got| got.is_some()) };
        eventually("it can be had again", again).await;
    }
}

pub(crate) async fn what_was_acknowledged_survives(flavor: Flavor) {
    for way in WAYS {
        let scene = Scene::start(flavor, *way, Durability::Acks(1)).await;
        let Scene { set, one, two, .. } = &scene;
        let leased = acknowledged(async || one.mutex("leased").lock().lease(LONG).await).await;
        let held = acknowledged(async || one.mutex("k").lock().await).await;
        set.freeze().await;
        scene.fail_over().await;
        // On the new primary it is the first one's, and stays so: it is renewed there.
        let busy = two.mutex("k").try_lock().wait(WATCHDOG * 4 / 3).await.unwrap();
        assert!(busy.is_none(), "a second holder");
        assert!(two.mutex("leased").try_lock().await.unwrap().is_none(), "a second holder");
        assert!(!held.is_lost());
        held.unlock().await.unwrap();
        leased.unlock().await.unwrap();
        assert_eq!(set.replica().keys("*").await, [""; 0]);
    }
}

/// A primary that is killed under load, with a Sentinel that finds another: what two replicas of two have acknowledged is on
/// whichever of them takes over, and locks can be had with one acknowledgement when it has the other one for a replica.
pub(crate) async fn what_all_replicas_have_survives_a_sentinel_failover(flavor: Flavor) {
    use distlock_testkit::SentinelSet;

    // Nobody is taken for dead, and no sentinel rests, because the machine is busy. Redis 6.2 cannot be told not to rest.
    let set = SentinelSet::builder(flavor).replicas(2).down_after(LONG).start().await;
    for sentinel in set.sentinels() {
        let rests = ["SENTINEL", "DEBUG", "tilt-trigger", "600000", "tilt-period", "1"];
        let _ = sentinel.try_cli(&rests).await;
    }
    let dead_after = async |time: Duration| {
        let millis = time.as_millis().to_string();
        for sentinel in set.sentinels() {
            let setting = ["SENTINEL", "SET", set.name(), "down-after-milliseconds", &millis];
            sentinel.cli(&setting).await;
        }
    };
    let open = async |acks| {
        // Longer than any failover: what is kept was on the replica, and not renewed in time.
        let builder = Locks::builder().url(set.url()).watchdog(LONG);
        builder.durability(Durability::Acks(acks)).connect().await.expect("a set")
    };
    let (all, one) = (open(2).await, open(1).await);
    let held = acknowledged(async || all.mutex("k").lock().await).await;
    let old = set.primary().await;
    dead_after(ms(1000)).await;
    old.kill();
    let since = Instant::now();
    set.replaced(&old).await;
    dead_after(LONG).await;
    let other = || async { one.mutex("other").try_lock().await.is_ok_and(|got| got.is_some()) };
    eventually("another lock can be had", other).await;
    println!(
        "{flavor:?}: locks can be had with an acknowledgement {:?} after the kill",
        since.elapsed()
    );
    assert!(one.mutex("k").try_lock().await.unwrap().is_none(), "a second holder");
    // Its holder has to find the new primary first.
    eventually("it is still held", || async { held.extend(LONG).await.is_ok() }).await;
    held.unlock().await.unwrap();
}
