//! The `file:` store among processes: they count exactly, are killed at any moment, wait without work, and meet a disk that fails.
mod counting;
mod dying;
mod failing;
mod killing;
mod owners;
mod waking;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use distlock_testkit::process::{Worker, worker};
use distlock_testkit::suites::{Ground, Site, eventually};

/// A directory for one test, with the store in `locks`.
fn ground() -> (Ground, PathBuf) {
    let ground = Ground::at(Site::File).expect("there always are files");
    let locks = PathBuf::from(ground.url().strip_prefix("file:").expect("a directory"));
    let dir = locks.parent().expect("it is in one of the test's own").to_owned();
    (ground, dir)
}

/// A worker that is connected.
async fn connected(url: &str) -> Worker {
    let mut holder = worker("worker").start().await;
    holder.wait_for("ready").await;
    assert_eq!(holder.ask(&format!("connect {url} 30000")).await, "connected");
    holder
}

/// Far shorter than the lease of 30 s that a dead holder left.
const PROMPT: Duration = Duration::from_secs(15);

/// Says that a test was left out: not by `eprintln!`, which nobody sees of a test that passes.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Waits until nobody holds anything.
async fn nothing_is_held(ground: &Ground) {
    let locks = ground.open().await;
    let free = || async { locks.list("").await.is_ok_and(|held| held.is_empty()) };
    eventually("nothing is held", free).await;
}

/// What lies in the directory of the store.
fn files(url: &str) -> Vec<String> {
    let dir = url.strip_prefix("file:").expect("a directory");
    let names = std::fs::read_dir(dir).expect("it is there");
    names
        .map(|file| file.expect("it can be read").file_name().into_string().expect("ours"))
        .collect()
}
