//! A store that is out of reach for a while: who may go on, who is told, and how often it is tried.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::env::BoxFuture;
use distlock::net::{Connector, Endpoint, Net, Stream};
use distlock::{ErrorKind, Locks, State};
use distlock_testkit::Server;
use distlock_testkit::suites::eventually;
use tokio::time::{Instant, sleep, timeout};

use crate::late::shaky::{Network, Shaky};

const SECOND: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(30);

/// The outer hold ends while a step of the re-entry gets no answer; another task comes in, and then that step fails.
#[tokio::test(start_paused = true)]
async fn a_re_entry_in_doubt_leaves_the_hold_of_the_next_task_alone() {
    let way = Shaky::new();
    let locks = way.open(WATCHDOG).await;
    let (mutex, me) = (locks.mutex("k"), locks.owner());
    // Over in the middle of the second step of the re-entry: each is waited for a second.
    let outer = mutex.lock().owner(&me).lease(SECOND * 3 / 2).await.unwrap();
    way.set(Network::Silent);
    let again = mutex.lock().owner(&me).lease(60 * SECOND).wait(60 * SECOND);
    let inner = tokio::spawn(again.into_future());
    outer.lost().await;
    eventually("the lease is over", || async { !way.look("k").is_held() }).await;
    way.set(Network::Healthy);
    let next = mutex.try_lock().lease(60 * SECOND).await.unwrap().expect("nobody has it");
    way.set(Network::Silent);
    sleep(SECOND).await;
    way.set(Network::Healthy);
    assert_eq!(next.state(), State::Held);
    let told = next.unlock().await;
    inner.abort();
    drop((outer, inner.await));
    assert!(told.is_ok(), "the task that held the lock is told {told:?}");
    eventually("its key goes at once", || async { !way.look("k").is_held() }).await;
}

#[tokio::test(start_paused = true)]
async fn an_unlock_beside_a_re_entry_in_an_outage_ends_within_the_command_timeout() {
    let way = Shaky::new();
    let locks = way.open(WATCHDOG).await;
    let (mutex, me) = (locks.mutex("k"), locks.owner());
    let outer = mutex.lock().owner(&me).lease(20 * SECOND).await.unwrap();
    way.set(Network::Silent);
    let again = mutex.lock().owner(&me).wait(60 * SECOND);
    let _inner = tokio::spawn(again.into_future());
    way.begins().await;
    let since = Instant::now();
    let unlocked = timeout(120 * SECOND, outer.unlock()).await.expect("it ends");
    let took = since.elapsed();
    assert!(took < 6 * SECOND, "{unlocked:?} after {took:?}");
}

/// The same on a real clock, where attempts are connections: see below.
#[tokio::test(start_paused = true)]
async fn a_waiter_in_an_outage_tries_a_few_times_a_second() {
    let way = Shaky::new();
    let (here, elsewhere) = (way.open(WATCHDOG).await, way.elsewhere().open(WATCHDOG).await);
    let holder = elsewhere.mutex("k").lock().lease(600 * SECOND).await.unwrap();
    let waiting = tokio::spawn(here.mutex("k").lock().into_future());
    sleep(SECOND).await;
    way.set(Network::Refused);
    let (before, since) = (way.begun(), Instant::now());
    sleep(35 * SECOND).await;
    let (tried, seconds) = (way.begun() - before, since.elapsed().as_secs());
    assert!(tried < 10 * seconds, "{tried} attempts in {seconds} s");
    way.set(Network::Healthy);
    waiting.abort();
    holder.unlock().await.unwrap();
}

/// Counts how often a connection is tried.
#[derive(Debug, Default)]
struct Counting {
    tried: AtomicU64,
    net: Net,
}

impl Connector for Counting {
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        self.net.connect(endpoint)
    }
}

#[tokio::test]
async fn a_waiter_whose_server_was_killed_connects_a_few_times_a_second() {
    let server = Server::redis().await;
    let counting = Arc::new(Counting::default());
    let builder = Locks::builder().url(server.url()).watchdog(3 * SECOND);
    let locks = builder.connector(counting.clone()).connect().await.unwrap();
    let other = Locks::connect(&server.url()).await.unwrap();
    let holder = other.mutex("k").lock().lease(60 * SECOND).await.unwrap();
    let waiting = tokio::spawn(locks.mutex("k").lock().into_future());
    let listens = || async { !server.pubsub_channels().await.is_empty() };
    eventually("it waits", listens).await;
    server.kill();
    let before = counting.tried.load(Ordering::SeqCst);
    let told = timeout(30 * SECOND, waiting).await.expect("it ends with the outage").unwrap();
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Unavailable);
    let tried = counting.tried.load(Ordering::SeqCst) - before;
    assert!(tried < 200, "{tried} connections tried");
    drop(holder);
}

/// What an earlier attempt met is over: a wait that ran out since says that the lock is busy.
#[tokio::test(start_paused = true)]
async fn an_outage_that_is_over_is_not_reported_to_a_later_wait() {
    let way = Shaky::new();
    let locks = way.open(WATCHDOG).await;
    let mutex = locks.mutex("k");
    let holder = mutex.lock().await.unwrap();
    way.set(Network::Silent);
    let met = mutex.try_lock().await.unwrap_err();
    assert!(matches!(met.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{met:?}");
    way.set(Network::Healthy);
    // Renewals are answered meanwhile.
    sleep(15 * SECOND).await;
    let later = mutex.try_lock().wait(2 * SECOND).await;
    assert!(matches!(later, Ok(None)), "{later:?}");
    holder.unlock().await.unwrap();
}

/// The same with a real server that stands still.
#[tokio::test]
async fn a_server_that_stood_still_is_not_reported_to_a_later_wait() {
    let server = Server::redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mutex = locks.mutex("k");
    let holder = mutex.lock().await.unwrap();
    server.stop();
    let met = mutex.try_lock().await.unwrap_err();
    assert!(matches!(met.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{met:?}");
    server.cont();
    assert!(mutex.is_locked().await.unwrap(), "the server answers again");
    let later = mutex.try_lock().wait(2 * SECOND).await;
    assert!(matches!(later, Ok(None)), "{later:?}");
    holder.unlock().await.unwrap();
}
