//! With replicas that follow.

use distlock::{Durability, ErrorKind, Locks, RedLock};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Replicas, Server};

use crate::durability::kinds::KINDS;
use crate::durability::{LONG, acknowledged, ms, with_acks};

/// What a server has, but for times: a replica counts them itself.
async fn digest(server: &Server) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for key in server.keys("*").await {
        let dump: Vec<u8> = server.ask(&["DUMP", &key]).await;
        all.push((key, format!("{dump:?}")));
    }
    all
}

pub(crate) async fn every_kind_is_on_the_replica_when_the_call_returns(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    for kind in KINDS {
        for must in [true, false] {
            let name = format!("{kind:?}{must}");
            let taken = acknowledged(async || kind.take(&locks, &name, must).await).await;
            let unlock = taken.expect("free");
            // Read there first: asking the primary would take time in which it could arrive.
            let (there, here) = (digest(set.replica()).await, digest(&set.primary).await);
            assert!(here.iter().any(|(key, _)| key.contains(&name)), "{name}: {here:?}");
            assert_eq!(there, here, "{name}");
            unlock.await.unwrap();
        }
    }
}

/// Without a runtime, on a runtime of one thread, and when all is over no connection is left.
#[tokio::test]
async fn every_sort_of_program_waits_for_replicas() {
    let set = Replicas::start(Flavor::Redis, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    let here = acknowledged(async || locks.mutex("here").lock().await).await;
    assert!(set.replica().exists("here").await);
    let url = set.primary.url();
    let blocking = std::thread::spawn(move || {
        let builder = Locks::builder().url(url).durability(Durability::Acks(1));
        let mutex = builder.connect_blocking().unwrap().mutex("there");
        loop {
            match mutex.lock().blocking() {
                Err(e) if e.kind() == ErrorKind::NotDurable => {}
                answer => break answer.unwrap(),
            }
        }
    });
    let there = blocking.join().unwrap();
    assert!(set.replica().exists("there").await);
    there.unlock().await.unwrap();
    here.unlock().await.unwrap();
    assert!(set.primary.calls("wait").await >= 2);
    drop(locks);
    let gone =
        || async { set.primary.clients().await.iter().all(|client| client.contains("flags=S")) };
    eventually("no connection is left but the replica's", gone).await;
}

pub(crate) async fn only_acquisitions_wait_for_replicas(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let locks = with_acks(&set.primary.url(), 1).await;
    let other = with_acks(&set.primary.url(), 1).await;
    drop(acknowledged(async || other.mutex("warm").lock().await).await);
    set.primary.reset_stats().await;

    let waits = async || set.primary.calls("wait").await;
    let guard = acknowledged(async || locks.mutex("k").lock().await).await;
    let first = waits().await;
    assert!(first >= 1, "an acquisition waits for replicas");
    // Renewed, extended, looked at: nothing of that waits.
    guard.extend(LONG * 2).await.unwrap();
    assert!(locks.mutex("k").is_locked().await.unwrap());
    let latch = locks.latch("done");
    assert!(latch.init(1).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), 0);
    latch.wait().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(waits().await, first, "nothing but an acquisition waits for replicas");

    let again = acknowledged(async || {
        let before = waits().await;
        let again = locks.mutex("k").lock().await;
        if again.is_ok() {
            assert_eq!(waits().await, before + 1, "one for each that comes alone");
        }
        again
    })
    .await;
    again.unlock().await.unwrap();

    // Renewals by the watchdog. With a shorter timeout a machine that stands still would cost the lock.
    let builder = Locks::builder().url(set.primary.url()).watchdog(ms(6000));
    let renewed = builder.durability(Durability::Acks(1)).connect().await.unwrap();
    let guard = acknowledged(async || renewed.mutex("renewed").lock().await).await;
    let (before, renewals) = (waits().await, set.primary.calls("pexpire").await);
    let again = || async { set.primary.calls("pexpire").await >= renewals + 3 };
    eventually("renewed", again).await;
    assert_eq!(waits().await, before, "renewals do not wait for replicas");
    assert!(!guard.is_lost());
    guard.unlock().await.unwrap();

    let majority = RedLock::new("majority", &[locks]);
    let held = acknowledged(async || {
        let before = waits().await;
        let held = majority.lock().await;
        if held.is_ok() {
            assert_eq!(waits().await, before + 1, "a majority of one");
        }
        held
    })
    .await;
    held.unlock().await.unwrap();
}
