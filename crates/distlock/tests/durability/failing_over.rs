//! A primary that dies before its replica has the lock, without chance: the replica is stopped and cut off, the lock taken, the
//! primary killed, the replica promoted. Clients find the primary at one address, which leads to whoever is it.

use std::time::Duration;

use distlock::{Durability, Locks};
use distlock_testkit::{Flavor, Proxy, Replicas};
use tokio::time::{Instant, timeout};

use crate::{LONG, SOON, assert_not_durable, ms};

/// Told of a loss within this.
const WATCHDOG: Duration = ms(3000);

/// A set behind one address, and two processes there.
async fn scene(flavor: Flavor, durability: Durability) -> (Replicas, Proxy, Locks, Locks) {
    let set = Replicas::start(flavor, 1).await;
    let address = Proxy::start(set.primary.addr()).await;
    let open = async || {
        let builder = Locks::builder().url(address.url()).watchdog(WATCHDOG);
        builder.durability(durability).connect().await.expect("a server")
    };
    let (one, two) = (open().await, open().await);
    (set, address, one, two)
}

/// The replica is the primary from now on, at the same address.
async fn fail_over(set: &Replicas, address: &Proxy) {
    set.fail_over().await;
    address.retarget(set.replica().addr());
    address.reset_all().await;
}

pub(crate) async fn without_acks_a_second_holder_gets_in_and_the_first_is_told(flavor: Flavor) {
    let (set, address, one, two) = scene(flavor, Durability::Primary).await;
    let before = one.fenced("k").lock().await.unwrap();
    let token_before = before.token();
    before.unlock().await.unwrap();
    set.freeze().await;
    let sent = Instant::now();
    let first = one.fenced("k").lock().await.unwrap();
    let unseen = one.mutex("leased").lock().lease(WATCHDOG).await.unwrap();
    fail_over(&set, &address).await;
    assert!(!set.replica().exists("k").await, "it was not replicated");

    // This is what is lost, and what docs/guarantees.md says of it.
    let second = timeout(SOON, two.fenced("k").lock()).await.expect("free").unwrap();
    // The one that is renewed is told when it is; the other one by its own clock.
    timeout(WATCHDOG + SOON, first.lost()).await.expect("told");
    println!("{flavor:?}: told {:?} after it was taken", sent.elapsed());
    timeout(WATCHDOG + SOON, unseen.lost()).await.expect("told");
    assert!(first.is_lost() && !second.is_lost());
    // Numbers go on all the same, because they follow the clock: the first one's work is refused where they are checked.
    assert!(first.token() > token_before);
    assert!(second.token() > first.token(), "{} and {}", second.token(), first.token());
    second.unlock().await.unwrap();
}

pub(crate) async fn with_acks_there_is_never_a_second_holder(flavor: Flavor) {
    let (set, address, one, two) = scene(flavor, Durability::Acks(1)).await;
    one.mutex("k").lock().await.unwrap().unlock().await.unwrap();
    set.freeze().await;
    let error = one.mutex("k").lock().await.unwrap_err();
    assert_not_durable(&error, 0, 1);
    fail_over(&set, &address).await;
    assert_eq!(set.replica().keys("*").await, [""; 0]);
    // The new primary has no replica of its own yet, so nobody gets in until it has one.
    let refused = timeout(SOON, two.mutex("k").lock()).await.expect("told").unwrap_err();
    assert_not_durable(&refused, 0, 1);
    let port = set.replica().port().to_string();
    let _new = distlock_testkit::Server::builder(flavor)
        .args(["--replicaof", "127.0.0.1", &port])
        .start()
        .await;
    let again = || async { two.mutex("k").try_lock().await.is_ok_and(|got| got.is_some()) };
    distlock_testkit::suites::eventually("it can be had again", again).await;
}

pub(crate) async fn what_was_acknowledged_survives(flavor: Flavor) {
    let (set, address, one, two) = scene(flavor, Durability::Acks(1)).await;
    let held = one.mutex("k").lock().await.unwrap();
    let leased = one.mutex("leased").lock().lease(LONG).await.unwrap();
    set.freeze().await;
    fail_over(&set, &address).await;
    // On the new primary it is the first one's, and stays so: it is renewed there.
    let busy = two.mutex("k").try_lock().wait(WATCHDOG * 2).await.unwrap();
    assert!(busy.is_none(), "a second holder");
    assert!(two.mutex("leased").try_lock().await.unwrap().is_none(), "a second holder");
    assert!(!held.is_lost());
    held.unlock().await.unwrap();
    leased.unlock().await.unwrap();
    assert_eq!(set.replica().keys("*").await, [""; 0]);
}
