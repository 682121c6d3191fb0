//! `rw` beside `RedissonClient.getReadWriteLock`: how holds end. Watchdogs, leases, deaths and force.

use std::sync::Arc;

use distlock::ErrorKind;
use distlock_testkit::peer::Kind;
use distlock_testkit::suites::eventually;
use distlock_testkit::{Pair, Peer, worker};
use tokio::time::timeout;

use crate::pairs::rw::{NOT_THE_OWNER, channel};
use crate::pairs::{
    FOLLOWED, HOUR, Lease, SOON, asleep, before_the_lease_is_over, calm, gone, hearing, ms, secs,
};

/// A JVM of the test's own with a watchdog's timeout of 9 s: one that is kept from the processor for a while must not look as if
/// it had let go.
async fn steady(pair: &Pair) -> Arc<Peer> {
    let peer = Peer::builder(pair.version()).address(pair.server().addr()).watchdog(secs(9));
    Arc::new(peer.start().await.expect("the other one was installed"))
}

/// A watchdog keeps what it guards for longer than its timeout, which is 9 s on both sides: to read and to write.
pub(super) async fn whoever_renews_keeps_the_other_out(pair: Pair) {
    // A JVM of its own: 3.44 to 3.52 renew only the first read lock of a batch as they should.
    let peer = steady(&pair).await;
    let java = peer.thread("holder");
    let locks = pair.rust().await;
    let [java_reads, java_writes] = [pair.name("jr"), pair.name("jw")];
    let [rust_reads, rust_writes] = [pair.name("rr"), pair.name("rw")];
    java.lock(Kind::Read, &java_reads).await;
    java.lock(Kind::Write, &java_writes).await;
    let reading = locks.rw(&rust_reads).read().await.expect("it is free");
    let writing = locks.rw(&rust_writes).write().await.expect("it is free");
    let late = secs(12);
    let javas = [
        pair.java("a").try_lock(Kind::Write, &rust_reads, late, None),
        pair.java("b").try_lock(Kind::Read, &rust_writes, late, None),
        pair.java("c").try_lock(Kind::Write, &rust_writes, late, None),
    ];
    let rusts = tokio::join!(
        locks.rw(&java_reads).try_write().wait(late).into_future(),
        locks.rw(&java_writes).try_read().wait(late).into_future(),
        locks.rw(&java_writes).try_write().wait(late).into_future(),
    );
    assert!(rusts.0.expect("the server answers").is_none(), "a writer went in beside a reader");
    assert!(rusts.1.expect("the server answers").is_none(), "a reader went in beside a writer");
    assert!(rusts.2.expect("the server answers").is_none(), "two are writing");
    for entry in javas {
        assert!(entry.await.is_none(), "two are inside");
    }
    assert!(!reading.is_lost() && !writing.is_lost());
    reading.unlock().await.expect("it was held");
    writing.unlock().await.expect("it was held");
    java.unlock(Kind::Read, &java_reads).await;
    java.unlock(Kind::Write, &java_writes).await;
}

/// Both watchdogs keep one lock at once; when one stops, the other still keeps its own hold.
pub(super) async fn both_watchdogs_keep_one_lock(pair: Pair) {
    // Two of these are longer than a timeout.
    let half = secs(5);
    let peer = steady(&pair).await;
    let (java, other, name) = (peer.thread("reader"), pair.java("writer"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    for ours_leaves in [true, false] {
        let ours = lock.read().await.expect("readers share");
        java.lock(Kind::Read, &name).await;
        let early = other.try_lock(Kind::Write, &name, half, None).await;
        assert!(early.is_none(), "beside readers");
        if ours_leaves {
            ours.unlock().await.expect("the watchdog kept it");
            let late = lock.try_write().wait(half).await.expect("the server answers");
            assert!(late.is_none(), "a writer went in beside a reader");
            java.unlock(Kind::Read, &name).await;
        } else {
            java.unlock(Kind::Read, &name).await;
            let late = other.try_lock(Kind::Write, &name, half, None).await;
            assert!(late.is_none(), "a writer went in beside a reader");
            ours.unlock().await.expect("the watchdog kept it");
        }
        gone(&pair, &name).await;
    }
}

/// The end of a lease lets the other side in, and the slow holder is told: to read and to write.
pub(super) async fn a_lease_that_ends_lets_the_other_in(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    for half in [Kind::Read, Kind::Write] {
        java.lock_for(half, &name, ms(500)).await;
        let guard = lock.write().wait(secs(20)).lease(HOUR).await.expect("it ends");
        let late = java.unlock(half, &name).result().await.expect_err("it is Rust's");
        assert_eq!(late.class, NOT_THE_OWNER);
        guard.unlock().await.expect("it was held");
    }
    let reading = lock.read().lease(ms(500)).await.expect("it is free");
    java.try_lock(Kind::Write, &name, secs(20), Some(HOUR)).await.expect("it ends");
    assert!(reading.is_lost(), "a writer went in beside a reader");
    assert_eq!(reading.unlock().await.expect_err("it is Java's").kind(), ErrorKind::Lost);
    java.unlock(Kind::Write, &name).await;
    let writing = lock.write().lease(ms(500)).await.expect("it is free");
    java.try_lock(Kind::Read, &name, secs(20), Some(HOUR)).await.expect("it ends");
    assert!(writing.is_lost(), "a reader went in beside a writer");
    assert_eq!(writing.unlock().await.expect_err("it is Java's").kind(), ErrorKind::Lost);
    assert!(java.is_held(Kind::Read, &name).await);
    java.unlock(Kind::Read, &name).await;
}

/// A reader's lease that ends does not end another's, and what is left of it keeps nobody out.
pub(super) async fn a_readers_short_lease_ends_nobody_elses(pair: Pair) {
    let (java, writer, name) = (pair.java("r"), pair.java("w"), pair.name("k"));
    let lock = hearing(&pair).await.rw(&name);
    let live = |n: usize| {
        let lock = lock.clone();
        move || {
            let lock = lock.clone();
            async move { lock.inspect().await.expect("the server answers").holders.len() == n }
        }
    };
    let ours = lock.read().lease(HOUR).await.expect("it is free");
    java.lock_for(Kind::Read, &name, ms(500)).await;
    eventually("Java's lease ends", live(1)).await;
    assert!(writer.try_lock(Kind::Write, &name, ms(0), None).await.is_none());
    let mut next = writer.lock_for(Kind::Write, &name, HOUR);
    asleep(&writer).await;
    assert!(!next.is_done(), "a writer went in beside a reader");
    ours.unlock().await.expect("it was held");
    next.within(secs(20)).await;
    writer.unlock(Kind::Write, &name).await;

    java.lock_for(Kind::Read, &name, HOUR).await;
    let ours = lock.read().lease(ms(500)).await.expect("readers share");
    timeout(SOON, ours.lost()).await.expect("it ends");
    eventually("our lease ends", live(1)).await;
    assert!(lock.try_write().await.expect("the server answers").is_none());
    calm(&pair, &channel(&name)).await;
    let next = tokio::spawn(lock.write().lease(HOUR).into_future());
    pair.listening(&channel(&name), 1).await;
    assert!(!next.is_finished(), "a writer went in beside a reader");
    java.unlock(Kind::Read, &name).await;
    let guard = timeout(SOON, next).await.expect("it is called").expect("no panic");
    guard.expect("it gets free").unlock().await.expect("it was held");
    drop(ours);
}

/// What a dead JVM read or wrote is free when its watchdog's timeout is over, and not before.
pub(super) async fn a_jvm_that_is_killed_is_followed_by_rust(pair: Pair) {
    before_the_lease_is_over(async |round| {
        let doomed = steady(&pair).await;
        let [read, written] = ["read", "written"].map(|name| pair.name(&format!("{name}{round}")));
        let locks = pair.rust().await;
        let (reader, writer) = (doomed.thread("r"), doomed.thread("w"));
        let reads = reader.lock(Kind::Read, &read).await;
        let writes = writer.lock(Kind::Write, &written).await;
        let mut lease = Lease::of(&pair, &[&read, &written]).await;
        let next_writer = tokio::spawn(locks.rw(&read).write().into_future());
        let next_reader = tokio::spawn(locks.rw(&written).read().into_future());
        let channels = [channel(&read), channel(&written)];
        loop {
            let inside = [next_writer.is_finished(), next_reader.is_finished()];
            if inside != [false, false] {
                assert!(lease.is_over(), "they went in beside the JVM: {inside:?}");
                break; // the JVM was kept from renewing
            }
            lease = Lease::of(&pair, &[&read, &written]).await;
            let open = pair.server().pubsub_channels().await;
            if channels.iter().all(|channel| open.contains(channel)) {
                break;
            }
            tokio::time::sleep(ms(10)).await;
        }
        doomed.kill();
        let (reading, writing) = (pair.hgetall(&read).await, pair.hgetall(&written).await);
        let inside = [next_writer.is_finished(), next_reader.is_finished()];
        let in_time = !lease.is_over();
        if in_time {
            assert_eq!(inside, [false, false], "before the lease was over");
            assert!(reading.contains_key(&reads.owner), "{reading:?}");
            assert!(writing.contains_key(&format!("{}:write", writes.owner)), "{writing:?}");
        }
        let guard = timeout(FOLLOWED, next_writer).await.expect("the lease ends");
        let guard = guard.expect("no panic").expect("the server answers");
        guard.unlock().await.expect("it was held");
        let guard = timeout(FOLLOWED, next_reader).await.expect("the lease ends");
        let guard = guard.expect("no panic").expect("the server answers");
        guard.unlock().await.expect("it was held");
        in_time
    })
    .await;
}

/// The same the other way round.
pub(super) async fn a_process_that_is_killed_is_followed_by_java(pair: Pair) {
    before_the_lease_is_over(async |round| {
        let [read, written] = ["read", "written"].map(|name| pair.name(&format!("{name}{round}")));
        let mut doomed = worker("worker").start().await;
        doomed.wait_for("ready").await;
        let connected = doomed.ask(&format!("connect {} 9000", pair.url())).await;
        assert_eq!(connected, "connected");
        for command in [format!("read {read}"), format!("write {written}")] {
            let held = doomed.ask(&command).await;
            assert!(held.starts_with("locked "), "{held}");
        }
        let (writer, reader) = (pair.java("w"), pair.java("r"));
        let mut next_writer = writer.lock_for(Kind::Write, &read, HOUR);
        let mut next_reader = reader.lock_for(Kind::Read, &written, HOUR);
        pair.listening(&channel(&read), 1).await;
        pair.listening(&channel(&written), 1).await;
        let lease = Lease::of(&pair, &[&read, &written]).await;
        doomed.kill();
        let mut left = Vec::new();
        for name in [&read, &written] {
            left.push(pair.hgetall(name).await.get("mode").cloned().unwrap_or_default());
        }
        let inside = [next_writer.is_done(), next_reader.is_done()];
        let in_time = !lease.is_over();
        if in_time {
            assert_eq!(left, ["read", "write"]);
            assert_eq!(inside, [false, false], "before the lease was over");
        }
        next_writer.within(FOLLOWED).await;
        next_reader.within(FOLLOWED).await;
        writer.unlock(Kind::Write, &read).await;
        reader.unlock(Kind::Read, &written).await;
        in_time
    })
    .await;
}

/// A reader of ours that outlives a dead JVM's keeps its own hold, and a writer gets in when it leaves.
pub(super) async fn a_reader_outlives_a_jvm_that_is_killed(pair: Pair) {
    let (doomed, name) = (steady(&pair).await, pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    doomed.thread("r").lock(Kind::Read, &name).await;
    let ours = lock.read().await.expect("readers share");
    doomed.kill();
    let alone = || async { lock.inspect().await.expect("the server answers").holders.len() == 1 };
    eventually("the dead one's hold ends", alone).await;
    let writer = pair.java("w");
    assert!(writer.try_lock(Kind::Write, &name, ms(3500), None).await.is_none(), "beside a reader");
    assert!(!ours.is_lost());
    let next = writer.lock_for(Kind::Write, &name, HOUR);
    asleep(&writer).await;
    ours.unlock().await.expect("the watchdog kept it");
    next.within(secs(20)).await;
    writer.unlock(Kind::Write, &name).await;
}

/// Force frees what Java holds if it is that half, and calls Java's waiters.
pub(super) async fn rust_forces_java_out(pair: Pair) {
    let (holder, waiter, name) = (pair.java("a"), pair.java("b"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    holder.lock_for(Kind::Read, &name, HOUR).await;
    assert!(!lock.force_unlock_write().await.expect("the server answers"), "nobody writes");
    let mut next = waiter.lock_for(Kind::Write, &name, HOUR);
    asleep(&waiter).await;
    assert!(!next.is_done(), "a writer went in beside a reader");
    assert!(lock.force_unlock_read().await.expect("the server answers"));
    next.within(secs(20)).await;
    let late = holder.unlock(Kind::Read, &name).result().await.expect_err("it was taken away");
    assert_eq!(late.class, NOT_THE_OWNER);

    assert!(!lock.force_unlock_read().await.expect("the server answers"), "nobody reads");
    let mut next = holder.lock_for(Kind::Read, &name, HOUR);
    asleep(&holder).await;
    assert!(!next.is_done(), "a reader went in beside a writer");
    assert!(lock.force_unlock_write().await.expect("the server answers"));
    next.within(secs(20)).await;
    let late = waiter.unlock(Kind::Write, &name).result().await.expect_err("it was taken away");
    assert_eq!(late.class, NOT_THE_OWNER);
    holder.unlock(Kind::Read, &name).await;
    assert!(!lock.force_unlock_read().await.expect("the server answers"), "it is free");
}

/// Force frees what Rust holds if it is that half, calls Rust's waiters, and the holder learns of it.
pub(super) async fn java_forces_rust_out(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let (lock, elsewhere) = (pair.rust().await.rw(&name), pair.rust().await.rw(&name));
    let reading = lock.read().await.expect("it is free");
    assert!(!java.force_unlock(Kind::Write, &name).await, "nobody writes");
    let next = tokio::spawn(elsewhere.write().into_future());
    pair.listening(&channel(&name), 1).await;
    assert!(!next.is_finished(), "a writer went in beside a reader");
    assert!(java.force_unlock(Kind::Read, &name).await);
    let writing = timeout(SOON, next).await.expect("it is called").expect("no panic");
    let writing = writing.expect("it gets free");
    timeout(secs(15), reading.lost()).await.expect("the watchdog finds out");
    assert_eq!(reading.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);

    assert!(!java.force_unlock(Kind::Read, &name).await, "nobody reads");
    calm(&pair, &channel(&name)).await;
    let next = tokio::spawn(lock.read().into_future());
    pair.listening(&channel(&name), 1).await;
    assert!(!next.is_finished(), "a reader went in beside a writer");
    assert!(java.force_unlock(Kind::Write, &name).await);
    let reading = timeout(SOON, next).await.expect("it is called").expect("no panic");
    timeout(secs(15), writing.lost()).await.expect("the watchdog finds out");
    assert_eq!(writing.unlock().await.expect_err("it is gone").kind(), ErrorKind::Lost);
    reading.expect("it gets free").unlock().await.expect("it was held");
    assert!(!java.force_unlock(Kind::Write, &name).await, "it is free");
}
