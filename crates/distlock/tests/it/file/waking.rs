//! Whoever waits is called, and does nothing until then.

use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::process::{PATIENCE, Worker};
use distlock_testkit::suites::eventually;

use super::connected;

/// Until so many stand in line for `k`.
pub(crate) async fn queued(locks: &Locks, count: usize) {
    let in_line =
        || async { locks.fair("k").inspect().await.is_ok_and(|seen| seen.queue.len() == count) };
    eventually("they stand in line", in_line).await;
}

/// Until somebody waits for `k`.
async fn waited_for(locks: &Locks) {
    let waits =
        || async { locks.mutex("k").inspect().await.is_ok_and(|seen| seen.waiters == Some(1)) };
    eventually("somebody listens", waits).await;
}

#[tokio::test]
async fn a_release_wakes_another_process() {
    let (ground, _dir) = super::ground();
    let locks = ground.open().await;
    let mut waiter = connected(ground.url()).await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let guard = locks.mutex("k").lock().await.unwrap();
        waiter.send("lock k");
        waited_for(&locks).await;
        let begun = Instant::now();
        guard.unlock().await.unwrap();
        assert!(waiter.line().await.unwrap().starts_with("locked"));
        took.push(begun.elapsed());
        assert_eq!(waiter.ask("unlock").await, "unlocked");
    }
    took.sort();
    println!("median {:?}, worst {:?}", took[10], took[19]);
    // One that was not called would look after a second.
    assert!(took[10] < Duration::from_millis(900), "{took:?}");
}

/// How often the threads of a process were put on a processor.
fn switches(worker: &Worker) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap();
    // One that ends while we look counts no more.
    let texts = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let count = |text: String| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    texts.map(count).sum()
}

#[tokio::test]
async fn waiting_is_no_work() {
    let (ground, _dir) = super::ground();
    let locks = ground.open().await;
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut waiter = connected(ground.url()).await;
    waiter.send("lock k");
    waited_for(&locks).await;
    let before = switches(&waiter);
    let seconds = 4;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let woken = switches(&waiter).saturating_sub(before);
    println!("{woken} wake-ups in {seconds} s");
    // Polling every 20 ms would be 200.
    assert!(woken < 80, "{woken} wake-ups");
    guard.unlock().await.unwrap();
    assert!(waiter.line_within(PATIENCE).await.unwrap().starts_with("locked"));
}
