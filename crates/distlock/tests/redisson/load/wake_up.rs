//! How soon a waiter on either side is in after the other side has left, while leases last for an hour.

use std::time::{Duration, SystemTime};

use distlock_testkit::peer::Kind;
use distlock_testkit::{Pair, Stopwatch};

/// How often each side follows on the other.
pub(super) const ROUNDS: usize = 80;
/// Longer than any test: a waiter that acquires while it lasts was notified.
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// What is promised on a machine that does nothing else. Most must keep it on any that does not stand still all the time.
const SOON: Duration = Duration::from_millis(50);
/// Our waiters look again after 10 s at the earliest, Java's after an hour: whoever is later than this was not called.
const CALLED: Duration = Duration::from_secs(9);

/// Times between a release on one side and the entry on the other.
pub(super) struct Figures {
    what: String,
    times: Vec<Duration>,
    watch: Stopwatch,
}

impl Figures {
    pub(super) fn new(pair: &Pair, what: &str) -> Figures {
        let what = format!("{what}, Redisson {}", pair.version().number());
        Figures { what, times: Vec::new(), watch: Stopwatch::start() }
    }

    /// One more. The clocks are one, but it may be set in between.
    pub(super) fn add(&mut self, left: SystemTime, entered: SystemTime) {
        self.times.push(entered.duration_since(left).unwrap_or_default());
    }

    /// Prints them, and checks what a busy machine lets one check.
    ///
    /// # Panics
    /// When most took too long, or one was not called.
    pub(super) fn judge(mut self) {
        self.times.sort();
        let share = |percent: usize| self.times[(self.times.len() - 1) * percent / 100];
        let (median, p99, longest) = (share(50), share(99), share(100));
        println!(
            "wake-up, {}: median {median:.1?}, p99 {p99:.1?}, longest {longest:.1?}",
            self.what
        );
        let busy = self.watch.stalled() > self.watch.elapsed() / 4;
        assert!(median <= SOON || busy, "{}: median {median:?}", self.what);
        assert!(longest < CALLED, "{}: longest {longest:?}", self.what);
    }
}

/// Hand-overs of a lock of one owner at a time. `$seen` waits until so many waiters are seen on the server.
macro_rules! hand_overs {
    ($pair:ident, $kind:ident, $java:expr, $seen:expr) => {{
        let (java, name) = ($pair.java("a"), $pair.name("k"));
        let lock = $pair.builder().connect().await.expect("the server answers").$kind(&name);
        let mut to_java = Figures::new(&$pair, concat!(stringify!($kind), ", Rust to Java"));
        let mut to_rust = Figures::new(&$pair, concat!(stringify!($kind), ", Java to Rust"));
        let mut guard = lock.lock().lease(HOUR).await.expect("it is free");
        for _ in 0..ROUNDS {
            // Who has left must not be taken for one who waits.
            $seen(&$pair, &name, 0).await;
            let waiter = java.lock_for($java, &name, HOUR);
            $seen(&$pair, &name, 1).await;
            let left = SystemTime::now();
            guard.unlock().await.expect("it was held");
            to_java.add(left, waiter.await.at);

            $seen(&$pair, &name, 0).await;
            let request = lock.lock().lease(HOUR);
            let waiter = tokio::spawn(async move { (request.await, SystemTime::now()) });
            $seen(&$pair, &name, 1).await;
            let left = java.unlock($java, &name).await.from;
            let (entered, at) = waiter.await.expect("no panic");
            guard = entered.expect("it gets free");
            to_rust.add(left, at);
        }
        guard.unlock().await.expect("it was held");
        to_java.judge();
        to_rust.judge();
    }};
}

async fn listens(pair: &Pair, name: &str, n: u64) {
    pair.waiting(name, n).await;
}

async fn queues(pair: &Pair, name: &str, n: usize) {
    pair.queued(name, n).await;
}

pub(super) async fn mutex(pair: Pair) {
    hand_overs!(pair, mutex, Kind::Plain, listens);
}

pub(super) async fn fair(pair: Pair) {
    hand_overs!(pair, fair, Kind::Fair, queues);
}

pub(super) async fn fenced(pair: Pair) {
    hand_overs!(pair, fenced, Kind::Fenced, listens);
}
