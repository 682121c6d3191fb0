//! What a dead process held is free without waiting for its lease; what a stopped one holds is not.

use std::time::{Duration, Instant};

use distlock::{Locks, Result};
use distlock_testkit::process::worker;
use distlock_testkit::suites::eventually;

use super::{PROMPT, connected};

/// One process takes it and is killed while another waits.
async fn dies(take: &str, next: impl AsyncFn(&Locks) -> Result<()>) {
    let (ground, _dir) = super::ground();
    let locks = ground.open().await;
    locks.semaphore("permits").init(2).await.unwrap();
    locks.leased_semaphore("leases").init(2).await.unwrap();
    let mut holder = connected(ground.url()).await;
    let answer = holder.ask(take).await;
    assert!(answer.starts_with("locked") || answer.starts_with("taken"), "{answer}");
    let wait = async {
        next(&locks).await.unwrap_or_else(|error| panic!("{take}: {error}"));
        Instant::now()
    };
    let kill = async {
        // So that it waits, most likely: it must get in either way.
        tokio::time::sleep(Duration::from_millis(300)).await;
        holder.kill();
        Instant::now()
    };
    let (got, killed) = tokio::join!(wait, kill);
    println!("{take}: {:?} after the kill", got - killed);
    assert!(got >= killed, "{take}: it was not excluded");
}

#[tokio::test]
async fn whoever_waits_gets_in_when_the_holder_dies() {
    dies("lock k", async |locks| locks.mutex("k").lock().wait(PROMPT).await?.unlock().await).await;
    dies("fair k", async |locks| locks.fair("k").lock().wait(PROMPT).await?.unlock().await).await;
    dies("read k", async |locks| locks.rw("k").write().wait(PROMPT).await?.unlock().await).await;
    dies("write k", async |locks| locks.rw("k").read().wait(PROMPT).await?.unlock().await).await;
    dies("permits permits 2", async |locks| {
        locks.semaphore("permits").acquire(1).wait(PROMPT).await?.unlock().await
    })
    .await;
    dies("leases leases 2", async |locks| {
        locks.leased_semaphore("leases").acquire(1).wait(PROMPT).await?.unlock().await
    })
    .await;
}

#[tokio::test]
async fn a_single_try_finds_out_as_well() {
    let (ground, _dir) = super::ground();
    let mut holder = connected(ground.url()).await;
    holder.ask("lock k").await;
    let locks = ground.open().await;
    assert!(locks.mutex("k").try_lock().await.unwrap().is_none());
    assert!(locks.mutex("k").is_locked().await.unwrap());
    holder.kill();
    // Who was seen alive a moment ago is believed to be.
    let had = || async { locks.mutex("k").try_lock().await.unwrap().is_some() };
    eventually("its holder is dead", had).await;
}

#[tokio::test]
async fn a_waiter_that_dies_in_line_keeps_nobody_waiting() {
    let (ground, _dir) = super::ground();
    let locks = ground.open().await;
    let held = locks.fair("k").lock().await.unwrap();
    let mut first = connected(ground.url()).await;
    first.send("fair k");
    super::waking::queued(&locks, 1).await;
    let second = tokio::spawn({
        let lock = locks.fair("k");
        async move { lock.lock().wait(PROMPT).await?.unlock().await }
    });
    super::waking::queued(&locks, 2).await;
    first.kill();
    held.unlock().await.unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stopped_process_is_not_dead() {
    let (ground, _dir) = super::ground();
    let mut holder = connected(ground.url()).await;
    holder.ask("lock k").await;
    holder.stop();
    let locks = ground.open().await;
    let wait = Duration::from_millis(1500);
    assert!(locks.mutex("k").try_lock().wait(wait).await.unwrap().is_none());
    holder.cont();
    assert!(holder.ask("state").await.starts_with("state Held"));
    assert_eq!(holder.ask("unlock").await, "unlocked");
}

#[tokio::test]
async fn a_leaked_hold_ends_with_its_process() {
    let (ground, _dir) = super::ground();
    let mut leaker = worker("filer").arg("leak").arg("k").arg(ground.url()).start().await;
    leaker.wait_for("leaked").await;
    assert!(leaker.finish().await.success());
    let locks = ground.open().await;
    locks.mutex("k").lock().wait(PROMPT).await.unwrap().unlock().await.unwrap();
}

/// Programs that run for a moment only clear up after each other.
#[tokio::test]
async fn what_short_programs_leave_does_not_pile_up() {
    let (ground, _dir) = super::ground();
    for _ in 0..5 {
        let mut one = connected(ground.url()).await;
        one.ask("lock k").await;
        one.ask("unlock").await;
        one.kill();
    }
    let locks = ground.open().await;
    let left = super::files(ground.url());
    assert!(!left.iter().any(|file| file.starts_with("life-")), "{left:?}");
    locks.close().await;
}
