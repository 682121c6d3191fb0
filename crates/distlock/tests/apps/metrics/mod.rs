//! What Prometheus sees: real text from a real listener, and every count in it.

mod dashboard;
mod scrape;

use std::sync::Arc;
use std::time::Duration;

use distlock::store::Kind;
use distlock::{Event, Locks, Metrics, Observer, Subject};
use distlock_testkit::Server;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use scrape::Scrape;

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(30);

/// There is one recorder for the whole process, so there is one test for all kinds of counts.
#[tokio::test]
async fn the_right_counts_are_scraped() {
    let port = distlock_testkit::port::free();
    PrometheusBuilder::new()
        .with_http_listener(([127, 0, 0, 1], port))
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &Metrics::BUCKETS)
        .unwrap()
        .install()
        .unwrap();
    alarms_begin_at_zero(port).await;
    requests_by_outcome(port).await;
    holds_by_how_they_end(port).await;
    several_at_once_count_as_one_request(port).await;
    what_the_watchdog_and_the_network_do(port).await;
    what_takes_long(port).await;
    descriptions_and_units_are_there(port).await;
    dashboard::asks_for_nothing_that_is_not_there(&Scrape::now(port).await);
}

/// `increase()` over a series that is born at 1 is 0, and the first loss would raise no alarm.
async fn alarms_begin_at_zero(port: u16) {
    let _locks = Locks::memory();
    let seen = Scrape::now(port).await;
    for kind in Kind::ALL {
        for name in ["distlock_lost_total", "distlock_suspect_total"] {
            let sample = format!("{name}{{kind=\"{}\"}} 0", kind.as_str());
            assert!(seen.text().lines().any(|line| line == sample), "not seen: {sample}");
        }
    }
}

async fn requests_by_outcome(port: u16) {
    let locks = Locks::memory();
    let fair = locks.fair("orders:42");

    let held = fair.lock().await.unwrap();
    assert!(fair.try_lock().await.unwrap().is_none());
    assert!(fair.try_lock().await.unwrap().is_none());
    assert!(fair.try_lock().wait(SOON).await.unwrap().is_none());
    fair.lock().wait(SOON).await.unwrap_err();
    let waiting = tokio::spawn(fair.lock().into_future());
    Scrape::until(port, "one waits", |seen| seen.get("distlock_waiting", "fair") == 1.0).await;
    waiting.abort();
    let _ = waiting.await;
    let inner = fair.lock().owner(held.owner()).await.unwrap(); // one request more, but not one hold more
    let seen = Scrape::now(port).await;
    assert_eq!(seen.get("distlock_held", "fair"), 1.0);
    assert_eq!(seen.get("distlock_waiting", "fair"), 0.0);
    drop(inner);
    held.unlock().await.unwrap();
    drop(fair.lock()); // never asked
    locks.close().await;
    fair.lock().await.unwrap_err();

    let seen = Scrape::now(port).await;
    for (outcome, count) in
        [("acquired", 2.0), ("busy", 2.0), ("timeout", 2.0), ("cancelled", 1.0), ("failed", 1.0)]
    {
        assert_eq!(seen.of("distlock_acquire_total", "fair", outcome), count, "{outcome}");
        assert_eq!(seen.of("distlock_wait_seconds_count", "fair", outcome), count, "{outcome}");
    }
    let waited = seen.of("distlock_wait_seconds_sum", "fair", "timeout");
    assert!(waited >= 2.0 * SOON.as_secs_f64(), "{waited}");
    assert_eq!(seen.get("distlock_hold_seconds_count", "fair"), 1.0);
    assert_eq!(seen.get("distlock_held", "fair"), 0.0);
    assert_eq!(seen.get("distlock_waiting", "fair"), 0.0);
    seen.says_no_name("orders:42");
}

async fn holds_by_how_they_end(port: u16) {
    let locks = Locks::memory();
    let rw = locks.rw("prices");
    let readers = [rw.read().await.unwrap(), rw.read().await.unwrap()];
    assert_eq!(Scrape::now(port).await.get("distlock_held", "rw"), 2.0);
    drop(readers);
    // Long enough to be had before it is over: what is not counts as lost, too.
    let lost = rw.write().lease(10 * SOON).await.unwrap();
    lost.lost().await;
    drop(lost);
    rw.write().lease(LONG).await.unwrap().leak();
    // Whoever asks after the deadline is told by the clock, perhaps before the watchdog has counted it.
    let counted = |seen: &Scrape| {
        let names = ["distlock_held", "distlock_lost_total", "distlock_hold_seconds_count"];
        names.map(|name| seen.get(name, "rw")) == [0.0, 1.0, 2.0]
    };
    Scrape::until(port, "one lost, two released, none held", counted).await;

    // Passed on in memory, and taken away by closing.
    let spin = locks.spin("desk");
    let first = spin.lock().await.unwrap();
    let second = tokio::spawn(spin.lock().into_future());
    Scrape::until(port, "one waits", |seen| seen.get("distlock_waiting", "spin") == 1.0).await;
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert_eq!(Scrape::now(port).await.get("distlock_held", "spin"), 1.0);
    locks.close().await;
    let seen = Scrape::now(port).await;
    assert_eq!(seen.get("distlock_held", "spin"), 0.0);
    assert_eq!(seen.get("distlock_hold_seconds_count", "spin"), 1.0);
    drop(second);

    // Nothing is held when a latch opens.
    let locks = Locks::memory();
    locks.latch("ready").wait().await.unwrap();
    let seen = Scrape::now(port).await;
    assert_eq!(seen.of("distlock_acquire_total", "latch", "acquired"), 1.0);
    assert_eq!(seen.get("distlock_held", "latch"), 0.0);
}

async fn several_at_once_count_as_one_request(port: u16) {
    let locks = Locks::memory();
    let both = locks.multi(["acct:1", "acct:2"]);
    let held = both.lock().await.unwrap();
    let seen = Scrape::now(port).await;
    assert_eq!(seen.get("distlock_held", "mutex"), 2.0);
    assert!(both.try_lock().await.unwrap().is_none());
    assert!(both.try_lock().wait(SOON).await.unwrap().is_none());
    let waiting = tokio::spawn(both.lock().into_future());
    Scrape::until(port, "one waits", |seen| seen.get("distlock_waiting", "multi") == 1.0).await;
    waiting.abort();
    let _ = waiting.await;
    held.unlock().await.unwrap();
    let seen = Scrape::now(port).await;
    for outcome in ["acquired", "busy", "timeout", "cancelled"] {
        assert_eq!(seen.of("distlock_acquire_total", "multi", outcome), 1.0, "{outcome}");
    }
    assert_eq!(seen.get("distlock_waiting", "multi"), 0.0);
    assert_eq!(seen.get("distlock_held", "mutex"), 0.0);
    assert_eq!(seen.sum("distlock_acquire_total", "mutex"), 0.0, "its members are no requests");
}

async fn what_the_watchdog_and_the_network_do(port: u16) {
    let server = Server::redis().await;
    let url = server.url();
    // Long enough to be renewed in time however busy the machine is.
    let locks = Locks::builder().url(&url).watchdog(Duration::from_secs(6)).connect();
    let locks = locks.await.unwrap();
    let held = locks.fenced("disk").lock().await.unwrap();
    let renewed = |seen: &Scrape| seen.get("distlock_renew_total", "fenced") >= 2.0;
    Scrape::until(port, "renewed", renewed).await;
    server.stop();
    let in_doubt = |seen: &Scrape| seen.get("distlock_suspect_total", "fenced") >= 1.0;
    Scrape::until(port, "in doubt", in_doubt).await;
    held.lost().await;
    // Whoever asks after the deadline is told by the clock, perhaps before the watchdog has counted it.
    let counted = |seen: &Scrape| {
        let [lost, held] =
            ["distlock_lost_total", "distlock_held"].map(|name| seen.get(name, "fenced"));
        (lost, held) == (1.0, 0.0)
    };
    Scrape::until(port, "lost, once, and not held any more", counted).await;
    locks.fenced("disk").try_lock().await.unwrap_err();
    server.cont();
    locks.fenced("disk").lock().wait(LONG).await.unwrap().unlock().await.unwrap();
    let answered = |seen: &Scrape| {
        let [acquired, failed] = ["acquired", "failed"]
            .map(|outcome| seen.of("distlock_acquire_total", "fenced", outcome));
        (acquired, failed) == (2.0, 1.0)
    };
    Scrape::until(port, "two acquired and one failed", answered).await;
}

async fn what_takes_long(port: u16) {
    let locks = Locks::builder().url("memory:slow").slow_hold(SOON).connect().await.unwrap();
    let held = locks.simple("report").lock().lease(LONG).await.unwrap();
    let slow = |seen: &Scrape| seen.get("distlock_slow_hold_total", "simple") == 1.0;
    Scrape::until(port, "it takes long", slow).await;
    held.unlock().await.unwrap();
}

/// As if every hold came about after an outage and without its replicas: a figure is shown once it has counted something.
#[derive(Debug)]
struct Troubled;

impl Observer for Troubled {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        if let Event::Entered = event {
            Metrics.observe(lock, Event::NotDurable);
            Metrics.observe(lock, Event::Reconnected);
        }
    }
}

async fn descriptions_and_units_are_there(port: u16) {
    let troubled = Locks::builder().url("memory:troubled").observer(Arc::new(Troubled));
    troubled.connect().await.unwrap().mutex("k").lock().await.unwrap().unlock().await.unwrap();
    let seen = Scrape::now(port).await;
    for (name, sort) in [
        ("distlock_acquire_total", "counter"),
        ("distlock_wait_seconds", "histogram"),
        ("distlock_hold_seconds", "histogram"),
        ("distlock_lost_total", "counter"),
        ("distlock_renew_total", "counter"),
        ("distlock_suspect_total", "counter"),
        ("distlock_slow_hold_total", "counter"),
        ("distlock_not_durable_total", "counter"),
        ("distlock_reconnect_total", "counter"),
        ("distlock_held", "gauge"),
        ("distlock_waiting", "gauge"),
    ] {
        assert!(seen.text().contains(&format!("# HELP {name} ")), "{name} is not described");
        assert!(seen.text().contains(&format!("# TYPE {name} {sort}\n")), "{name} is no {sort}");
    }
}
