//! Messages are hints: whoever may publish can make those who wait ask once more, and nothing else.

use std::time::Duration;

use distlock::Locks;
use distlock_testkit::Server;
use distlock_testkit::suites::{Recorder, eventually};
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(600);

/// What Redisson and this library send, what they do not, and what nobody should.
const MESSAGES: [&str; 9] =
    ["0", "1", "2", "-1", "", "unlock", "18446744073709551616", "\r\n", "\0"];

/// Has somebody wait for something that stays taken, forges messages on the channels that are listened to, and counts how
/// often it asks. Then it is let in.
async fn withstands<T>(
    kind: &str,
    take: impl AsyncFnOnce(&Locks) -> T,
    wait: impl FnOnce(Locks) -> JoinHandle<()>,
    free: impl AsyncFnOnce(&Locks, T),
) {
    let server = Server::redis().await;
    let holder = Locks::connect(&server.url()).await.expect("a server");
    let taken = take(&holder).await;
    let seen = Recorder::new();
    let builder = Locks::builder().url(server.url()).watchdog(LONG);
    let waiter = builder.observer(seen.clone()).connect().await.expect("a server");
    let waiting = wait(waiter);
    let attempts = || seen.count("k", "attempted");
    eventually("somebody waits", || async { attempts() >= 2 }).await;

    let listens = || async { !server.pubsub_channels().await.is_empty() };
    eventually(&format!("{kind} listens"), listens).await;
    let channels = server.pubsub_channels().await;
    let huge = "x".repeat(1 << 20);
    let mut sent = 0;
    let before = attempts();
    for channel in &channels {
        for message in MESSAGES.into_iter().chain([&*huge]) {
            let heard: usize = server.ask(&["PUBLISH", channel, message]).await;
            assert_eq!(heard, 1, "{kind}: one connection listens");
            sent += 1;
        }
    }
    assert!(!waiting.is_finished(), "{kind}: let in by a message");
    let flood = 5_000;
    let publish = format!("for i = 1, {flood} do redis.call('publish', KEYS[1], '0') end");
    server.cli(&["EVAL", &publish, "1", &channels[0]]).await;
    eventually("asked", || async { attempts() > before }).await;
    assert!(!waiting.is_finished(), "{kind}: let in by a message");

    free(&holder, taken).await;
    let entered = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    entered.expect("woken by the true one").expect("no panic");
    // Messages come in order: all the forged ones were heard before the true one. Those that come together are one reason
    // to ask, not many.
    let asked = attempts() - before;
    println!("{kind}: asked {asked} times for {} messages", sent + flood);
    assert!(asked <= sent + flood / 10, "{kind}: {asked} for {sent} and {flood}");
}

/// A kind that is held by a guard.
macro_rules! held {
    ($($kind:ident: $take:expr, $wait:expr;)*) => {
        $(#[tokio::test]
        async fn $kind() {
            withstands(
                stringify!($kind),
                async |locks| {
                    let take = $take;
                    take(locks).lease(LONG).await.expect("free")
                },
                |locks| {
                    tokio::spawn(async move {
                        let wait = $wait;
                        wait(&locks).lease(LONG).await.expect("let in").unlock().await.expect("held");
                    })
                },
                async |_, guard| drop(guard),
            )
            .await;
        })*
    };
}

held! {
    mutex: |locks: &Locks| locks.mutex("k").lock(), |locks: &Locks| locks.mutex("k").lock();
    fair: |locks: &Locks| locks.fair("k").lock(), |locks: &Locks| locks.fair("k").lock();
    fenced: |locks: &Locks| locks.fenced("k").lock(), |locks: &Locks| locks.fenced("k").lock();
    read: |locks: &Locks| locks.rw("k").write(), |locks: &Locks| locks.rw("k").read();
    write: |locks: &Locks| locks.rw("k").read(), |locks: &Locks| locks.rw("k").write();
}

/// Permits are not held by a lock's guard alone: they are counted.
#[tokio::test]
async fn semaphore() {
    withstands(
        "semaphore",
        async |locks| {
            locks.semaphore("k").init(1).await.expect("new");
            locks.semaphore("k").acquire(1).await.expect("free")
        },
        |locks| {
            tokio::spawn(
                async move { drop(locks.semaphore("k").acquire(1).await.expect("let in")) },
            )
        },
        async |_, guard| drop(guard),
    )
    .await;
}

#[tokio::test]
async fn leased_semaphore() {
    withstands(
        "leased_semaphore",
        async |locks| {
            locks.leased_semaphore("k").init(1).await.expect("new");
            locks.leased_semaphore("k").acquire(1).lease(LONG).await.expect("free")
        },
        |locks| {
            tokio::spawn(async move {
                let permit = locks.leased_semaphore("k").acquire(1).lease(LONG).await;
                permit.expect("let in").unlock().await.expect("held");
            })
        },
        async |_, guard| drop(guard),
    )
    .await;
}

#[tokio::test]
async fn latch() {
    withstands(
        "latch",
        async |locks| {
            assert!(locks.latch("k").init(1).await.expect("new"));
        },
        |locks| tokio::spawn(async move { locks.latch("k").wait().await.expect("open") }),
        async |locks, _| {
            locks.latch("k").count_down().await.expect("one less");
        },
    )
    .await;
}
