//! `leased_semaphore` beside `RedissonClient.getPermitExpirableSemaphore`.

use std::time::Duration;

use distlock::{ErrorKind, LeasedSemaphore, PermitId};
use distlock_testkit::peer::{LeasedPermits, Version};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Pair, worker};
use tokio::time::timeout;

use crate::pairs::semaphore::channel;
use crate::pairs::{HOUR, IN_VAIN, SOON, asleep, calm, hearing, ms, secs};

/// Both sides see so many permits left, and so many out.
async fn both_see(java: &LeasedPermits, rust: &LeasedSemaphore, left: i64, out: i64) {
    let theirs = (java.available().await, java.acquired().await, java.total().await);
    assert_eq!(theirs, (left, out, left + out));
    let available = rust.available().await.expect("the server answers");
    let acquired = rust.acquired().await.expect("the server answers");
    assert_eq!((available, acquired), (left, out));
}

/// Java's ids as ours.
fn ours(ids: &[String]) -> Vec<PermitId> {
    ids.iter().map(|id| id.parse().expect("Java's ids are ours")).collect()
}

/// The numbers are the same on both sides after every step of either.
pub(super) async fn both_sides_count_the_same_permits(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").leased_semaphore(&name);
    let rust = pair.rust().await.leased_semaphore(&name);
    assert!(java.try_set(5).await);
    assert!(!rust.init(9).await.expect("the server answers"), "it was set before");
    both_see(&java, &rust, 5, 0).await;
    let theirs = java.acquire(2, Some(HOUR)).await.ids;
    both_see(&java, &rust, 3, 2).await;
    let mine = rust.acquire(2).lease(HOUR).await.expect("there are three");
    both_see(&java, &rust, 1, 4).await;
    assert!(java.try_acquire(2, ms(0), Some(HOUR)).await.ids.is_empty());
    assert!(java.try_acquire(2, IN_VAIN, None).await.ids.is_empty());
    assert!(rust.try_acquire(2).wait(ms(100)).await.expect("the server answers").is_none());
    both_see(&java, &rust, 1, 4).await;
    mine.unlock().await.expect("they were held");
    both_see(&java, &rust, 3, 2).await;
    java.release_one(&theirs[0]).await;
    both_see(&java, &rust, 4, 1).await;
    java.release(&theirs[1..]).await;
    both_see(&java, &rust, 5, 0).await;

    // More, fewer, and fewer than are out.
    let mine = rust.acquire(3).lease(HOUR).await.expect("there are five");
    java.set(7).await;
    both_see(&java, &rust, 4, 3).await;
    assert_eq!(rust.set(2).await.expect("the server answers"), -1);
    both_see(&java, &rust, -1, 3).await;
    assert!(java.try_acquire(1, ms(0), None).await.ids.is_empty());
    java.add(2).await;
    both_see(&java, &rust, 1, 3).await;
    assert_eq!(rust.add(1).await.expect("the server answers"), 2);
    both_see(&java, &rust, 2, 3).await;
    mine.unlock().await.expect("they were held");
    both_see(&java, &rust, 5, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
    assert!(rust.init(1).await.expect("the server answers"));
    assert!(!java.try_set(7).await, "it was set before");
    both_see(&java, &rust, 1, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
}

/// An id is worth the same on both sides: either gives back and extends what the other took, once.
pub(super) async fn ids_are_worth_the_same_on_both_sides(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").leased_semaphore(&name);
    let rust = pair.rust().await.leased_semaphore(&name);
    assert!(rust.init(4).await.expect("the server answers"));

    // Java's, given back by us: one, several, one for ever.
    let one = java.acquire(1, Some(HOUR)).await.ids;
    let two = java.acquire(2, Some(HOUR)).await.ids;
    let forever = java.acquire(1, None).await.ids;
    both_see(&java, &rust, 0, 4).await;
    assert!([&one[0], &two[0], &two[1], &forever[0]].iter().all(|id| id.len() == 32));
    let left = rust.remaining(ours(&one)[0]).await.expect("it is out").expect("it has a lease");
    assert!(left > HOUR / 2 && left <= HOUR, "{left:?}");
    let left = rust.remaining(ours(&forever)[0]).await.expect("the server answers");
    assert_eq!(left, Some(Duration::MAX), "it is out for ever");
    rust.extend(ours(&one)[0], 2 * HOUR).await.expect("it is out");
    let left = rust.remaining(ours(&one)[0]).await.expect("it is out").expect("it has a lease");
    assert!(left > HOUR && left <= 2 * HOUR, "{left:?}");
    rust.release(&ours(&one)).await.expect("it is out");
    rust.release(&ours(&two)).await.expect("they are out");
    both_see(&java, &rust, 3, 1).await;
    let again = rust.release(&ours(&one)).await.expect_err("it was given back");
    assert_eq!(again.kind(), ErrorKind::NotHeld);
    let again = java.release_one(&one[0]).result().await;
    assert!(again.is_err(), "it was given back");
    assert_eq!(java.try_release(&two).await, 0);
    both_see(&java, &rust, 3, 1).await;
    rust.release(&ours(&forever)).await.expect("it is out");
    both_see(&java, &rust, 4, 0).await;

    // Ours, given back by Java.
    let one = rust.acquire(1).lease(HOUR).await.expect("there are four");
    let three = rust.acquire(3).lease(HOUR).await.expect("there are three");
    let ids = |permits: &distlock::Permits| -> Vec<String> {
        permits.ids().iter().map(ToString::to_string).collect()
    };
    assert!(java.update_lease(&ids(&one)[0], 2 * HOUR).await);
    let left = rust.remaining(one.ids()[0]).await.expect("it is out").expect("it has a lease");
    assert!(left > HOUR && left <= 2 * HOUR, "{left:?}");
    java.release_one(&ids(&one)[0]).await;
    both_see(&java, &rust, 1, 3).await;
    assert_eq!(java.try_release(&ids(&three)).await, 3);
    both_see(&java, &rust, 4, 0).await;
    // The guards give nothing back a second time.
    assert_eq!(one.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);
    assert_eq!(three.unlock().await.expect_err("they are gone").kind(), ErrorKind::Lost);
    both_see(&java, &rust, 4, 0).await;

    // All or none: one that is not out keeps the others out.
    let theirs = java.acquire(2, Some(HOUR)).await.ids;
    let mixed = [theirs.clone(), one_more(&theirs)].concat();
    if pair.version() != Version::Older3 {
        // That one gives back what is out.
        assert_eq!(java.try_release(&mixed).await, 0);
    }
    let refused = rust.release(&ours(&mixed)).await.expect_err("one is unknown");
    assert_eq!(refused.kind(), ErrorKind::NotHeld);
    both_see(&java, &rust, 2, 2).await;
    rust.release(&ours(&theirs)).await.expect("they are out");
    assert!(rust.delete().await.expect("the server answers"));
}

/// An id that nobody has.
fn one_more(ids: &[String]) -> Vec<String> {
    let mut id = *ours(ids)[0].as_bytes();
    id[0] ^= 1;
    vec![PermitId::from_bytes(id).to_string()]
}

/// Whoever waits is called when the other side gives back or adds: their leases would last for an hour.
pub(super) async fn each_is_called_by_the_other(pair: Pair) {
    // Before 3.51 a Java thread that waits for several is not woken by anybody, Redisson's own releases included (its #6664).
    let many = if pair.version() == Version::Older3 { 1 } else { 2 };
    let name = pair.name("k");
    let thread = pair.java("b");
    let (java, waiter) = (pair.java("a").leased_semaphore(&name), thread.leased_semaphore(&name));
    let rust = hearing(&pair).await.leased_semaphore(&name);
    assert!(rust.init(2).await.expect("the server answers"));
    for how in 0..4 {
        let mine = rust.acquire(2).lease(HOUR).await.expect("there are two");
        let mut entry = waiter.acquire(many, Some(HOUR));
        asleep(&thread).await;
        assert!(!entry.is_done(), "more are out than there are");
        match how % 2 {
            0 => mine.unlock().await.expect("they were held"),
            _ => drop(mine),
        }
        let mut theirs = entry.within(secs(20)).await.ids;
        if many == 1 {
            theirs.extend(java.acquire(1, Some(HOUR)).await.ids);
        }
        calm(&pair, &channel(&name)).await;
        let entry = tokio::spawn(rust.acquire(2).lease(HOUR).into_future());
        pair.listening(&channel(&name), 1).await;
        java.release_one(&theirs[0]).await;
        assert_eq!(java.available().await, 1);
        assert!(!entry.is_finished(), "more are out than there are");
        java.release_one(&theirs[1]).await;
        let mine = timeout(SOON, entry).await.expect("it is called").expect("no panic");
        mine.expect("there are two").unlock().await.expect("they were held");
    }
    // By the list, which Redisson calls out in another way.
    let theirs = java.acquire(2, Some(HOUR)).await.ids;
    calm(&pair, &channel(&name)).await;
    let entry = tokio::spawn(rust.acquire(2).lease(HOUR).into_future());
    pair.listening(&channel(&name), 1).await;
    java.release(&theirs).await;
    let mine = timeout(SOON, entry).await.expect("it is called").expect("no panic");
    let mine = mine.expect("there are two");
    let entry = waiter.acquire(1, Some(HOUR));
    asleep(&thread).await;
    assert_eq!(rust.add(1).await.expect("the server answers"), 1);
    let theirs = entry.within(secs(20)).await.ids;
    calm(&pair, &channel(&name)).await;
    let entry = tokio::spawn(rust.acquire(1).lease(HOUR).into_future());
    pair.listening(&channel(&name), 1).await;
    java.add(1).await;
    let more = timeout(SOON, entry).await.expect("it is called").expect("no panic");
    more.expect("there is one").unlock().await.expect("it was held");
    mine.unlock().await.expect("they were held");
    java.release(&theirs).await;
    both_see(&java, &rust, 4, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
}

/// A lease that ends lets the other side in without a call, and the slow holder gets nothing back twice.
pub(super) async fn a_lease_that_ends_lets_the_other_in(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").leased_semaphore(&name);
    let rust = pair.rust().await.leased_semaphore(&name);
    assert!(java.try_set(1).await);
    let theirs = java.acquire(1, Some(ms(500))).await.ids;
    let mine = rust.acquire(1).lease(HOUR).wait(secs(20)).await.expect("it ends");
    assert!(!java.try_release_one(&theirs[0]).await, "it is gone");
    both_see(&java, &rust, 0, 1).await;
    mine.unlock().await.expect("it was held");

    let mine = rust.acquire(1).lease(ms(500)).await.expect("there is one");
    let theirs = java.try_acquire(1, secs(20), Some(HOUR)).await.ids;
    assert!(mine.is_lost(), "more are out than there are");
    assert_eq!(theirs.len(), 1);
    assert_eq!(mine.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);
    both_see(&java, &rust, 0, 1).await;
    java.release(&theirs).await;

    // What has ended counts as left, on both sides, before anybody takes it.
    java.acquire(1, Some(ms(300))).await;
    eventually("it ends", || async { rust.acquired().await.expect("the server answers") == 0 })
        .await;
    both_see(&java, &rust, 1, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
}

/// Our watchdog keeps a permit for longer than its timeout, which is 9 s; if Java gives it back, the holder learns of it.
pub(super) async fn our_watchdog_keeps_a_permit(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").leased_semaphore(&name);
    let rust = pair.rust().await.leased_semaphore(&name);
    assert!(java.try_set(1).await);
    let mine = rust.acquire(1).await.expect("there is one");
    assert!(java.try_acquire(1, secs(12), Some(HOUR)).await.ids.is_empty(), "more are out");
    assert!(!mine.is_lost());
    assert!(java.try_release_one(&mine.ids()[0].to_string()).await);
    timeout(secs(15), mine.lost()).await.expect("the watchdog finds out");
    drop(mine);
    both_see(&java, &rust, 1, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
}

/// What a dead process had comes back when its lease ends. What a dead JVM had for ever is given back by its id.
pub(super) async fn what_the_dead_had_comes_back(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").leased_semaphore(&name);
    let rust = pair.rust().await.leased_semaphore(&name);
    assert!(java.try_set(3).await);
    let mut dead = worker("worker").start().await;
    dead.wait_for("ready").await;
    let connected = dead.ask(&format!("connect {} 3000", pair.url())).await;
    assert_eq!(connected, "connected");
    let taken = dead.ask(&format!("leases {name} 1")).await;
    assert!(taken.starts_with("taken "), "{taken}");
    let doomed = pair.own_peer().await;
    let theirs = doomed.thread("a").leased_semaphore(&name);
    theirs.acquire(1, Some(secs(3))).await;
    let forever = theirs.acquire(1, None).await.ids;
    doomed.kill();
    dead.kill();
    // Java waits for what a lease ends, Rust for the next.
    let first = java.try_acquire(1, secs(30), Some(HOUR)).await.ids;
    assert_eq!(first.len(), 1);
    let second = rust.acquire(1).lease(HOUR).wait(secs(30)).await.expect("it ends");
    both_see(&java, &rust, 0, 3).await;
    rust.release(&ours(&forever)).await.expect("it is out");
    second.unlock().await.expect("it was held");
    java.release(&first).await;
    both_see(&java, &rust, 3, 0).await;
    assert!(rust.delete().await.expect("the server answers"));
}
