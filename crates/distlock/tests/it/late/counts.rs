//! Late changes of counts, late commands of a guard, late acts of an operator.

use std::time::Duration;

use distlock::store::Command;
use distlock::{ErrorKind, Locks, Result};
use distlock_testkit::proxy::{Late, Match, Proxy, Rule};
use distlock_testkit::suites::eventually;

use crate::late::stage::{IMPATIENT, LEASE, SOON, Store, User, connect, url_through};

/// One server, one process whose requests can be late, and another one.
struct Desk {
    store: Store,
    proxy: Proxy,
    here: Locks,
    other: Locks,
}

impl Desk {
    async fn set(user: User) -> Desk {
        let store = Store::start(1).await;
        let proxy = Proxy::start(store.servers()[0].addr()).await;
        let here = connect(&url_through(&store.servers()[0], &proxy, user), IMPATIENT).await;
        let other = connect(&store.servers()[0].url(), IMPATIENT).await;
        Desk { store, proxy, here, other }
    }

    /// The next step about `k` is held back.
    fn hold_back(&self) -> Late {
        self.proxy.deliver_late(steps(), 1)
    }

    fn watch(&self) -> Rule {
        self.proxy.watch(steps())
    }
}

fn steps() -> Match {
    Match::command("EVALSHA").and("k")
}

const BOTH: [User; 2] = [User::MayKill, User::MayNotKill];

/// An answer, or the news that nobody knows: then it is not sent again.
fn assert_in_doubt<T: std::fmt::Debug>(answer: &Result<T>) {
    let kind = answer.as_ref().map_err(distlock::Error::kind);
    assert!(matches!(kind, Ok(_) | Err(ErrorKind::Indeterminate)), "{answer:?}");
}

#[tokio::test]
async fn a_late_count_down_that_was_sent_again_counts_once() {
    for user in BOTH {
        let desk = Desk::set(user).await;
        let latch = desk.here.latch("k");
        latch.init(9).await.unwrap();
        assert_eq!(latch.count_down().await.unwrap(), 8);
        forgotten(&desk).await;
        let (mut late, seen) = (desk.hold_back(), desk.watch());
        assert_eq!(latch.count_down().await.unwrap(), 7);
        late.fired(1).await;
        seen.fired(2).await;
        forgotten(&desk).await;
        let delivered = late.deliver().await;
        let count = desk.other.latch("k").count().await.unwrap();
        assert_eq!(count, 7, "{user:?}: counted twice, {delivered:?}");
    }
}

#[tokio::test]
async fn a_late_count_down_does_not_count_for_the_next_latch_of_its_name() {
    for user in BOTH {
        let desk = Desk::set(user).await;
        let latch = desk.here.latch("k");
        latch.init(2).await.unwrap();
        assert_eq!(latch.count_down().await.unwrap(), 1);
        let mut late = desk.hold_back();
        assert_eq!(latch.count_down().await.unwrap(), 0);
        late.fired(1).await;
        forgotten(&desk).await;
        assert!(desk.other.latch("k").init(3).await.unwrap());
        late.deliver().await;
        assert_eq!(desk.other.latch("k").count().await.unwrap(), 3, "{user:?}");
    }
}

/// Waits until the answers to count-downs are not remembered any more; a while at most, since what was in doubt may stay longer.
async fn forgotten(desk: &Desk) {
    let server = &desk.store.servers()[0];
    let kept = async {
        while !server.keys("*distlock_counted*").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), kept).await;
}

/// An operation on a semaphore's permits, and what it leaves of ten.
type Change = (&'static str, fn(Locks) -> distlock::env::BoxFuture<'static, Result<()>>);

/// What is not sent again either happened or did not, and that is settled once the same process has an answer.
#[tokio::test]
async fn a_late_change_of_permits_is_not_made_after_a_later_answer() {
    let changes: [Change; 6] = [
        ("add", |locks| Box::pin(async move { locks.semaphore("k").add(5).await.map(drop) })),
        ("drain", |locks| Box::pin(async move { locks.semaphore("k").drain().await.map(drop) })),
        ("release", |locks| {
            Box::pin(async move { locks.semaphore("k").release(5).await.map(drop) })
        }),
        ("release_if_exists", |locks| {
            Box::pin(async move { locks.semaphore("k").release_if_exists(5).await.map(drop) })
        }),
        ("delete", |locks| Box::pin(async move { locks.semaphore("k").delete().await.map(drop) })),
        ("init", |locks| Box::pin(async move { locks.semaphore("k").init(5).await.map(drop) })),
    ];
    let desk = Desk::set(User::MayKill).await;
    for (what, change) in changes {
        let semaphore = desk.here.semaphore("k");
        semaphore.delete().await.unwrap();
        if what != "init" {
            semaphore.init(10).await.unwrap();
        }
        let mut late = desk.hold_back();
        assert_in_doubt(&change(desk.here.clone()).await);
        late.fired(1).await;
        let answered = semaphore.available().await.unwrap();
        late.deliver().await;
        assert_eq!(desk.other.semaphore("k").available().await.unwrap(), answered, "{what}");
    }
}

#[tokio::test]
async fn a_late_number_of_leased_permits_does_not_undo_a_later_one() {
    let desk = Desk::set(User::MayKill).await;
    let semaphore = desk.here.leased_semaphore("k");
    semaphore.set(2).await.unwrap();
    let mut late = desk.hold_back();
    semaphore.set(3).await.unwrap();
    late.fired(1).await;
    semaphore.set(7).await.unwrap();
    late.deliver().await;
    assert_eq!(desk.other.leased_semaphore("k").available().await.unwrap(), 7);
}

#[tokio::test]
async fn a_late_lease_of_a_permit_does_not_undo_a_later_one() {
    let desk = Desk::set(User::MayKill).await;
    let semaphore = desk.here.leased_semaphore("k").with_permits(1);
    let permit = semaphore.acquire(1).lease(LEASE).await.unwrap();
    let id = permit.ids()[0];
    semaphore.extend(id, LEASE).await.unwrap();
    let mut late = desk.hold_back();
    semaphore.extend(id, LEASE / 10).await.unwrap();
    late.fired(1).await;
    semaphore.extend(id, LEASE).await.unwrap();
    late.deliver().await;
    let left = desk.other.leased_semaphore("k").remaining(id).await.unwrap();
    assert!(left.is_some_and(|left| left > LEASE / 2), "{left:?}");
    permit.release().await.unwrap();
}

#[tokio::test]
async fn a_late_forced_unlock_does_not_free_the_next_hold() {
    let desk = Desk::set(User::MayKill).await;
    desk.other.mutex("k").lock().lease(LEASE).await.unwrap().leak();
    let mut late = desk.hold_back();
    assert_in_doubt(&desk.here.mutex("k").force_unlock().await);
    late.fired(1).await;
    let next = desk.other.mutex("k").lock().lease(LEASE).wait(SOON).await.unwrap();
    late.deliver().await;
    if let Err(error) = next.unlock().await {
        panic!("the next holder is told {error:?}");
    }
}

#[tokio::test]
async fn a_late_command_of_a_guard_does_not_undo_a_later_one() {
    let desk = Desk::set(User::MayKill).await;
    let guard = desk.here.mutex("k").lock().lease(LEASE).await.unwrap();
    let set = |value: &str| Command::new("SET").key("stock").arg(value);
    guard.send(&set("warm")).await.unwrap();
    let mut late = desk.hold_back();
    assert_in_doubt(&guard.send(&set("old")).await);
    late.fired(1).await;
    guard.send(&set("new")).await.unwrap();
    late.deliver().await;
    let stock: String = desk.store.servers()[0].ask(&["GET", "stock"]).await;
    assert_eq!(stock, "new");
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_late_command_of_a_guard_does_not_run_under_the_next_hold_of_its_owner() {
    for user in BOTH {
        let desk = Desk::set(user).await;
        let me = desk.here.owner();
        let guard = desk.here.mutex("k").lock().owner(&me).lease(LEASE).await.unwrap();
        let set = |value: &str| Command::new("SET").key("stock").arg(value);
        guard.send(&set("warm")).await.unwrap();
        let mut late = desk.hold_back();
        assert_in_doubt(&guard.send(&set("late")).await);
        late.fired(1).await;
        guard.unlock().await.unwrap();
        let next = desk.here.mutex("k").lock().owner(&me).lease(LEASE).wait(SOON).await.unwrap();
        late.deliver().await;
        let stock: String = desk.store.servers()[0].ask(&["GET", "stock"]).await;
        assert_eq!(stock, "warm", "{user:?}");
        next.unlock().await.unwrap();
    }
}

/// A token that a gate was shown late changes nothing: it is no higher than one that it was shown again with.
#[tokio::test]
async fn a_late_token_does_not_lower_a_gate() {
    for user in BOTH {
        let desk = Desk::set(user).await;
        let gate = desk.here.fence_gate("k");
        gate.admit(1).await.unwrap();
        let mut late = desk.hold_back();
        gate.admit(2).await.unwrap();
        late.fired(1).await;
        gate.admit(9).await.unwrap();
        late.deliver().await;
        let refused = desk.other.fence_gate("k").admit(8).await;
        assert!(refused.is_err(), "{user:?}");
        eventually("it is as high as before", || async { gate.admit(9).await.is_ok() }).await;
    }
}
