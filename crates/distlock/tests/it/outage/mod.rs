//! A server that is down, full, loading or forbidding is told by the right kind of error, in bounded time, and leaves nothing.
mod away;
mod ending;
mod permissions;
mod unwilling;

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use distlock::Locks;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(20);
/// What a call may take that has no wait of its own: the command time-out, one reply time-out, and a busy machine.
const BOUND: Duration = Duration::from_millis(3000 + 1000 + 8000);

async fn connect(url: &str, watchdog: Duration) -> Locks {
    Locks::builder().url(url).watchdog(watchdog).connect().await.expect("a connection")
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn within<T>(limit: Duration, what: &str, work: impl IntoFuture<Output = T>) -> T {
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {limit:?}"))
}
