//! A reply that is lost changes nothing: the step is done once, the caller gets the right answer, and nothing stays behind.
mod leaving;
mod steps;

use std::collections::BTreeMap;
use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Guard, Locks, Result, State};
use distlock_testkit::proxy::{Match, Proxy, Rule};
use distlock_testkit::{Server, Stopwatch, assert_clean};

const LEASE: Duration = Duration::from_secs(30);
/// Much more than a healthy machine needs, much less than the lease.
const SOON: Duration = Duration::from_secs(15);
/// What a caller may have to wait beyond its own limit: the command time-out, one reply time-out, and a busy machine.
const GRACE: Duration = Duration::from_millis(3000 + 1000 + 8000);
/// With this much less time, a step that got no answer may not be asked again.
const STALL: Duration = Duration::from_secs(1);

/// A server with two clients: one through the proxy, one beside it.
struct Stage {
    locks: Locks,
    other: Locks,
    proxy: Proxy,
    server: Server,
}

impl Stage {
    async fn new() -> Stage {
        Stage::with_watchdog(LEASE).await
    }

    async fn with_watchdog(watchdog: Duration) -> Stage {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let connect = async |url: String| {
            Locks::builder().url(url).watchdog(watchdog).connect().await.expect("a connection")
        };
        let (locks, other) = (connect(proxy.url()).await, connect(server.url()).await);
        // The server must know the scripts: a rule is to strike a step, not the news that its script is unknown.
        let me = other.owner();
        let warm = || other.mutex("warm").lock().owner(&me).lease(LEASE);
        let guard = warm().await.expect("a free lock");
        let inner = warm().await.expect("a re-entry");
        guard.extend(LEASE).await.expect("an extension");
        inner.unlock().await.expect("a release");
        guard.unlock().await.expect("a release");
        other.mutex("warm").force_unlock().await.expect("an answer");
        Stage { locks, other, proxy, server }
    }

    async fn holders(&self, name: &str) -> BTreeMap<String, String> {
        self.server.hgetall(name).await
    }

    async fn assert_held(&self, guard: &Guard, depth: u32) {
        let expected = BTreeMap::from([(guard.stay().to_string(), depth.to_string())]);
        eventually("the hold stands in the store at its depth", async || {
            self.holders(guard.name()).await == expected
        })
        .await;
        let left = self.server.pttl(guard.name()).await;
        assert!(left > 0 && left <= LEASE.as_millis() as i64, "{left} ms left");
        assert!(!guard.is_lost());
    }
}

/// How a reply is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// It never comes.
    Silence,
    /// The connection breaks in its place.
    Reset,
}

impl Loss {
    const ALL: [Loss; 2] = [Loss::Silence, Loss::Reset];

    fn strike(self, proxy: &Proxy, matcher: Match, times: u64) -> Rule {
        match self {
            Loss::Silence => proxy.swallow_replies_to(matcher, times),
            Loss::Reset => proxy.reset_instead_of_replies_to(matcher, times),
        }
    }
}

/// A step about a lock, by the hash of its script.
fn step(script: &str, name: &str) -> Match {
    let sha = redis::Script::new(script).get_hash().to_owned();
    Match::command("EVALSHA").and(Match::token(sha)).and(Match::token(name))
}

fn acquire(name: &str) -> Match {
    step(include_str!("../../../src/redis/scripts/exclusive_acquire.lua"), name)
}

fn release(name: &str) -> Match {
    step(include_str!("../../../src/redis/scripts/exclusive_release.lua"), name)
}

fn renew(name: &str) -> Match {
    step(include_str!("../../../src/redis/scripts/exclusive_renew.lua"), name)
}

fn force(name: &str) -> Match {
    step(include_str!("../../../src/redis/scripts/exclusive_force.lua"), name)
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a step gives whose reply was lost; `None` if the machine stood still until there was no time to ask again.
fn asked_again<T>(watch: &Stopwatch, said: Result<T>) -> Option<T> {
    match said {
        Err(error) if is_outage(error.kind()) && watch.stalled() > STALL => None,
        said => Some(said.expect("it is asked again")),
    }
}

fn is_outage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// Ends within the limit, and says that the store is out of reach: not that the lock is busy.
async fn meets_the_outage<T>(
    what: &str,
    limit: Duration,
    call: impl IntoFuture<Output = Result<T>>,
) {
    let since = Instant::now();
    let ended = tokio::time::timeout(limit, call).await;
    let ended = ended.unwrap_or_else(|_| panic!("{what}: no end after {limit:?}"));
    let kind = ended.map_or_else(|error| Some(error.kind()), |_| None);
    let met = kind.is_some_and(is_outage);
    assert!(met, "{what} ended with {kind:?} after {:?}", since.elapsed());
}
