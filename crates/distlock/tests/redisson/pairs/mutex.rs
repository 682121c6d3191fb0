//! `mutex` beside `RedissonClient.getLock`.

use distlock_testkit::worker;

use crate::pairs::{FOLLOWED, Lease, before_the_lease_is_over, calm, gone};

exclusive_beside_java!(mutex, Kind::Plain, Line::Channel);

/// What a dead JVM held is free when its watchdog's timeout is over, and not before.
pub(super) async fn a_jvm_that_is_killed_is_followed_by_rust(pair: Pair) {
    before_the_lease_is_over(async |round| {
        let (doomed, name) = (pair.own_peer().await, pair.name(&format!("k{round}")));
        let lock = pair.rust().await.mutex(&name);
        let holder = doomed.thread("a");
        let held = holder.lock(JAVA, &name).await;
        // One that waits dies with it and must not be in the way.
        let waiter = doomed.thread("b").lock(JAVA, &name);
        pair.waiting(&name, 1).await;
        let next = tokio::spawn(lock.lock().into_future());
        pair.waiting(&name, 2).await;
        let lease = Lease::of(&pair, &[&name]).await;
        doomed.kill();
        assert_eq!(waiter.result().await.expect_err("it is dead").class, "Gone");
        let (left, inside) = (pair.hgetall(&name).await, next.is_finished());
        let in_time = !lease.is_over();
        if in_time {
            assert!(left.contains_key(&held.owner), "{left:?}");
            assert!(!inside, "it got in before the lease was over");
        }
        let guard = timeout(FOLLOWED, next).await.expect("the lease ends").expect("no panic");
        guard.expect("the server answers").unlock().await.expect("it was held");
        in_time
    })
    .await;
}

/// The same the other way round.
pub(super) async fn a_process_that_is_killed_is_followed_by_java(pair: Pair) {
    before_the_lease_is_over(async |round| {
        let (java, name) = (pair.java("a"), pair.name(&format!("k{round}")));
        let mut doomed = worker("worker").start().await;
        doomed.wait_for("ready").await;
        let connected = doomed.ask(&format!("connect {} 9000", pair.url())).await;
        assert_eq!(connected, "connected");
        let held = doomed.ask(&format!("lock {name}")).await;
        let owner = held.strip_prefix("locked ").expect("it is free").to_owned();
        let mut next = java.lock_for(JAVA, &name, HOUR);
        pair.waiting(&name, 1).await;
        let lease = Lease::of(&pair, &[&name]).await;
        doomed.kill();
        let (left, inside) = (pair.hgetall(&name).await, next.is_done());
        let in_time = !lease.is_over();
        if in_time {
            assert!(left.contains_key(&owner), "{left:?}");
            assert!(!inside, "it got in before the lease was over");
        }
        next.within(FOLLOWED).await;
        java.unlock(JAVA, &name).await;
        in_time
    })
    .await;
}

/// Names with a hash tag, and such with odd braces, lead to the same keys and channels on both sides.
pub(super) async fn names_with_braces_mean_the_same(pair: Pair) {
    let java = pair.java("a");
    let locks = hearing(&pair).await;
    for name in ["{k}", "a{k}b", "a{k", "a}k", "{}", "a:{k}:{l}"] {
        let name = pair.name(name);
        let lock = locks.mutex(&name);
        let guard = lock.lock().lease(HOUR).await.expect("it is free");
        let channel = match name.contains('{') {
            true => format!("redisson_lock__channel:{name}"),
            false => format!("redisson_lock__channel:{{{name}}}"),
        };
        let next = java.lock_for(JAVA, &name, HOUR);
        pair.listening(&channel, 1).await;
        guard.unlock().await.expect("it was held");
        next.within(secs(20)).await;
        calm(&pair, &channel).await;
        let next = tokio::spawn(lock.lock().into_future());
        pair.listening(&channel, 1).await;
        java.unlock(JAVA, &name).await;
        let guard = timeout(SOON, next).await.expect("it is called");
        guard.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    }
}

/// Several on each side wait for one lock: each release calls one in, whichever side it is, until all were inside.
pub(super) async fn everybody_in_line_gets_in(pair: Pair) {
    let name = pair.name("k");
    let first = pair.java("first");
    first.lock_for(JAVA, &name, HOUR).await;
    let mut rusts = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let locks = hearing(&pair).await;
        let name = name.clone();
        rusts.spawn(async move {
            let guard = locks.mutex(&name).lock().lease(HOUR).await.expect("it gets free");
            guard.unlock().await.expect("it was held");
        });
    }
    let threads: Vec<_> = (0..3).map(|n| pair.java(&format!("t{n}"))).collect();
    let mut entries = Vec::new();
    let mut leaving = Vec::new();
    for thread in &threads {
        // It leaves as soon as it is in: its commands run one after the other.
        entries.push(thread.lock_for(JAVA, &name, HOUR));
        leaving.push(thread.unlock(JAVA, &name));
    }
    // Three processes of ours, and one of Java's for all its threads.
    pair.waiting(&name, 4).await;
    first.unlock(JAVA, &name).await;
    for entry in entries {
        entry.within(SOON).await;
    }
    for left in leaving {
        left.await;
    }
    timeout(SOON, rusts.join_all()).await.expect("all are called");
    gone(&pair, &name).await;
}
