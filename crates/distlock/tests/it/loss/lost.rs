//! Locks that are taken away, or that end by the clock.

use super::*;

/// With this much less time a reply may be missing that was on its way.
const STALL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_lock_that_an_operator_deleted_is_lost_at_the_next_renewal() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONGER).await;
    let deleted = locks.mutex("deleted").lock().await.unwrap();
    let spared = locks.mutex("spared").lock().await.unwrap();
    let since = Stopwatch::start();
    server.cli(&["DEL", "deleted"]).await;
    assert_lost(deleted).await;
    assert!(since.elapsed() < LONGER, "not by the deadline: by the answer");
    assert_eq!(log.count("deleted", Event::Lost), 1);
    eventually("the other one is held", async || spared.state() == State::Held).await;

    server.cli(&["FLUSHALL"]).await;
    assert_lost(spared).await;
    assert_eq!(log.count("spared", Event::Lost), 1);
    assert_clean(&server, "").await;
}

#[tokio::test]
async fn a_lock_that_another_process_freed_by_force_is_lost_and_not_taken_back() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), STEADY).await;
    let (other, _) = connect(&server.url(), STEADY).await;
    let guard = locks.mutex("forced").lock().await.unwrap();
    assert!(other.mutex("forced").force_unlock().await.unwrap());
    let next = other.mutex("forced").lock().await.unwrap();
    assert_lost(guard).await;
    assert_eq!(log.count("forced", Event::Lost), 1);
    // The next holder was never in danger.
    let holders = server.hgetall("forced").await;
    assert_eq!(holders.keys().collect::<Vec<_>>(), [&next.stay().to_string()]);
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
    let (other, _) = connect(&server.url(), STEADY).await;
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

#[tokio::test]
async fn a_server_that_died_costs_the_lock_by_its_deadline() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), STEADY).await;
    let guard = locks.mutex("dead").lock().await.unwrap();
    log.renewed("dead", 1).await;
    let watch = Stopwatch::start();
    server.kill();
    lost_by_the_clock(guard, &log, Instant::now(), &watch).await;
    assert!(log.count("dead", Event::Suspect) >= 1);
}

#[tokio::test]
async fn a_server_that_froze_costs_the_lock_by_its_deadline() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), STEADY).await;
    let guard = locks.mutex("frozen").lock().await.unwrap();
    let (since, watch) = (Instant::now(), Stopwatch::start());
    server.stop();
    lost_by_the_clock(guard, &log, since, &watch).await;
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
    let (locks, log) = connect(&proxy.url(), STEADY).await;
    let (other, _) = connect(&server.url(), STEADY).await;
    let guard = locks.mutex("hole").lock().await.unwrap();
    log.renewed("hole", 1).await;
    let (since, watch) = (Instant::now(), Stopwatch::start());
    proxy.blackhole(true);
    let next = soon("free", other.mutex("hole").lock()).await.unwrap();
    assert!(guard.is_lost(), "the other one is in");
    lost_by_the_clock(guard, &log, since, &watch).await;
    // What was sent into the hole arrives now, and must not disturb the next holder.
    proxy.heal().await;
    soon("works again", locks.mutex("hole2").lock()).await.unwrap().unlock().await.unwrap();
    eventually("held by the next one", async || next.state() == State::Held).await;
    next.unlock().await.unwrap();
    assert_clean(&server, "hole").await;
}

#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_knows_it_when_it_goes_on() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), STEADY).await;
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
    eventually("held by the next one", async || next.state() == State::Held).await;
    let holders = server.hgetall("stopped").await;
    assert_eq!(holders.keys().collect::<Vec<_>>(), [&next.stay().to_string()]);
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
    let (locks, _) = connect(&server.url(), STEADY).await;
    let mut holder = start_worker(&server.url(), STEADY).await;
    assert!(holder.ask("lock killed").await.starts_with("locked "));
    let waiting = tokio::spawn(locks.mutex("killed").lock().into_future());
    eventually("somebody waits", async || !server.pubsub_channels().await.is_empty()).await;
    holder.kill();
    let left = server.pttl("killed").await;
    assert!(left > 0 && left <= STEADY.as_millis() as i64, "{left} ms left");
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
    let watch = Stopwatch::start();
    proxy.blackhole(true);
    eventually("in doubt", async || guard.state() == State::Suspect).await;
    proxy.heal().await;
    eventually("held again", async || guard.state() == State::Held).await;
    log.renewed("back", 1).await;
    assert_eq!(log.count("back", Event::Lost), 0);
    // Once, unless the machine gave cause for another.
    let doubts = log.count("back", Event::Suspect);
    assert!(doubts == 1 || watch.stalled() > STALL, "{doubts} doubts");
    assert_eq!(server.hgetall("back").await.len(), 1);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn scripts_that_were_flushed_and_a_server_that_pauses_cost_nothing() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), LONGER).await;
    let guard = locks.mutex("calm").lock().await.unwrap();
    let watch = Stopwatch::start();
    log.renewed("calm", 1).await;
    server.cli(&["SCRIPT", "FLUSH"]).await;
    log.renewed("calm", 1).await;
    server.cli(&["CLIENT", "PAUSE", "600", "ALL"]).await;
    log.renewed("calm", 1).await;
    eventually("held", async || guard.state() == State::Held).await;
    server.cli(&["SCRIPT", "FLUSH"]).await;
    guard.unlock().await.unwrap();
    assert_eq!(log.count("calm", Event::Lost), 0);
    let doubts = log.count("calm", Event::Suspect);
    assert!(doubts == 0 || watch.stalled() > STALL, "{doubts} doubts");
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
