//! A holder learns that it lost its lock before anybody else can have it, and trouble that passes costs no lock.
#![cfg(feature = "redis")]

use std::collections::HashSet;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Event, Guard, Locks, Observer, State, Subject};
use distlock_testkit::proxy::{Match, Proxy};
use distlock_testkit::{Flavor, Server, Worker, assert_clean, worker};

/// The watchdog's time-out where a test waits for a loss.
const SHORT: Duration = Duration::from_secs(1);
/// Where a hold must outlive a reply that does not come, which takes a second to be noticed.
const LONGER: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(30);
/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(8);

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

#[tokio::test]
async fn a_lock_that_an_operator_deleted_is_lost_at_the_next_renewal() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONGER).await;
    let deleted = locks.mutex("deleted").lock().await.unwrap();
    let spared = locks.mutex("spared").lock().await.unwrap();
    let since = Instant::now();
    server.cli(&["DEL", "deleted"]).await;
    assert_lost(deleted).await;
    assert!(since.elapsed() < LONGER, "not by the deadline: by the answer");
    assert_eq!(log.count("deleted", Event::Lost), 1);
    assert_eq!(spared.state(), State::Held);

    server.cli(&["FLUSHALL"]).await;
    assert_lost(spared).await;
    assert_eq!(log.count("spared", Event::Lost), 1);
    assert_clean(&server, "").await;
}

#[tokio::test]
async fn a_lock_that_another_process_freed_by_force_is_lost_and_not_taken_back() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), SHORT).await;
    let (other, _) = connect(&server.url(), SHORT).await;
    let guard = locks.mutex("forced").lock().await.unwrap();
    assert!(other.mutex("forced").force_unlock().await.unwrap());
    let next = other.mutex("forced").lock().await.unwrap();
    assert_lost(guard).await;
    assert_eq!(log.count("forced", Event::Lost), 1);
    // The next holder was never in danger.
    let holders = server.hgetall("forced").await;
    assert_eq!(holders.keys().collect::<Vec<_>>(), [&next.owner().to_string()]);
    next.unlock().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_was_freed_by_force_in_the_same_process_is_lost_at_once() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONG).await;
    let guard = locks.mutex("forced").lock().await.unwrap();
    assert!(locks.mutex("forced").force_unlock().await.unwrap());
    assert!(guard.is_lost(), "no renewal is due for ten seconds");
    assert_lost(guard).await;
    assert_eq!(log.count("forced", Event::Renewed), 0);
    assert!(!locks.mutex("forced").force_unlock().await.unwrap());
}

#[tokio::test]
async fn work_under_the_lock_is_dropped_when_the_lock_is_lost() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), SHORT).await;
    let guard = locks.mutex("work").lock().await.unwrap();
    let (alive, gone) = tokio::sync::oneshot::channel::<()>();
    let work = async move {
        let _alive = alive;
        std::future::pending::<()>().await;
    };
    server.cli(&["DEL", "work"]).await;
    let error = soon("stopped", guard.while_held(work)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    gone.await.unwrap_err();
}

#[tokio::test]
async fn a_lease_of_its_own_ends_on_time_and_is_not_renewed() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), Duration::from_millis(300)).await;
    let (other, _) = connect(&server.url(), SHORT).await;
    let since = Instant::now();
    let lease = Duration::from_millis(900);
    let guard = locks.mutex("leased").lock().lease(lease).await.unwrap();
    let next = soon("free", other.mutex("leased").lock()).await.unwrap();
    assert!(guard.is_lost(), "the other one is in");
    assert!(since.elapsed() >= lease);
    assert_lost(guard).await;
    assert_eq!(log.count("leased", Event::Renewed), 0);
    next.unlock().await.unwrap();
}

/// The holder's own process decides, by its own clock, whatever the network does.
async fn lost_by_the_clock(guard: Guard, log: &Log, since: Instant) {
    let name = guard.name().to_owned();
    soon("lost() ends", guard.lost()).await;
    let told = Instant::now();
    // A renewal was sent before it was told, so the deadline is no later than this.
    let sent = log.last(&name, Event::Renewed).unwrap_or(since);
    let late = told.saturating_duration_since(sent + SHORT);
    assert!(late < Duration::from_millis(500), "told {late:?} after the end of the lease");
    assert_lost(guard).await;
    assert_eq!(log.count(&name, Event::Lost), 1);
}

#[tokio::test]
async fn a_server_that_died_costs_the_lock_by_its_deadline() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), SHORT).await;
    let guard = locks.mutex("dead").lock().await.unwrap();
    log.renewed("dead", 1).await;
    server.kill();
    lost_by_the_clock(guard, &log, Instant::now()).await;
    assert!(log.count("dead", Event::Suspect) >= 1);
}

#[tokio::test]
async fn a_server_that_froze_costs_the_lock_by_its_deadline() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), SHORT).await;
    let guard = locks.mutex("frozen").lock().await.unwrap();
    let since = Instant::now();
    server.stop();
    lost_by_the_clock(guard, &log, since).await;
    server.cont();
    let again = soon("free again", locks.mutex("frozen").lock()).await.unwrap();
    log.renewed("frozen", 2).await;
    again.unlock().await.unwrap();
    assert_clean(&server, "frozen").await;
}

#[tokio::test]
async fn a_holder_in_a_black_hole_has_lost_before_anybody_else_is_in() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), SHORT).await;
    let (other, _) = connect(&server.url(), SHORT).await;
    let guard = locks.mutex("hole").lock().await.unwrap();
    log.renewed("hole", 1).await;
    let since = Instant::now();
    proxy.blackhole(true);
    let next = soon("free", other.mutex("hole").lock()).await.unwrap();
    assert!(guard.is_lost(), "the other one is in");
    lost_by_the_clock(guard, &log, since).await;
    // What was sent into the hole arrives now, and must not disturb the next holder.
    proxy.heal().await;
    soon("works again", locks.mutex("hole2").lock()).await.unwrap().unlock().await.unwrap();
    assert_eq!(next.state(), State::Held);
    next.unlock().await.unwrap();
    assert_clean(&server, "hole").await;
}

async fn start_worker(url: &str, watchdog: Duration) -> Worker {
    let mut process = worker("worker").start().await;
    process.wait_for_within("ready", Duration::from_secs(60)).await;
    let answer = process.ask(&format!("connect {url} {}", watchdog.as_millis())).await;
    assert_eq!(answer, "connected");
    process
}

#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_knows_it_when_it_goes_on() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), SHORT).await;
    let mut holder = start_worker(&server.url(), SHORT).await;
    assert!(holder.ask("lock stopped").await.starts_with("locked "));
    assert_eq!(holder.ask("watch").await, "watching");
    holder.stop();
    let next = soon("free", locks.mutex("stopped").lock()).await.unwrap();
    holder.send("state");
    holder.send("unlock");
    holder.cont();
    // Its very first look after the stop, its release, and what it was told: the last in any order with the others.
    let mut said = Vec::new();
    while said.len() < 3 {
        said.push(holder.line().await.expect("it goes on"));
    }
    let is_said = |start: &str| said.iter().any(|line| line.starts_with(start));
    assert!(is_said("state Lost 0"), "{said:?}");
    assert!(is_said("error Lost"), "{said:?}");
    assert!(is_said("lost stopped"), "{said:?}");
    assert_eq!(next.state(), State::Held);
    let holders = server.hgetall("stopped").await;
    assert_eq!(holders.keys().collect::<Vec<_>>(), [&next.owner().to_string()]);
    next.unlock().await.unwrap();
    // Its watch may have its say before the answer.
    holder.send("lock stopped");
    holder.wait_for("locked ").await;
    assert!(holder.finish().await.success());
    assert_clean(&server, "stopped").await;
}

#[tokio::test]
async fn the_lock_of_a_holder_that_was_killed_is_free_after_its_lease() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), SHORT).await;
    let mut holder = start_worker(&server.url(), SHORT).await;
    assert!(holder.ask("lock killed").await.starts_with("locked "));
    let waiting = tokio::spawn(locks.mutex("killed").lock().into_future());
    eventually("somebody waits", async || !server.pubsub_channels().await.is_empty()).await;
    holder.kill();
    let left = server.pttl("killed").await;
    assert!(left > 0 && left <= SHORT.as_millis() as i64, "{left} ms left");
    let guard = soon("free", waiting).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    assert_clean(&server, "killed").await;
}

#[tokio::test]
async fn a_network_that_comes_back_in_time_costs_nothing() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), LONGER).await;
    let guard = locks.mutex("back").lock().await.unwrap();
    proxy.blackhole(true);
    eventually("in doubt", async || guard.state() == State::Suspect).await;
    proxy.heal().await;
    eventually("held again", async || guard.state() == State::Held).await;
    log.renewed("back", 1).await;
    assert_eq!(log.count("back", Event::Lost), 0);
    assert_eq!(log.count("back", Event::Suspect), 1);
    assert_eq!(server.hgetall("back").await.len(), 1);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn scripts_that_were_flushed_and_a_server_that_pauses_cost_nothing() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONGER).await;
    let guard = locks.mutex("calm").lock().await.unwrap();
    log.renewed("calm", 1).await;
    server.cli(&["SCRIPT", "FLUSH"]).await;
    log.renewed("calm", 1).await;
    server.cli(&["CLIENT", "PAUSE", "600", "ALL"]).await;
    log.renewed("calm", 1).await;
    assert_eq!(guard.state(), State::Held);
    server.cli(&["SCRIPT", "FLUSH"]).await;
    guard.unlock().await.unwrap();
    assert_eq!(log.count("calm", Event::Suspect) + log.count("calm", Event::Lost), 0);
    assert_clean(&server, "calm").await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_in_doubt_and_not_lost() {
    let server = Server::builder(Flavor::Redis).args(["--lua-time-limit", "50"]).start().await;
    let server = Arc::new(server);
    let (locks, log) = connect(&server.url(), LONGER).await;
    let guard = locks.mutex("busy").lock().await.unwrap();
    let endless = server.clone();
    let script = tokio::spawn(async move {
        endless.try_cli(&["EVAL", "while true do end", "0"]).await.unwrap_err();
    });
    eventually("in doubt", async || guard.state() == State::Suspect).await;
    // An acquisition is told of it too; it happens when the server is free.
    let waiting = tokio::spawn(locks.mutex("busy2").lock().into_future());
    server.cli(&["SCRIPT", "KILL"]).await;
    script.await.unwrap();
    eventually("held again", async || guard.state() == State::Held).await;
    log.renewed("busy", 1).await;
    assert_eq!(log.count("busy", Event::Lost), 0);
    guard.unlock().await.unwrap();
    soon("acquired", waiting).await.unwrap().unwrap().unlock().await.unwrap();
    assert_clean(&server, "busy").await;
}

#[tokio::test]
async fn a_server_out_of_memory_renews_and_releases_but_gives_no_new_lock() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let (locks, log) = connect(&server.url(), SHORT).await;
        let me = locks.owner();
        let guard = locks.mutex("full").lock().owner(&me).await.unwrap();
        let inner = locks.mutex("full").lock().owner(&me).await.unwrap();
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let refused = soon("an answer", locks.mutex("refused").try_lock()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{flavor:?}: {refused}");
        assert_eq!(server.keys("*").await, ["full"], "{flavor:?}");
        log.renewed("full", 2).await;
        inner.unlock().await.unwrap();
        assert_eq!(guard.state(), State::Held, "{flavor:?}");
        guard.unlock().await.unwrap();
        assert!(!server.exists("full").await, "{flavor:?}");
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await;
        locks.mutex("refused").lock().await.unwrap().unlock().await.unwrap();
        assert_clean(&server, "").await;
    }
}

#[test]
fn a_runtime_that_is_blocked_for_longer_than_the_watchdog_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::redis().await;
        let (locks, log) = connect(&server.url(), SHORT).await;
        let guard = locks.mutex("blocked").lock().await.unwrap();
        std::thread::sleep(SHORT * 2);
        assert_eq!(guard.state(), State::Held);
        assert!(log.count("blocked", Event::Renewed) >= 3);
        guard.unlock().await.unwrap();
        assert_clean(&server, "blocked").await;
    });
}

#[tokio::test]
async fn a_process_whose_runtime_is_blocked_keeps_its_lock_from_others() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), SHORT).await;
    let mut holder = start_worker(&server.url(), SHORT).await;
    assert!(holder.ask("lock kept").await.starts_with("locked "));
    holder.send("block 1800");
    let got = locks.mutex("kept").try_lock().wait(Duration::from_millis(1500)).await.unwrap();
    assert!(got.is_none());
    assert_eq!(holder.line().await.as_deref(), Some("blocked"));
    assert!(holder.ask("state").await.starts_with("state Held"));
    assert_eq!(holder.ask("unlock").await, "unlocked");
}

/// redisson#7272: the cancellation of a renewal overtakes its scheduling, and the key is renewed for ever.
#[tokio::test]
async fn redisson_7272_nothing_is_renewed_after_unlock_has_returned() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), Duration::from_millis(600)).await;
    let released: Arc<Mutex<HashSet<Vec<u8>>>> = Arc::default();
    let seen = released.clone();
    let late = proxy.watch(Match::command("EVALSHA").and(Match::by(move |request| {
        let released = seen.lock().expect("nobody panics here");
        request.args().iter().any(|arg| released.contains(arg))
    })));
    let tasks: Vec<_> = (0..1000)
        .map(|i| {
            let (locks, released) = (locks.clone(), released.clone());
            tokio::spawn(async move {
                let name = format!("race-{i}");
                let guard = locks.mutex(&name).lock().await.unwrap();
                // Around the first renewal, which is due after 200 ms.
                tokio::time::sleep(Duration::from_millis(150 + i % 100)).await;
                guard.unlock().await.unwrap();
                released.lock().unwrap().insert(name.into_bytes());
            })
        })
        .collect();
    for task in tasks {
        soon("unlocked", task).await.unwrap();
    }
    assert!(log.events().iter().any(|(.., event)| *event == Event::Renewed), "no race");
    // Longer than a renewal's period: what is to come has come.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(late.hits(), 0);
    assert_clean(&server, "race").await;
}

/// redisson#2714: an interrupted `tryLock` is renewed for ever.
#[tokio::test]
async fn redisson_2714_a_cancelled_try_lock_is_not_renewed() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), Duration::from_millis(600)).await;
    locks.mutex("warm").lock().await.unwrap().unlock().await.unwrap();
    proxy.latency(Duration::from_millis(5));
    let calls: Vec<_> = (0..100)
        .map(|i| {
            let mutex = locks.mutex(format!("cancelled-{i}"));
            tokio::spawn(async move {
                let call = mutex.try_lock().wait(Duration::from_secs(1)).into_future();
                // Before, at and after the answer.
                let _ = tokio::time::timeout(Duration::from_micros(i * 150), call).await;
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    proxy.latency(Duration::ZERO);
    eventually("all free", async || server.keys("cancelled*").await.is_empty()).await;
    log.events().clear();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!log.events().iter().any(|(.., event)| *event == Event::Renewed));
    assert_clean(&server, "cancelled").await;
}

/// redisson#2515, #3194, #3712: after a connection error the watchdog is dead, for this lock or for the next of the name.
#[tokio::test]
async fn redisson_2515_3194_3712_the_watchdog_survives_connection_errors() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), SHORT).await;
    let guard = locks.mutex("dog").lock().await.unwrap();
    for _ in 0..3 {
        log.renewed("dog", 1).await;
        proxy.reset_all().await;
    }
    log.renewed("dog", 2).await;
    assert_eq!(guard.state(), State::Held);

    proxy.refuse(true).await;
    proxy.reset_all().await;
    soon("too long an outage", guard.lost()).await;
    proxy.refuse(false).await;
    let again = soon("another hold", locks.mutex("dog").lock()).await.unwrap();
    log.renewed("dog", 3).await;
    assert_eq!(again.state(), State::Held);
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    again.unlock().await.unwrap();
    assert_clean(&server, "dog").await;
}

/// redisson#6483, #6303: an exception in one entry ends the renewal of all.
#[tokio::test]
async fn redisson_6483_6303_one_poisoned_entry_does_not_stop_the_others() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), SHORT).await;
    let mut guards = Vec::new();
    for i in 0..200 {
        guards.push(locks.mutex(format!("many-{i}")).lock().await.unwrap());
    }
    server.cli(&["SET", "many-100", "poison"]).await;
    let poisoned = guards.remove(100);
    soon("lost", poisoned.lost()).await;
    log.renewed("many-99", 3).await;
    log.renewed("many-0", 1).await;
    for guard in guards {
        assert_eq!(guard.state(), State::Held, "{}", guard.name());
        guard.unlock().await.unwrap();
    }
    assert_eq!(poisoned.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    // Somebody else's value stays as it is.
    assert_eq!(server.keys("*").await, ["many-100"]);
    assert_eq!(server.ask::<String>(&["GET", "many-100"]).await, "poison");
}

/// redisson#3521: the task that held the lock has died, and the renewal goes on.
#[tokio::test]
async fn redisson_3521_a_holder_that_panicked_holds_nothing() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONG).await;
    let mutex = locks.mutex("panicked");
    let task = tokio::spawn(async move {
        let _guard = mutex.lock().await.unwrap();
        std::panic::resume_unwind(Box::new("the holder's own trouble"));
    });
    task.await.unwrap_err();
    eventually("released", async || !server.exists("panicked").await).await;
    assert_eq!(log.count("panicked", Event::Renewed), 0);
    locks.mutex("panicked").try_lock().await.unwrap().expect("free").unlock().await.unwrap();
    assert_clean(&server, "panicked").await;
}

/// The same for a whole runtime that ends with the guard in one of its tasks.
#[test]
fn a_runtime_that_ends_with_a_guard_in_it_leaves_no_lock() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (main, short) = (runtime(), runtime());
    let server = main.block_on(Server::redis());
    let (locks, _) = main.block_on(connect(&server.url(), LONG));
    short.block_on(async {
        let guard = locks.mutex("ended").lock().await.unwrap();
        tokio::spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
    });
    assert!(main.block_on(server.exists("ended")));
    drop(short);
    main.block_on(async {
        eventually("released", async || !server.exists("ended").await).await;
        assert_clean(&server, "ended").await;
    });
}
