//! What a program's log says of its locks.

use std::future::IntoFuture;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use distlock::{Error, Locks, locked};
use distlock_testkit::suites::eventually;
use tower::{Layer, ServiceExt};

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

#[locked("attribute", via = locks)]
async fn attribute(locks: &Locks) -> distlock::Result<()> {
    tracing::info!("under an attribute");
    Ok(())
}

#[locked("attribute", via = locks)]
fn on_a_thread(locks: &Locks) -> distlock::Result<()> {
    tracing::info!("on a thread");
    Ok(())
}

async fn done(words: &str) -> Result<(), Error> {
    tracing::info!("{words}");
    Ok(())
}

/// Work that is run under a lock says which, once, however it came there.
async fn all_work_under_a_lock_is_in_its_span(log: &Log, locks: &Locks) {
    locks.mutex("run").run(async |_| done("under run").await).await.unwrap();
    locks.mutex("may").try_lock().run(async |_| done("under may").await).await.unwrap().unwrap();
    locks.multi(["x", "y"]).run(async |_| done("under both").await).await.unwrap();
    let nested = locks.fair("outer").run(async |_| attribute(locks).await);
    nested.await.unwrap();
    let blocking = locks.clone();
    let thread = move || {
        on_a_thread(&blocking)?;
        blocking.rw("thread").read().run_blocking(|_| {
            tracing::info!("run on a thread");
            Ok::<_, Error>(())
        })
    };
    tokio::task::spawn_blocking(thread).await.unwrap().unwrap();
    let layer = distlock::web::LockLayer::new(locks, |_: &axum::http::Request<()>| Some("web"));
    let handler = tower::service_fn(async |_: axum::http::Request<()>| {
        done("a request").await.map(|()| axum::http::Response::new(()))
    });
    layer.layer(handler).oneshot(axum::http::Request::new(())).await.unwrap();
    // Counted from when it is asked for: a time that has passed by then is none.
    let once = || {
        let mut soon = Some(Duration::from_millis(20));
        move |after: SystemTime| soon.take().map(|soon| after + soon)
    };
    let job = async |_| drop(done("a job").await);
    locks.schedule("job").at(once()).run(job).await.unwrap();
    let schedule = locks.schedule("thread-job").at(once());
    let job = || schedule.run_blocking(|_| tracing::info!("a job on a thread"));
    tokio::task::spawn_blocking(job).await.unwrap().unwrap();

    for (words, kind, name, spans) in [
        ("under run", "mutex", "run", 1),
        ("under may", "mutex", "may", 1),
        ("under both", "multi", "x, y", 1),
        ("under an attribute", "mutex", "attribute", 2), // and that of what it is called from
        ("on a thread", "mutex", "attribute", 1),
        ("run on a thread", "rw", "thread", 1),
        ("a request", "mutex", "web", 1),
        ("a job", "mutex", "job", 1),
        ("a job on a thread", "mutex", "thread-job", 1),
    ] {
        let line = log.line(words, &[&format!("held{{kind=\"{kind}\" name=\"{name}\"}}: "), words]);
        assert_eq!(line.matches("held{").count(), spans, "{line}");
    }
    let release = log.line("a release", &["released", "name=\"run\""]);
    assert!(!release.contains("held{"), "the release is no work of the body: {release}");
}

/// Requests that lock nothing are warned of, with the place where they were made; all others are not.
async fn a_request_that_is_not_used_is_warned_of(log: &Log, locks: &Locks) {
    const WARNING: &str = "dropped without being awaited";
    // Awaited, blocking, run, spawned, raced, and futures of `run` that are dropped: none is warned of.
    locks.mutex("used").lock().await.unwrap().unlock().await.unwrap();
    drop(locks.semaphore("used permits").with_permits(1).try_acquire(1).await.unwrap().unwrap());
    locks.latch("used latch").wait().await.unwrap();
    let blocking = locks.clone();
    let thread = move || blocking.rw("used rw").read().blocking()?.unlock_blocking();
    tokio::task::spawn_blocking(thread).await.unwrap().unwrap();
    drop(locks.mutex("used").run(async |_| Ok::<_, Error>(())));
    drop(locks.mutex("used").try_lock().run(async |_| Ok::<_, Error>(())));
    drop(locks.mutex("used").lock().into_future());
    tokio::select! {
        biased;
        () = std::future::ready(()) => {}
        _ = locks.mutex("used").lock() => {}
    }
    let panicking = locks.clone();
    let thread = std::thread::spawn(move || {
        let _request = panicking.mutex("used").lock();
        panic!("as the test wants it");
    });
    thread.join().unwrap_err();
    let text = log.text();
    assert!(!text.contains(WARNING), "{text}");

    /// Drops it: its kind, and the line on which it was made.
    macro_rules! unused {
        ($kind:literal, $request:expr) => {{
            drop($request);
            ($kind, line!())
        }};
    }
    for (kind, line) in [
        unused!("mutex", locks.mutex("unused").lock()),
        unused!("fair", locks.fair("unused").try_lock().wait(Duration::ZERO)),
        unused!("rw", locks.rw("unused").read()),
        unused!("leased_semaphore", locks.leased_semaphore("unused").acquire(1)),
        unused!("latch", locks.latch("unused").wait()),
        unused!("mutex", locks.multi(["unused", "other"]).lock()),
        unused!("simple", locks.simple("unused").lock()),
    ] {
        let (kind, at) =
            (format!("kind=\"{kind}\" name=\"unused\""), format!("tracing.rs:{line}:"));
        let line = log.line("a request that is not used", &["WARN", WARNING, &kind, &at]);
        assert!(line.contains("distlock"), "{line}");
    }
    assert_eq!(log.text().matches(WARNING).count(), 7);
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

    all_work_under_a_lock_is_in_its_span(&log, &locks).await;
    a_request_that_is_not_used_is_warned_of(&log, &locks).await;

    let forged = locks.mutex("x\n ERROR forged").lock().await.unwrap();
    forged.unlock().await.unwrap();
    let text = log.text();
    assert!(!text.lines().any(|line| line.starts_with(" ERROR")), "{text}");
}
