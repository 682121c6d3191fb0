//! What a program's log says of its locks.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::Locks;
use distlock_testkit::suites::eventually;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The line that says all of this.
    fn find(&self, words: &[&str]) -> Option<String> {
        let says_all = |line: &&str| words.iter().all(|word| line.contains(word));
        self.text().lines().find(says_all).map(str::to_owned)
    }

    /// The same; `what` it is, if there is none.
    fn line(&self, what: &str, words: &[&str]) -> String {
        let missing = || panic!("no line for {what}: {words:?} in\n{}", self.text());
        self.find(words).unwrap_or_else(missing)
    }
}

/// There is one log for the whole process.
#[tokio::test]
async fn log_lines_belong_to_the_lock_they_are_about() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let locks = Locks::memory();

    let held = locks.mutex("orders:42").lock().await.unwrap();
    log.line("the acquisition", &["acquire{kind=\"mutex\" name=\"orders:42\"}: ", " acquired "]);
    held.while_held(async { tracing::info!("shipping") }).await.unwrap();
    log.line("the user's own words", &["held{kind=\"mutex\" name=\"orders:42\"}: ", "shipping"]);

    let waiting = locks.mutex("orders:42").try_lock().wait(Duration::from_millis(10));
    assert!(waiting.await.unwrap().is_none());
    let line = log.line("the time-out", &["acquire{", "gave up waiting"]);
    assert!(line.contains("DEBUG"), "{line}");
    held.unlock().await.unwrap();
    log.line("the release", &["DEBUG", "released", "name=\"orders:42\"", "held="]);

    let brief = locks.mutex("brief").lock().lease(Duration::from_millis(20)).await.unwrap();
    brief.lost().await;
    // Whoever asks after the deadline is told by the clock, perhaps before anybody has written it down.
    let words = ["WARN", "lock lost", "name=\"brief\""];
    eventually("the loss", || async { log.find(&words).is_some() }).await;

    let both = locks.multi(["acct:1", "acct:2"]).lock().await.unwrap();
    log.line("all of several", &["acquire{kind=\"multi\" name=\"acct:1, acct:2\"}", "acquired"]);
    both.while_held(async { tracing::info!("paying") }).await.unwrap();
    log.line("work under all", &["held{kind=\"multi\" name=\"acct:1, acct:2\"}: ", "paying"]);

    let forged = locks.mutex("x\n ERROR forged").lock().await.unwrap();
    forged.unlock().await.unwrap();
    let text = log.text();
    assert!(!text.lines().any(|line| line.starts_with(" ERROR")), "{text}");
}
