//! Eight processes, two thousand increments each; two hundred in tier 1.

use std::time::{Duration, Instant};

use distlock_testkit::effort;
use distlock_testkit::process::worker;
use distlock_testkit::suites::eventually;

const PROCESSES: usize = 8;

async fn count(kind: &str) {
    let times = effort(2000, 200);
    let (ground, dir) = super::ground();
    let file = dir.join("number");
    std::fs::write(&file, "0\n").unwrap();
    let begun = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..PROCESSES {
        let started = worker("filer").arg("count").arg(kind).arg(times.to_string());
        workers.push(started.arg("k").arg(&file).arg(ground.url()).start().await);
    }
    for worker in &mut workers {
        worker.wait_for_within("counted", Duration::from_secs(600)).await;
    }
    for worker in workers {
        assert!(worker.finish().await.success());
    }
    let all = PROCESSES * times;
    println!("{kind}: {:.0} increments/s", all as f64 / begun.elapsed().as_secs_f64());
    let number = std::fs::read_to_string(&file).unwrap();
    assert_eq!(number.trim().parse(), Ok(all));
    super::nothing_is_held(&ground).await;
    // Nor an ear, which would keep its state file, nor a process's file.
    let nothing = || async { super::files(ground.url()).is_empty() };
    eventually("nothing is left", nothing).await;
}

#[tokio::test]
async fn a_mutex_loses_nothing() {
    count("mutex").await;
}

#[tokio::test]
async fn a_fair_lock_loses_nothing() {
    count("fair").await;
}

#[tokio::test]
async fn a_writer_loses_nothing() {
    count("write").await;
}
