//! `multi` beside `RedissonMultiLock` over plain locks.

use distlock::ErrorKind;
use distlock_testkit::Pair;
use distlock_testkit::peer::Kind;
use tokio::time::timeout;

use crate::pairs::{HOUR, IN_VAIN, SOON, gone, hearing, ms, secs};

const JAVA: Kind = Kind::Multi;

/// Two names, and both as the peer wants them, in the other order.
fn names(pair: &Pair) -> ([String; 2], String) {
    let names = [pair.name("a"), pair.name("b")];
    let javas = format!("{},{}", names[1], names[0]);
    (names, javas)
}

/// What Java holds, or a part of it, Rust does not get; of what it does not get it keeps nothing.
pub(super) async fn java_keeps_rust_out(pair: Pair) {
    let (java, (names, javas)) = (pair.java("a"), names(&pair));
    let locks = pair.rust().await;
    let multi = locks.multi(&names);
    for lease in [None, Some(HOUR)] {
        match lease {
            Some(lease) => java.lock_for(JAVA, &javas, lease).await,
            None => java.lock(JAVA, &javas).await,
        };
        assert!(java.is_held(JAVA, &javas).await);
        assert!(multi.try_lock().await.expect("the server answers").is_none());
        let wait = multi.try_lock().wait(ms(100)).await.expect("the server answers");
        assert!(wait.is_none(), "two are inside");
        for name in &names {
            assert!(locks.mutex(name).try_lock().await.expect("the server answers").is_none());
        }
        java.unlock(JAVA, &javas).await;
    }
    for (busy, free) in [(0, 1), (1, 0)] {
        java.lock_for(Kind::Plain, &names[busy], HOUR).await;
        let late = multi.lock().wait(ms(100)).await.expect_err("one is held");
        assert_eq!(late.kind(), ErrorKind::WaitTimeout);
        gone(&pair, &names[free]).await;
        java.unlock(Kind::Plain, &names[busy]).await;
    }
    let both = multi.try_lock().await.expect("the server answers").expect("they are free");
    both.unlock().await.expect("they were held");
}

/// The same the other way round.
pub(super) async fn rust_keeps_java_out(pair: Pair) {
    let (java, (names, javas)) = (pair.java("a"), names(&pair));
    let locks = pair.rust().await;
    let both = locks.multi(&names).lock().lease(HOUR).await.expect("they are free");
    for wait in [ms(0), IN_VAIN] {
        assert!(java.try_lock(JAVA, &javas, wait, Some(HOUR)).await.is_none(), "two are inside");
    }
    for name in &names {
        assert!(java.try_lock(Kind::Plain, name, ms(0), None).await.is_none(), "two are inside");
        let hash = pair.hgetall(name).await;
        assert_eq!(hash.get(&both.owner().to_string()).map(String::as_str), Some("1"));
    }
    assert!(!java.is_held(JAVA, &javas).await);
    both.unlock().await.expect("they were held");

    for (busy, free) in [(0, 1), (1, 0)] {
        let one = locks.mutex(&names[busy]).lock().lease(HOUR).await.expect("it is free");
        assert!(java.try_lock(JAVA, &javas, IN_VAIN, Some(HOUR)).await.is_none());
        gone(&pair, &names[free]).await;
        one.unlock().await.expect("it was held");
    }
    assert!(java.try_lock(JAVA, &javas, ms(0), None).await.is_some());
    java.unlock(JAVA, &javas).await;
}

/// Whoever waits gets in when the other leaves: leases would last for an hour.
pub(super) async fn each_gets_in_when_the_other_leaves(pair: Pair) {
    let (java, (names, javas)) = (pair.java("a"), names(&pair));
    let multi = hearing(&pair).await.multi(&names);
    for _ in 0..4 {
        let both = multi.lock().lease(HOUR).await.expect("they get free");
        for name in &names {
            pair.waiting(name, 0).await;
        }
        let mut waiter = java.lock_for(JAVA, &javas, HOUR);
        // Java waits for its first, which is our second.
        pair.waiting(&names[1], 1).await;
        assert!(!waiter.is_done(), "two are inside");
        both.unlock().await.expect("they were held");
        waiter.within(secs(20)).await;

        for name in &names {
            pair.waiting(name, 0).await;
        }
        let waiter = tokio::spawn(multi.lock().lease(HOUR).into_future());
        let listens = || async {
            let channels = pair.channels().await;
            channels.iter().any(|channel| names.iter().any(|name| channel.contains(name)))
        };
        distlock_testkit::suites::eventually("Rust waits", listens).await;
        assert!(!waiter.is_finished(), "two are inside");
        java.unlock(JAVA, &javas).await;
        let both = timeout(SOON, waiter).await.expect("it is called");
        let both = both.expect("no panic").expect("they get free");
        both.unlock().await.expect("they were held");
    }
}

/// Watchdogs keep every member for longer than their timeout, which is 9 s on both sides.
pub(super) async fn whoever_renews_keeps_the_other_out(pair: Pair) {
    let (java, other) = (pair.java("a"), pair.java("b"));
    let locks = pair.rust().await;
    let javas = [pair.name("c"), pair.name("d")];
    let rusts = [pair.name("e"), pair.name("f")];
    java.lock(JAVA, &javas.join(",")).await;
    let both = locks.multi(&rusts).lock().await.expect("they are free");
    let late = other.try_lock(Kind::Plain, &rusts[1], secs(12), None);
    let got = locks.mutex(&javas[0]).try_lock().wait(secs(12)).await;
    assert!(got.expect("the server answers").is_none(), "two are inside");
    assert!(late.await.is_none(), "two are inside");
    for name in javas.iter().chain(&rusts) {
        assert!(pair.exists(name).await, "{name} was lost");
    }
    assert!(!both.is_lost());
    both.unlock().await.expect("they were held");
    java.unlock(JAVA, &javas.join(",")).await;
}

/// The end of a lease lets the other in, and the slow holder is told.
pub(super) async fn a_lease_that_ends_lets_the_other_in(pair: Pair) {
    let (java, (names, javas)) = (pair.java("a"), names(&pair));
    let multi = pair.rust().await.multi(&names);
    java.lock_for(JAVA, &javas, ms(700)).await;
    let both = multi.lock().wait(secs(20)).lease(HOUR).await.expect("it ends");
    let late = java.unlock(JAVA, &javas).result().await.expect_err("they are Rust's");
    assert_eq!(late.class, "IllegalMonitorStateException");
    both.unlock().await.expect("they were held");

    let both = multi.lock().lease(ms(700)).await.expect("they are free");
    java.lock_for(JAVA, &javas, HOUR).within(secs(20)).await;
    assert!(both.is_lost(), "two are inside");
    assert_eq!(both.unlock().await.expect_err("they are Java's").kind(), ErrorKind::Lost);
    assert!(java.is_held(JAVA, &javas).await);
    java.unlock(JAVA, &javas).await;
}

/// Whoever takes one member away takes the whole away: the holder learns of it.
pub(super) async fn java_forces_one_member_out(pair: Pair) {
    let (java, (names, _)) = (pair.java("a"), names(&pair));
    let both = pair.rust().await.multi(&names).lock().await.expect("they are free");
    assert!(java.force_unlock(Kind::Plain, &names[1]).await);
    timeout(secs(15), both.lost()).await.expect("the watchdog finds out");
    assert_eq!(both.unlock().await.expect_err("one is gone").kind(), ErrorKind::Lost);
    gone(&pair, &names[0]).await;
}

/// Dead processes of either side leave nothing that outlives their leases.
pub(super) async fn a_jvm_that_is_killed_is_followed_by_rust(pair: Pair) {
    let (doomed, (names, javas)) = (pair.own_peer().await, names(&pair));
    doomed.thread("a").lock(JAVA, &javas).await;
    let multi = pair.rust().await.multi(&names);
    assert!(multi.try_lock().await.expect("the server answers").is_none());
    doomed.kill();
    let both = multi.lock().wait(secs(30)).await.expect("the leases end");
    both.unlock().await.expect("they were held");
}
