//! A holder learns that it lost its lock before anybody else can have it, and trouble that passes costs no lock.
mod kept;
mod lost;

use std::collections::HashSet;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Event, Guard, Locks, Observer, State, Subject};
use distlock_testkit::proxy::{Match, Proxy};
use distlock_testkit::{Flavor, Server, Stopwatch, Worker, assert_clean, worker};

/// The watchdog's time-out where a test waits for a loss, and nothing is in danger before.
const SHORT: Duration = Duration::from_secs(3);
/// Where a hold must be kept: a machine that stands still for some seconds does not cost it.
const STEADY: Duration = Duration::from_secs(6);
/// Where a hold must outlive a reply that does not come, which takes a second to be noticed.
const LONGER: Duration = Duration::from_secs(9);
const LONG: Duration = Duration::from_secs(30);
/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);

/// Everything that happened, and when it was told.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<(Instant, String, Event)>>);

impl Observer for Log {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        self.events().push((Instant::now(), lock.name.to_owned(), event));
    }
}

impl Log {
    fn events(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, String, Event)>> {
        self.0.lock().expect("nobody panics here")
    }

    fn count(&self, name: &str, event: Event) -> usize {
        self.events().iter().filter(|(_, about, what)| about == name && *what == event).count()
    }

    fn last(&self, name: &str, event: Event) -> Option<Instant> {
        let events = self.events();
        let found = events.iter().rfind(|(_, about, what)| about == name && *what == event);
        found.map(|(at, ..)| *at)
    }

    /// Waits for so many more renewals.
    async fn renewed(&self, name: &str, more: usize) {
        let goal = self.count(name, Event::Renewed) + more;
        let enough = async || self.count(name, Event::Renewed) >= goal;
        eventually(&format!("{name} renewed {more} times"), enough).await;
    }
}

async fn connect(url: &str, watchdog: Duration) -> (Locks, Arc<Log>) {
    let log = Arc::new(Log::default());
    let builder = Locks::builder().url(url).watchdog(watchdog).observer(log.clone());
    (builder.connect().await.expect("a connection"), log)
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn soon<T>(what: &str, work: impl IntoFuture<Output = T>) -> T {
    let done = tokio::time::timeout(SOON, work).await;
    done.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

/// The loss is told in every way there is.
async fn assert_lost(guard: Guard) {
    soon("lost() ends", guard.lost()).await;
    assert_eq!(guard.state(), State::Lost);
    assert_eq!(guard.remaining(), Duration::ZERO);
    let work = guard.while_held(std::future::pending::<()>());
    let said = [
        soon("the work is stopped", work).await,
        guard.extend(LONG).await,
        soon("unlock", guard.unlock()).await,
    ];
    for said in said {
        assert_eq!(said.expect_err("it is lost").kind(), ErrorKind::Lost);
    }
}

/// The holder's own process decides, by its own clock, whatever the network does.
async fn lost_by_the_clock(guard: Guard, log: &Log, since: Instant, watch: &Stopwatch) {
    let name = guard.name().to_owned();
    soon("lost() ends", guard.lost()).await;
    let told = Instant::now();
    // A renewal was sent before it was told, so the deadline is no later than this.
    let sent = log.last(&name, Event::Renewed).unwrap_or(since);
    let late = told.saturating_duration_since(sent + STEADY).saturating_sub(watch.stalled());
    // Not only when the command that is out there is given up, which takes three seconds.
    assert!(late < Duration::from_millis(2500), "told {late:?} after the end of the lease");
    assert_lost(guard).await;
    assert_eq!(log.count(&name, Event::Lost), 1);
}

async fn start_worker(url: &str, watchdog: Duration) -> Worker {
    let mut process = worker("worker").start().await;
    process.wait_for_within("ready", Duration::from_secs(60)).await;
    let answer = process.ask(&format!("connect {url} {}", watchdog.as_millis())).await;
    assert_eq!(answer, "connected");
    process
}
