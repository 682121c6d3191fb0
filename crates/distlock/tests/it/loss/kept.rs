//! What does not cost a lock, and what others were bitten by.

use super::*;

#[tokio::test]
async fn a_server_out_of_memory_renews_and_releases_but_gives_no_new_lock() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let (locks, log) = connect(&server.url(), STEADY).await;
        let me = locks.owner();
        let guard = locks.mutex("full").lock().owner(&me).await.unwrap();
        let inner = locks.mutex("full").lock().owner(&me).await.unwrap();
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let refused = soon("an answer", locks.mutex("refused").try_lock()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{flavor:?}: {refused}");
        assert_eq!(server.keys("*").await, ["full"], "{flavor:?}");
        log.renewed("full", 2).await;
        inner.unlock().await.unwrap();
        eventually("held", async || guard.state() == State::Held).await;
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
        let (locks, log) = connect(&server.url(), STEADY).await;
        let guard = locks.mutex("blocked").lock().await.unwrap();
        let since = Instant::now();
        // Nobody runs the runtime for longer than the watchdog's time, nor before it was renewed as often as that takes.
        while since.elapsed() < STEADY * 3 / 2
            || log.count("blocked", Event::Renewed) < 3
            || guard.state() == State::Suspect
        {
            assert!(since.elapsed() < SOON, "not renewed three times within {SOON:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(guard.state(), State::Held);
        guard.unlock().await.unwrap();
        assert_clean(&server, "blocked").await;
    });
}

#[tokio::test]
async fn a_process_whose_runtime_is_blocked_keeps_its_lock_from_others() {
    let server = Server::redis().await;
    let (locks, _) = connect(&server.url(), STEADY).await;
    let mut holder = start_worker(&server.url(), STEADY).await;
    assert!(holder.ask("lock kept").await.starts_with("locked "));
    holder.send("block 8000");
    let got = locks.mutex("kept").try_lock().wait(Duration::from_millis(7000)).await.unwrap();
    assert!(got.is_none());
    assert_eq!(holder.line().await.as_deref(), Some("blocked"));
    eventually("held", async || holder.ask("state").await.starts_with("state Held")).await;
    assert_eq!(holder.ask("unlock").await, "unlocked");
}

/// redisson#7272: the cancellation of a renewal overtakes its scheduling, and the key is renewed for ever.
#[tokio::test]
async fn redisson_7272_nothing_is_renewed_after_unlock_has_returned() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), STEADY).await;
    let released: Arc<Mutex<HashSet<Vec<u8>>>> = Arc::default();
    let seen = released.clone();
    let late = proxy.watch(Match::command("EVALSHA").and(Match::by(move |request| {
        let released = seen.lock().expect("nobody panics here");
        request.args().iter().any(|arg| released.contains(arg))
    })));
    let mut rounds = 0..5;
    // If the watchdog stands still in that moment all are gone before it comes: there was no race.
    while !log.events().iter().any(|(.., event)| *event == Event::Renewed) {
        let round = rounds.next().expect("a race");
        let tasks: Vec<_> = (0..1000)
            .map(|i| {
                let (locks, released) = (locks.clone(), released.clone());
                tokio::spawn(async move {
                    let name = format!("race-{round}-{i}");
                    let guard = locks.mutex(&name).lock().await.unwrap();
                    // Around the first renewal, which is due after two seconds.
                    tokio::time::sleep(Duration::from_millis(1950 + i % 100)).await;
                    guard.unlock().await.unwrap();
                    released.lock().unwrap().insert(name.into_bytes());
                })
            })
            .collect();
        for task in tasks {
            soon("unlocked", task).await.unwrap();
        }
    }
    // Longer than a renewal's period: what is to come has come.
    tokio::time::sleep(STEADY / 3 + Duration::from_millis(300)).await;
    assert_eq!(late.hits(), 0);
    assert_clean(&server, "race").await;
}

/// redisson#2714: an interrupted `tryLock` is renewed for ever.
#[tokio::test]
async fn redisson_2714_a_cancelled_try_lock_is_not_renewed() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let (locks, log) = connect(&proxy.url(), Duration::from_millis(600)).await;
    locks.mutex("warm").lock().lease(LONG).await.unwrap().unlock().await.unwrap();
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
    let (locks, log) = connect(&proxy.url(), STEADY).await;
    let guard = locks.mutex("dog").lock().await.unwrap();
    for _ in 0..3 {
        log.renewed("dog", 1).await;
        proxy.reset_all().await;
    }
    log.renewed("dog", 2).await;
    eventually("held", async || guard.state() == State::Held).await;

    proxy.refuse(true).await;
    proxy.reset_all().await;
    soon("too long an outage", guard.lost()).await;
    proxy.refuse(false).await;
    let again = soon("another hold", locks.mutex("dog").lock()).await.unwrap();
    log.renewed("dog", 3).await;
    eventually("held again", async || again.state() == State::Held).await;
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    again.unlock().await.unwrap();
    assert_clean(&server, "dog").await;
}

/// redisson#6483, #6303: an exception in one entry ends the renewal of all.
#[tokio::test]
async fn redisson_6483_6303_one_poisoned_entry_does_not_stop_the_others() {
    let server = Server::redis().await;
    let (locks, log) = connect(&server.url(), STEADY).await;
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
        eventually(guard.name(), async || guard.state() == State::Held).await;
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
