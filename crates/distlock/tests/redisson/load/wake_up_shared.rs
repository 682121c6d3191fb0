//! The same for kinds that several share: how soon a waiter on either side is in after the other side has let go.

use std::time::SystemTime;

use distlock_testkit::Pair;
use distlock_testkit::peer::{Kind, Thread};
use distlock_testkit::suites::eventually;

use crate::load::wake_up::{Figures, HOUR, ROUNDS};

/// Waits for what was asked for, and says when it came.
macro_rules! timed {
    ($request:expr) => {{
        let request = $request;
        tokio::spawn(async move { (request.await, SystemTime::now()) })
    }};
}

/// Waits until this thread sleeps. One that is about to is not woken when a writer leaves: that is Redisson's own doing. And
/// whoever left before may still be subscribed, so subscriptions do not tell.
async fn asleep(thread: &Thread) {
    eventually("it sleeps", || async { thread.is_asleep().await }).await;
}

/// A writer of one side, then a reader of the other, then a writer again.
pub(super) async fn rw(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let channel = format!("redisson_rwlock:{{{name}}}");
    let lock = pair.builder().connect().await.expect("the server answers").rw(&name);

    let mut to_readers = Figures::new(&pair, "rw, Rust's writer to Java's reader");
    let mut to_writers = Figures::new(&pair, "rw, Java's reader to Rust's writer");
    let mut writing = lock.write().lease(HOUR).await.expect("it is free");
    for _ in 0..ROUNDS / 2 {
        let reader = java.lock_for(Kind::Read, &name, HOUR);
        asleep(&java).await;
        let left = SystemTime::now();
        writing.unlock().await.expect("it was held");
        to_readers.add(left, reader.await.at);

        pair.listening(&channel, 0).await;

        let writer = timed!(lock.write().lease(HOUR));
        pair.listening(&channel, 1).await;
        let left = java.unlock(Kind::Read, &name).await.from;
        let (entered, at) = writer.await.expect("no panic");
        writing = entered.expect("it gets free");
        to_writers.add(left, at);
    }
    writing.unlock().await.expect("it was held");
    to_readers.judge();
    to_writers.judge();

    let mut to_readers = Figures::new(&pair, "rw, Java's writer to Rust's reader");
    let mut to_writers = Figures::new(&pair, "rw, Rust's reader to Java's writer");
    java.lock_for(Kind::Write, &name, HOUR).await;
    for _ in 0..ROUNDS / 2 {
        pair.listening(&channel, 0).await;
        let reader = timed!(lock.read().lease(HOUR));
        pair.listening(&channel, 1).await;
        let left = java.unlock(Kind::Write, &name).await.from;
        let (entered, at) = reader.await.expect("no panic");
        to_readers.add(left, at);

        let writer = java.lock_for(Kind::Write, &name, HOUR);
        asleep(&java).await;
        let left = SystemTime::now();
        entered.expect("it gets free").unlock().await.expect("it was held");
        to_writers.add(left, writer.await.at);
    }
    java.unlock(Kind::Write, &name).await;
    to_readers.judge();
    to_writers.judge();
}

/// One permit goes to and fro.
pub(super) async fn semaphore(pair: Pair) {
    let name = pair.name("k");
    let thread = pair.java("a");
    let (java, channel) = (thread.semaphore(&name), format!("redisson_sc:{{{name}}}"));
    let locks = pair.builder().connect().await.expect("the server answers");
    let rust = locks.semaphore(&name).with_permits(1);
    let mut to_java = Figures::new(&pair, "semaphore, Rust to Java");
    let mut to_rust = Figures::new(&pair, "semaphore, Java to Rust");
    let mut permit = rust.acquire(1).await.expect("there is one");
    for _ in 0..ROUNDS {
        let waiter = java.acquire(1);
        asleep(&thread).await;
        let left = SystemTime::now();
        permit.unlock().await.expect("it was held");
        to_java.add(left, waiter.await.at);

        pair.listening(&channel, 0).await;

        let waiter = timed!(rust.acquire(1));
        pair.listening(&channel, 1).await;
        let left = java.release(1).await.from;
        let (entered, at) = waiter.await.expect("no panic");
        permit = entered.expect("there is one");
        to_rust.add(left, at);
    }
    permit.unlock().await.expect("it was held");
    assert!(rust.delete().await.expect("the server answers"));
    to_java.judge();
    to_rust.judge();
}

/// The same with a lease.
pub(super) async fn leased_semaphore(pair: Pair) {
    let name = pair.name("k");
    let thread = pair.java("a");
    let (java, channel) = (thread.leased_semaphore(&name), format!("redisson_sc:{{{name}}}"));
    let locks = pair.builder().connect().await.expect("the server answers");
    let rust = locks.leased_semaphore(&name).with_permits(1);
    let mut to_java = Figures::new(&pair, "leased_semaphore, Rust to Java");
    let mut to_rust = Figures::new(&pair, "leased_semaphore, Java to Rust");
    let mut permit = rust.acquire(1).lease(HOUR).await.expect("there is one");
    for _ in 0..ROUNDS {
        let waiter = java.acquire(1, Some(HOUR));
        asleep(&thread).await;
        let left = SystemTime::now();
        permit.unlock().await.expect("it was held");
        let theirs = waiter.await;
        to_java.add(left, theirs.at);

        pair.listening(&channel, 0).await;

        let waiter = timed!(rust.acquire(1).lease(HOUR));
        pair.listening(&channel, 1).await;
        let left = java.release(&theirs.ids).await.from;
        let (entered, at) = waiter.await.expect("no panic");
        permit = entered.expect("there is one");
        to_rust.add(left, at);
    }
    permit.unlock().await.expect("it was held");
    assert!(rust.delete().await.expect("the server answers"));
    to_java.judge();
    to_rust.judge();
}

/// Each side opens for the other, by turns.
pub(super) async fn latch(pair: Pair) {
    let name = pair.name("k");
    let channel = format!("redisson_countdownlatch__channel__{{{name}}}");
    let java = pair.java("a").latch(&name);
    let rust = pair.builder().connect().await.expect("the server answers").latch(&name);
    let mut to_java = Figures::new(&pair, "latch, Rust to Java");
    let mut to_rust = Figures::new(&pair, "latch, Java to Rust");
    for _ in 0..ROUNDS {
        assert!(java.try_set(1).await);
        let waiter = java.wait();
        pair.listening(&channel, 1).await;
        let left = SystemTime::now();
        assert_eq!(rust.count_down().await.expect("the server answers"), 0);
        to_java.add(left, waiter.await.at);

        assert!(rust.init(1).await.expect("the server answers"));
        pair.listening(&channel, 0).await;
        let waiter = timed!(rust.wait());
        pair.listening(&channel, 1).await;
        let left = java.count_down().await.from;
        let (opened, at) = waiter.await.expect("no panic");
        opened.expect("it opens");
        to_rust.add(left, at);
        pair.listening(&channel, 0).await;
    }
    to_java.judge();
    to_rust.judge();
}
