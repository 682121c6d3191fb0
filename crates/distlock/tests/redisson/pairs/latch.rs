//! `latch` beside `RedissonClient.getCountDownLatch`.

use distlock::Latch;
use distlock_testkit::Pair;
use distlock_testkit::peer;
use distlock_testkit::suites::eventually;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::pairs::{IN_VAIN, SOON, asleep, calm, hearing, ms, secs};

fn channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// Both sides see this count.
async fn both_see(java: &peer::Latch, rust: &Latch, count: i64) {
    let seen = (java.count().await, rust.count().await.expect("the server answers"));
    assert_eq!(seen, (count, count));
}

/// The count is the same on both sides after every step of either.
pub(super) async fn both_sides_count_the_same(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").latch(&name);
    let rust = pair.rust().await.latch(&name);
    both_see(&java, &rust, 0).await;
    for ours_sets in [false, true] {
        if ours_sets {
            assert!(rust.init(3).await.expect("the server answers"));
        } else {
            assert!(java.try_set(3).await);
        }
        assert!(!java.try_set(5).await && !rust.init(5).await.expect("the server answers"));
        both_see(&java, &rust, 3).await;
        java.count_down().await;
        both_see(&java, &rust, 2).await;
        assert_eq!(rust.count_down().await.expect("the server answers"), 1);
        both_see(&java, &rust, 1).await;
        assert!(!java.wait_for(IN_VAIN).await, "it is not open");
        assert!(!rust.wait_for(ms(100)).await.expect("the server answers"), "it is not open");
        if ours_sets {
            java.count_down().await;
        } else {
            assert_eq!(rust.count_down().await.expect("the server answers"), 0);
        }
        both_see(&java, &rust, 0).await;
        assert!(!pair.exists(&name).await, "an open latch is none");
        // Once it is open nobody waits, and more does not count.
        java.wait().within(secs(20)).await;
        timeout(SOON, rust.wait()).await.expect("it is open").expect("the server answers");
        java.count_down().await;
        assert_eq!(rust.count_down().await.expect("the server answers"), 0);
        both_see(&java, &rust, 0).await;
    }
}

/// Everybody who waits is called by the last count-down, whichever side it is on. Java does not look again by itself.
pub(super) async fn the_last_count_calls_everybody(pair: Pair) {
    let name = pair.name("k");
    let (java, rust) = (pair.java("a").latch(&name), pair.rust().await.latch(&name));
    for ours_is_last in [true, false, true, false] {
        assert!(java.try_set(2).await);
        calm(&pair, &channel(&name)).await;
        let threads: Vec<_> = (0..3).map(|n| pair.java(&format!("t{n}")).latch(&name)).collect();
        let mut javas: Vec<_> = threads.iter().map(peer::Latch::wait).collect();
        let timed = pair.java("timed").latch(&name).wait_for(secs(30));
        let mut rusts = JoinSet::new();
        for _ in 0..2 {
            let locks = hearing(&pair).await;
            rusts.spawn(locks.latch(&name).wait().into_future());
        }
        // Two processes of ours, and one of Java's for all its threads.
        pair.listening(&channel(&name), 3).await;
        for n in 0..3 {
            asleep(&pair.java(&format!("t{n}"))).await;
        }
        match ours_is_last {
            true => drop(java.count_down().await),
            false => drop(rust.count_down().await.expect("the server answers")),
        }
        both_see(&java, &rust, 1).await;
        assert!(!javas.iter_mut().any(|entry| entry.is_done()), "it is not open");
        assert!(rusts.try_join_next().is_none(), "it is not open");
        match ours_is_last {
            true => drop(rust.count_down().await.expect("the server answers")),
            false => drop(java.count_down().await),
        }
        for entry in javas {
            entry.within(secs(20)).await;
        }
        assert!(timed.within(secs(20)).await, "it is open");
        for opened in timeout(SOON, rusts.join_all()).await.expect("all are called") {
            opened.expect("it opens");
        }
    }
}

/// A timed wait that runs out says so on both sides, and leaves nothing behind; one that does not is called.
pub(super) async fn timed_waits_end_in_time(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").latch(&name);
    let rust = hearing(&pair).await.latch(&name);
    assert!(rust.init(1).await.expect("the server answers"));
    assert!(!rust.wait_for(ms(300)).await.expect("the server answers"), "it is not open");
    pair.listening(&channel(&name), 0).await;
    assert!(!java.wait_for(IN_VAIN).await, "it is not open");
    pair.listening(&channel(&name), 0).await;
    let entry = java.wait_for(secs(30));
    let elsewhere = rust.clone();
    let ours = tokio::spawn(async move { elsewhere.wait_for(secs(30)).await });
    pair.listening(&channel(&name), 2).await;
    asleep(&pair.java("a")).await;
    assert_eq!(rust.count_down().await.expect("the server answers"), 0);
    assert!(entry.within(secs(20)).await, "it is open");
    let opened = timeout(SOON, ours).await.expect("it is called").expect("no panic");
    assert!(opened.expect("the server answers"), "it is open");
}

/// A latch that is removed lets those who wait go: Java's too when we remove it, and only ours when Java does.
pub(super) async fn a_latch_that_is_removed_is_open(pair: Pair) {
    let name = pair.name("k");
    let (java, waiter) = (pair.java("a").latch(&name), pair.java("b").latch(&name));
    let rust = pair.rust().await.latch(&name);
    assert!(java.try_set(2).await);
    let entry = waiter.wait();
    let ours = tokio::spawn(rust.wait().into_future());
    pair.listening(&channel(&name), 2).await;
    asleep(&pair.java("b")).await;
    assert!(rust.delete().await.expect("the server answers"));
    entry.within(secs(20)).await;
    timeout(SOON, ours).await.expect("it is called").expect("no panic").expect("it is open");

    assert!(rust.init(2).await.expect("the server answers"));
    calm(&pair, &channel(&name)).await;
    let mut entry = waiter.wait_for(secs(30));
    let ours = tokio::spawn(rust.wait().into_future());
    pair.listening(&channel(&name), 2).await;
    asleep(&pair.java("b")).await;
    assert!(java.delete().await);
    timeout(SOON, ours).await.expect("it is called").expect("no panic").expect("it is open");
    // Redisson does not tell its own that it is gone. The next one that opens does.
    if !entry.is_done() {
        assert!(java.try_set(1).await);
        assert_eq!(rust.count_down().await.expect("the server answers"), 0);
    }
    assert!(entry.await, "it is open");
    eventually("nobody listens", || async {
        pair.channels().await.iter().all(|open| *open != channel(&name))
    })
    .await;
}

/// Setting the count anew by us keeps Java's waiters until it is zero.
pub(super) async fn a_count_that_is_set_anew_is_waited_for(pair: Pair) {
    let name = pair.name("k");
    let (java, waiter) = (pair.java("a").latch(&name), pair.java("b").latch(&name));
    let rust = hearing(&pair).await.latch(&name);
    assert!(java.try_set(1).await);
    let mut entry = waiter.wait();
    let ours = tokio::spawn(rust.wait().into_future());
    pair.listening(&channel(&name), 2).await;
    asleep(&pair.java("b")).await;
    assert_eq!(rust.reset(2).await.expect("the server answers"), 1);
    both_see(&java, &rust, 2).await;
    java.count_down().await;
    both_see(&java, &rust, 1).await;
    assert!(!entry.is_done() && !ours.is_finished(), "it is not open");
    assert_eq!(rust.reset(0).await.expect("the server answers"), 1);
    entry.within(secs(20)).await;
    timeout(SOON, ours).await.expect("it is called").expect("no panic").expect("it is open");
    both_see(&java, &rust, 0).await;
}
