//! `kill -9`, again and again, at any moment.

use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::effort;
use distlock_testkit::process::{Worker, worker};
use distlock_testkit::suites::eventually;

use super::PROMPT;

const AT_WORK: usize = 4;

/// Whatever processes with locks of every kind did when they were killed: nobody ever met anybody, and afterwards everything can
/// be had at once.
#[tokio::test]
async fn kills_leave_no_stuck_and_no_broken_lock() {
    let kills: u64 = effort(200, 50);
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(1..));
    println!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (ground, dir) = super::ground();
    let begun = Instant::now();
    let mut workers: Vec<Worker> = Vec::new();
    for kill in 0..kills + AT_WORK as u64 {
        let started = worker("filer").arg("work").arg(random.u64(1..).to_string());
        let mut started = started.arg(&dir).arg(ground.url()).start().await;
        started.wait_for_within("working", Duration::from_secs(60)).await;
        workers.push(started);
        if workers.len() <= AT_WORK && kill < kills {
            continue;
        }
        // Any moment will do: this is where it is chosen.
        tokio::time::sleep(Duration::from_micros(random.u64(..20_000))).await;
        let mut one = workers.swap_remove(random.usize(..workers.len()));
        one.kill();
        while let Some(line) = one.line().await {
            assert!(!line.starts_with("violation"), "{line}");
        }
    }
    for mut worker in workers {
        worker.kill();
        while let Some(line) = worker.line().await {
            assert!(!line.starts_with("violation"), "{line}");
        }
    }
    println!("{kills} kills in {:?}", begun.elapsed());
    all_can_be_had(&ground.open().await).await;
    super::nothing_is_held(&ground).await;
    // The counts, and the numbers of fenced locks, are meant to stay.
    let clean = || async {
        let left = super::files(ground.url());
        left.iter().all(|file| file.starts_with("locks-"))
    };
    eventually("nothing else is left", clean).await;
}

async fn all_can_be_had(locks: &Locks) {
    let begun = Instant::now();
    let _mutex = locks.mutex("mutex").lock().wait(PROMPT).await.unwrap();
    let _fair = locks.fair("fair").lock().wait(PROMPT).await.unwrap();
    let _write = locks.rw("rw").write().wait(PROMPT).await.unwrap();
    let _fenced = locks.fenced("fenced").lock().wait(PROMPT).await.unwrap();
    let _simple = locks.simple("simple").lock().wait(PROMPT).await.unwrap();
    let semaphore = locks.semaphore("semaphore");
    let leased = locks.leased_semaphore("leased");
    assert_eq!(semaphore.available().await.unwrap(), 3);
    assert_eq!(leased.available().await.unwrap(), 3);
    let _all = semaphore.acquire(3).wait(PROMPT).await.unwrap();
    let _leases = leased.acquire(3).wait(PROMPT).await.unwrap();
    let latch = locks.latch("latch");
    while latch.count_down().await.unwrap() > 0 {}
    latch.wait().wait(PROMPT).await.unwrap();
    println!("all had after {:?}", begun.elapsed());
}
