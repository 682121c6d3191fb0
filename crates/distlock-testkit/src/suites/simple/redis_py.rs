//! Together with redis-py's `Lock`, in both directions. Skipped, visibly, where there is no Python with that package.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{ErrorKind, Locks};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::suites::times::STEADY;
use crate::{Server, assert_clean, redis_py};

const HOUR: Duration = Duration::from_secs(3600);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// Who holds it keeps the other out, and is seen by it.
pub async fn each_keeps_the_other_out(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let lock = open(&server).await.simple("k");
    let guard = lock.lock().lease(HOUR).await.expect("it is free");
    assert_eq!(python.ask("acquire k 60000 0").await, "busy");
    assert_eq!(python.ask("acquire k 60000 100").await, "busy");
    assert_eq!(python.ask("locked k").await, "True");
    assert_eq!(python.ask("owned k").await, "False");
    guard.unlock().await.expect("it was held");
    assert_eq!(python.ask("locked k").await, "False");

    assert_eq!(python.ask("acquire k 60000 0").await, "ok");
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    let busy = lock.lock().wait(ms(100)).await.expect_err("it is held");
    assert_eq!(busy.kind(), ErrorKind::WaitTimeout);
    let token = python.ask("token k").await;
    assert!(busy.to_string().contains(&token), "{busy}");
    let holder = lock.holder().await.expect("the server answers").expect("it is held");
    assert_eq!((holder.owner, holder.depth), (token, 1));
    let ttl = lock.ttl().await.expect("the server answers").expect("it is held");
    assert!(ttl > Duration::from_secs(50) && ttl <= Duration::from_secs(60), "{ttl:?}");
    assert_eq!(python.ask("release k").await, "ok");
    assert!(lock.try_lock().await.expect("the server answers").is_some());
    assert_clean(&server, "k").await;
}

/// Who waits gets in when the other releases.
pub async fn each_gets_in_after_the_other(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let lock = open(&server).await.simple("k");
    for _ in 0..3 {
        let guard = lock.lock().lease(HOUR).await.expect("it is free");
        python.send("acquire k 60000 20000");
        tokio::time::sleep(ms(50)).await;
        guard.unlock().await.expect("it was held");
        assert_eq!(python.line().await.as_deref(), Some("ok"));

        let waiter = tokio::spawn(lock.lock().into_future());
        tokio::time::sleep(ms(50)).await;
        assert!(!waiter.is_finished());
        assert_eq!(python.ask("release k").await, "ok");
        let next = timeout(Duration::from_secs(5), waiter).await.expect("it asks again");
        next.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    }
    assert_clean(&server, "k").await;
}

/// Neither can release, extend or renew what the other holds.
pub async fn neither_touches_what_the_other_holds(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let locks = open(&server).await;
    let lock = locks.simple("k");
    // Python's is taken away, and is ours then.
    assert_eq!(python.ask("acquire k 60000 0").await, "ok");
    assert!(lock.force_unlock().await.expect("the server answers"));
    let guard = lock.lock().lease(HOUR).await.expect("it is free");
    for late in ["extend k 1000", "reacquire k", "release k"] {
        assert_eq!(python.ask(late).await, "LockNotOwnedError", "{late}");
    }
    assert!(lock.is_held_by(guard.owner()).await.expect("the server answers"));
    assert!(server.pttl("k").await > 3_500_000);

    // Ours is taken away, and is Python's then.
    server.cli(&["DEL", "k"]).await;
    assert_eq!(python.ask("acquire k 60000 0").await, "ok");
    let late = guard.extend(HOUR).await.expect_err("it is Python's");
    assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
    let stranger = lock.unlock(&locks.owner()).await.expect_err("it is Python's");
    assert_eq!(stranger.kind(), ErrorKind::NotHeld);
    assert_eq!(guard.unlock().await.expect_err("it is Python's").kind(), ErrorKind::Lost);
    assert_eq!(python.ask("owned k").await, "True");
    assert!(server.pttl("k").await <= 60_000);
    assert_eq!(python.ask("release k").await, "ok");
    assert_clean(&server, "k").await;
}

/// Our watchdog keeps Python out for longer than a lease; Python's extensions keep us out.
pub async fn whoever_renews_keeps_it(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let locks = Locks::builder().url(server.url()).watchdog(STEADY).connect().await;
    let lock = locks.expect("the server answers").simple("k");
    let guard = lock.lock().await.expect("it is free");
    assert_eq!(python.ask("acquire k 60000 7000").await, "busy");
    assert!(!guard.is_lost());
    guard.unlock().await.expect("it was held");

    assert_eq!(python.ask("acquire k 6000 0").await, "ok");
    let since = Instant::now();
    while since.elapsed() < STEADY * 7 / 6 {
        let renewed = if since.elapsed() < STEADY / 2 { "extend k 6000" } else { "reacquire k" };
        assert_eq!(python.ask(renewed).await, "ok");
        let wait = lock.try_lock().wait(ms(300)).await.expect("the server answers");
        assert!(wait.is_none(), "two are inside");
    }
    assert_eq!(python.ask("release k").await, "ok");
    assert_clean(&server, "k").await;
}

/// A lease that ends lets the other in, and its holder is told when it comes back.
pub async fn whoever_is_too_slow_loses_it(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let lock = open(&server).await.simple("k");
    assert_eq!(python.ask("acquire k 300 0").await, "ok");
    let next = lock.lock().wait(Duration::from_secs(20)).lease(HOUR).await.expect("it ends");
    assert_eq!(python.ask("release k").await, "LockNotOwnedError");
    next.unlock().await.expect("it was held");

    let guard = lock.lock().lease(ms(300)).await.expect("it is free");
    assert_eq!(python.ask("acquire k 60000 20000").await, "ok");
    assert!(guard.is_lost(), "two are inside");
    assert_eq!(guard.unlock().await.expect_err("it is Python's").kind(), ErrorKind::Lost);
    assert_eq!(python.ask("release k").await, "ok");

    // A process that is killed loses it at the end of its lease.
    assert_eq!(python.ask("acquire k 500 0").await, "ok");
    python.kill();
    let next = lock.lock().wait(Duration::from_secs(20)).await.expect("it ends");
    next.unlock().await.expect("it was held");
    assert_clean(&server, "k").await;
}

/// Both count under one lock by reading and writing back: none is lost.
pub async fn both_count_to_the_same_number(server: Server) {
    let (mut one, mut two) = match (redis_py(&server.url()).await, redis_py(&server.url()).await) {
        (Some(one), Some(two)) => (one, two),
        _ => return,
    };
    one.send("count k 60 n");
    two.send("count k 60 n");
    let (locks, server) = (open(&server).await, std::sync::Arc::new(server));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (lock, server) = (locks.simple("k"), server.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = lock.lock().await.expect("it gets free");
                let count = server.ask::<Option<u64>>(&["GET", "n"]).await.unwrap_or_default();
                server.cli(&["SET", "n", &(count + 1).to_string()]).await;
                guard.unlock().await.expect("it was held");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    for python in [&mut one, &mut two] {
        assert_eq!(python.wait_for_within("ok", Duration::from_secs(60)).await, "ok");
    }
    assert_eq!(server.ask::<u64>(&["GET", "n"]).await, 180);
    assert_clean(&server, "k").await;
}

/// A lock of Python's without a timeout lives for ever: that is no lock to wait for.
pub async fn a_lock_for_ever_is_a_conflict(server: Server) {
    let Some(mut python) = redis_py(&server.url()).await else { return };
    let lock = open(&server).await.simple("k");
    assert_eq!(python.ask("acquire k 0 0").await, "ok");
    let error = lock.lock().wait(Duration::from_secs(1)).await.expect_err("it never ends");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(python.ask("release k").await, "ok");
    lock.lock().await.expect("it is free").unlock().await.expect("it was held");
}
