//! `rw` beside `RedissonClient.getReadWriteLock`: who may be inside together, who is called, and how holds are counted.

use distlock::store::Mode;
use distlock::{ErrorKind, Rw};
use distlock_testkit::Pair;
use distlock_testkit::peer::{Kind, Thread};
use distlock_testkit::suites::eventually;
use tokio::time::timeout;

use crate::pairs::{HOUR, IN_VAIN, SOON, asleep, calm, gone, hearing, ms, secs};

/// What Java throws when a thread unlocks what it does not hold.
pub(super) const NOT_THE_OWNER: &str = "IllegalMonitorStateException";

/// Where either half is called out.
pub(super) fn channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}

/// Whether Rust gets in: to read, to write. It leaves again at once.
async fn rust_may(lock: &Rw) -> (bool, bool) {
    let reading = lock.try_read().await.expect("the server answers");
    let read = reading.is_some();
    if let Some(reading) = reading {
        reading.unlock().await.expect("it was held");
    }
    let writing = lock.try_write().await.expect("the server answers");
    let write = writing.is_some();
    if let Some(writing) = writing {
        writing.unlock().await.expect("it was held");
    }
    (read, write)
}

/// Whether this thread gets in: to read, to write. It leaves again at once.
async fn java_may(java: &Thread, name: &str) -> (bool, bool) {
    let mut may = Vec::new();
    for half in [Kind::Read, Kind::Write] {
        let got = java.try_lock(half, name, ms(0), Some(HOUR)).await.is_some();
        if got {
            java.unlock(half, name).await;
        }
        may.push(got);
    }
    (may[0], may[1])
}

/// Readers of both sides are inside together, and keep the writers of both sides out until the last of them has left.
pub(super) async fn readers_of_both_sides_keep_writers_out(pair: Pair) {
    let (java, other, name) = (pair.java("a"), pair.java("b"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    let theirs = java.lock_for(Kind::Read, &name, HOUR).await;
    assert_eq!(rust_may(&lock).await, (true, false));
    let ours = lock.try_read().lease(HOUR).await.expect("the server answers");
    let ours = ours.expect("readers share");
    assert_eq!(java_may(&other, &name).await, (true, false));
    assert!(lock.try_write().wait(ms(100)).await.expect("the server answers").is_none());
    assert!(other.try_lock(Kind::Write, &name, IN_VAIN, None).await.is_none());
    let mut inside = lock.inspect().await.expect("the server answers").holders;
    inside.sort_by(|a, b| a.owner.cmp(&b.owner));
    let mut expected = [theirs.owner.clone(), ours.stay().to_string()];
    expected.sort();
    assert_eq!(inside.iter().map(|holder| &holder.owner).collect::<Vec<_>>(), expected.each_ref());
    assert!(inside.iter().all(|holder| holder.mode == Mode::Read && holder.depth == 1));
    assert!(other.is_locked(Kind::Read, &name).await && !other.is_locked(Kind::Write, &name).await);

    // Whoever leaves first, the other one still keeps writers out.
    java.unlock(Kind::Read, &name).await;
    assert_eq!(
        (rust_may(&lock).await, java_may(&other, &name).await),
        ((true, false), (true, false))
    );
    java.lock_for(Kind::Read, &name, HOUR).await;
    ours.unlock().await.expect("it was held");
    assert_eq!(
        (rust_may(&lock).await, java_may(&other, &name).await),
        ((true, false), (true, false))
    );
    java.unlock(Kind::Read, &name).await;
    assert_eq!(
        (rust_may(&lock).await, java_may(&other, &name).await),
        ((true, true), (true, true))
    );
}

/// A writer of Java's is alone, and Rust sees who it is.
pub(super) async fn a_java_writer_keeps_rust_out(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    let held = java.lock_for(Kind::Write, &name, HOUR).await;
    assert_eq!(rust_may(&lock).await, (false, false));
    assert!(lock.try_read().wait(ms(100)).await.expect("the server answers").is_none());
    let late = lock.write().wait(ms(50)).await.expect_err("it is held");
    assert_eq!(late.kind(), ErrorKind::WaitTimeout);
    assert!(late.to_string().contains(&held.owner), "{late}");
    let seen = lock.inspect().await.expect("the server answers");
    let inside = seen.holders.iter().map(|holder| (&*holder.owner, holder.depth, holder.mode));
    assert_eq!(inside.collect::<Vec<_>>(), [(&*held.owner, 1, Mode::Write)]);
    let ttl = seen.ttl.expect("it has a lease");
    assert!(ttl > HOUR / 2 && ttl <= HOUR, "{ttl:?}");
    java.unlock(Kind::Write, &name).await;
    assert_eq!(rust_may(&lock).await, (true, true));
}

/// A writer of ours is alone, and Java cannot let go of it.
pub(super) async fn a_rust_writer_keeps_java_out(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    let guard = lock.write().lease(HOUR).await.expect("it is free");
    for half in [Kind::Read, Kind::Write] {
        for (wait, lease) in
            [(ms(0), None), (ms(0), Some(HOUR)), (IN_VAIN, None), (IN_VAIN, Some(HOUR))]
        {
            assert!(java.try_lock(half, &name, wait, lease).await.is_none(), "two are inside");
        }
        assert!(!java.is_held(half, &name).await);
        assert_eq!(java.hold_count(half, &name).await, 0);
        let refused = java.unlock(half, &name).result().await.expect_err("it is Rust's");
        assert_eq!(refused.class, NOT_THE_OWNER);
    }
    assert!(java.is_locked(Kind::Write, &name).await && !java.is_locked(Kind::Read, &name).await);
    let ttl = java.ttl(Kind::Write, &name).await;
    assert!((1_800_000..=3_600_000).contains(&ttl), "{ttl}");
    assert!(lock.is_held_by(guard.owner()).await.expect("the server answers"));
    guard.unlock().await.expect("it was held");
    assert_eq!(java_may(&java, &name).await, (true, true));
}

/// A writer that leaves calls everybody in who waits to read, on both sides. Their leases would last for an hour.
pub(super) async fn a_writer_that_leaves_calls_the_readers(pair: Pair) {
    let (writer, name) = (pair.java("writer"), pair.name("k"));
    let lock = hearing(&pair).await.rw(&name);
    for ours_leaves in [true, false, true, false] {
        let guard = match ours_leaves {
            true => Some(lock.write().lease(HOUR).await.expect("it is free")),
            false => {
                writer.lock_for(Kind::Write, &name, HOUR).await;
                None
            }
        };
        calm(&pair, &channel(&name)).await;
        let javas: Vec<_> = (0..3).map(|n| pair.java(&format!("r{n}"))).collect();
        let mut javas_in: Vec<_> =
            javas.iter().map(|java| java.lock_for(Kind::Read, &name, HOUR)).collect();
        let mut rusts = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let elsewhere = hearing(&pair).await;
            rusts.spawn(elsewhere.rw(&name).read().lease(HOUR).into_future());
        }
        // Two processes of ours, and one of Java's.
        pair.listening(&channel(&name), 3).await;
        for java in &javas {
            asleep(java).await;
        }
        assert!(rusts.try_join_next().is_none(), "a reader went in beside a writer");
        assert!(
            !javas_in.iter_mut().any(|entry| entry.is_done()),
            "a reader went in beside a writer"
        );
        match guard {
            Some(guard) => guard.unlock().await.expect("it was held"),
            None => drop(writer.unlock(Kind::Write, &name).await),
        }
        for entry in javas_in {
            entry.within(secs(20)).await;
        }
        let guards = timeout(SOON, rusts.join_all()).await.expect("all are called");
        for guard in guards {
            guard.expect("it gets free").unlock().await.expect("it was held");
        }
        for java in &javas {
            java.unlock(Kind::Read, &name).await;
        }
    }
}

/// The last reader that leaves calls a writer, whichever side they are on; one that is not the last does not let it in.
pub(super) async fn the_last_reader_that_leaves_calls_the_writer(pair: Pair) {
    let (reader, writer, name) = (pair.java("r"), pair.java("w"), pair.name("k"));
    let lock = hearing(&pair).await.rw(&name);
    let elsewhere = hearing(&pair).await.rw(&name);
    for (ours_is_last, ours_writes) in [(true, false), (false, true), (true, true), (false, false)]
    {
        let ours = lock.read().lease(HOUR).await.expect("readers share");
        reader.lock_for(Kind::Read, &name, HOUR).await;
        calm(&pair, &channel(&name)).await;
        let java = (!ours_writes).then(|| writer.lock_for(Kind::Write, &name, HOUR));
        let rust = ours_writes.then(|| tokio::spawn(elsewhere.write().lease(HOUR).into_future()));
        match ours_writes {
            true => pair.listening(&channel(&name), 1).await,
            false => asleep(&writer).await,
        }
        let mode = || async { pair.hgetall(&name).await.remove("mode") };
        if ours_is_last {
            reader.unlock(Kind::Read, &name).await;
            assert_eq!(mode().await.as_deref(), Some("read"), "a writer went in beside a reader");
            ours.unlock().await.expect("it was held");
        } else {
            ours.unlock().await.expect("it was held");
            assert_eq!(mode().await.as_deref(), Some("read"), "a writer went in beside a reader");
            reader.unlock(Kind::Read, &name).await;
        }
        if let Some(java) = java {
            java.within(secs(20)).await;
            writer.unlock(Kind::Write, &name).await;
        }
        if let Some(rust) = rust {
            let guard = timeout(SOON, rust).await.expect("it is called").expect("no panic");
            guard.expect("it gets free").unlock().await.expect("it was held");
        }
    }
}

/// Readers of ours stand behind a writer of ours that waits. Java's know nothing of it, and come in: it waits for them, too.
pub(super) async fn javas_readers_pass_a_rust_writer_that_waits(pair: Pair) {
    let (first, second, name) = (pair.java("a"), pair.java("b"), pair.name("k"));
    let (lock, elsewhere) = (pair.rust().await.rw(&name), pair.rust().await.rw(&name));
    first.lock_for(Kind::Read, &name, HOUR).await;
    let writer = tokio::spawn(elsewhere.write().lease(HOUR).into_future());
    let behind = || async { !rust_may(&lock).await.0 };
    eventually("readers of ours stand behind the writer", behind).await;
    second.try_lock(Kind::Read, &name, ms(0), Some(HOUR)).await.expect("it knows of no writer");
    first.unlock(Kind::Read, &name).await;
    eventually("they still stand behind it", behind).await;
    assert!(lock.try_write().await.expect("the server answers").is_none());
    assert!(!writer.is_finished(), "a writer went in beside a reader");
    second.unlock(Kind::Read, &name).await;
    let guard = timeout(SOON, writer).await.expect("it is called").expect("no panic");
    let guard = guard.expect("it gets free");
    assert_eq!(java_may(&first, &name).await, (false, false));
    guard.unlock().await.expect("it was held");
    assert_eq!(rust_may(&lock).await, (true, true));
}

/// Rust sees how often Java reads or writes, and gets in when it has left as often.
pub(super) async fn javas_holds_are_counted(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    for (half, mode) in [(Kind::Read, Mode::Read), (Kind::Write, Mode::Write)] {
        for depth in 1..=3 {
            let held = java.lock_for(half, &name, HOUR).await;
            let inside = lock.inspect().await.expect("the server answers").holders;
            let inside = inside.iter().map(|holder| (&*holder.owner, holder.depth, holder.mode));
            assert_eq!(inside.collect::<Vec<_>>(), [(&*held.owner, depth, mode)]);
            assert_eq!(java.hold_count(half, &name).await, i64::from(depth));
        }
        for _ in 0..2 {
            java.unlock(half, &name).await;
            assert_eq!(rust_may(&lock).await, (half == Kind::Read, false));
        }
        java.unlock(half, &name).await;
        assert_eq!(rust_may(&lock).await, (true, true));
    }
}

/// The same the other way round.
pub(super) async fn rusts_holds_are_counted(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let locks = pair.rust().await;
    let (lock, me) = (locks.rw(&name), locks.owner());
    let mut reads = Vec::new();
    for depth in 1..=3 {
        let guard = lock.read().owner(&me).lease(HOUR).await.expect("it is mine");
        let stay = *guard.stay();
        reads.push(guard);
        let hash = pair.hgetall(&name).await;
        assert_eq!(hash.get(&stay.to_string()), Some(&depth.to_string()));
        for n in 1..=depth {
            let hold = format!("{{{name}}}:{stay}:rwlock_timeout:{n}");
            assert!(pair.pttl(&hold).await > 0, "{hold} keeps Java from freeing it");
        }
    }
    while let Some(guard) = reads.pop() {
        assert_eq!(java_may(&java, &name).await, (true, false));
        guard.unlock().await.expect("it was held");
    }
    let mut writes = Vec::new();
    for depth in 1..=3 {
        let guard = lock.write().owner(&me).lease(HOUR).await.expect("it is mine");
        let stay = *guard.stay();
        writes.push(guard);
        let hash = pair.hgetall(&name).await;
        assert_eq!(hash.get(&format!("{stay}:write")), Some(&depth.to_string()));
    }
    while let Some(guard) = writes.pop() {
        assert_eq!(java_may(&java, &name).await, (false, false));
        guard.unlock().await.expect("it was held");
    }
    assert_eq!(java_may(&java, &name).await, (true, true));
}

/// A writer that reads as well is alone until it has left both; whichever it leaves first.
pub(super) async fn a_writer_may_read_and_stays_alone(pair: Pair) {
    let (java, other, name) = (pair.java("a"), pair.java("b"), pair.name("k"));
    let locks = pair.rust().await;
    let lock = locks.rw(&name);
    java.lock_for(Kind::Write, &name, HOUR).await;
    java.lock_for(Kind::Read, &name, HOUR).await;
    assert_eq!(rust_may(&lock).await, (false, false));
    java.unlock(Kind::Read, &name).await;
    assert_eq!(rust_may(&lock).await, (false, false));
    java.unlock(Kind::Write, &name).await;
    assert_eq!(rust_may(&lock).await, (true, true));

    let me = locks.owner();
    let writing = lock.write().owner(&me).lease(HOUR).await.expect("it is free");
    let reading = lock.read().owner(&me).lease(HOUR).await.expect("it is mine");
    assert_eq!(java_may(&other, &name).await, (false, false));
    assert!(other.is_locked(Kind::Read, &name).await && other.is_locked(Kind::Write, &name).await);
    reading.unlock().await.expect("it was held");
    assert_eq!(java_may(&other, &name).await, (false, false));
    writing.unlock().await.expect("it was held");
    assert_eq!(java_may(&other, &name).await, (true, true));
}

/// A writer of ours that reads on lets Java's readers in, and calls them; writers stay out.
pub(super) async fn a_rust_downgrade_calls_javas_readers(pair: Pair) {
    let (reader, writer, name) = (pair.java("r"), pair.java("w"), pair.name("k"));
    let lock = hearing(&pair).await.rw(&name);
    let writing = lock.write().lease(HOUR).await.expect("it is free");
    let mut entry = reader.lock_for(Kind::Read, &name, HOUR);
    asleep(&reader).await;
    assert!(!entry.is_done(), "a reader went in beside a writer");
    let reading = writing.downgrade().await.expect("it was held");
    entry.within(secs(20)).await;
    assert!(writer.try_lock(Kind::Write, &name, ms(0), None).await.is_none());
    let mut next = writer.lock_for(Kind::Write, &name, HOUR);
    asleep(&writer).await;
    reader.unlock(Kind::Read, &name).await;
    assert!(!next.is_done(), "a writer went in beside a reader");
    reading.unlock().await.expect("it was held");
    next.within(secs(20)).await;
    writer.unlock(Kind::Write, &name).await;
    gone(&pair, &name).await;
}

/// A writer of Java's that reads on calls nobody. Readers of ours find out by themselves when they look again.
pub(super) async fn a_java_downgrade_is_found_out(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.rw(&name);
    java.lock_for(Kind::Write, &name, HOUR).await;
    java.lock_for(Kind::Read, &name, HOUR).await;
    let entry = tokio::spawn(lock.read().lease(HOUR).into_future());
    pair.listening(&channel(&name), 1).await;
    assert!(!entry.is_finished(), "a reader went in beside a writer");
    java.unlock(Kind::Write, &name).await;
    let guard = timeout(secs(15), entry).await.expect("it looks again").expect("no panic");
    let guard = guard.expect("it gets free");
    assert!(lock.try_write().await.expect("the server answers").is_none());
    java.unlock(Kind::Read, &name).await;
    assert_eq!(java_may(&java, &name).await, (true, false));
    guard.unlock().await.expect("it was held");
}
