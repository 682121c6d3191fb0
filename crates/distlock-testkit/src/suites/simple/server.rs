//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{ErrorKind, Locks};
use tokio::time::timeout;

use crate::suites::Recorder;
use crate::suites::times::STEADY;
use crate::{Server, assert_clean};

crate::suites::exclusive::exclusive_server!(simple);

const HOUR: Duration = Duration::from_secs(3600);

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// One round trip in, one out; and what stands there is what everybody's hand-made lock is.
pub async fn an_uncontended_lock_costs_two_commands(server: Server) {
    let locks = open(&server).await;
    let lock = locks.simple("k");
    lock.lock().await.expect("it is free").unlock().await.expect("it was held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        lock.lock().await.expect("it is free").unlock().await.expect("it was held");
    }
    assert_eq!(server.calls("evalsha").await, 20);
    let guard = lock.lock().lease(HOUR).await.expect("it is free");
    assert_eq!(server.keys("*").await, ["k"]);
    assert_eq!(server.ask::<String>(&["GET", "k"]).await, guard.stay().to_string());
    assert!(server.pttl("k").await > 3_500_000);
    guard.unlock().await.expect("it was held");
    assert_eq!(server.keys("*").await, [""; 0]);
}

/// Nothing is published and nothing subscribed, so that it works for a user who may do neither; waiting included.
pub async fn it_works_where_pub_sub_is_forbidden(server: Server) {
    let can = "+hello +ping +client +evalsha +script|load +set +get +pexpire +pttl +del";
    let mut user = vec!["ACL", "SETUSER", "mute", "on", ">word", "~*", "-@all"];
    user.extend(can.split(' '));
    server.cli(&user).await;
    let url = format!("redis://mute:word@{}", server.addr());
    let seen = Recorder::new();
    let here = Locks::builder().url(&url).watchdog(STEADY).observer(seen.clone());
    let here = here.connect().await;
    let (here, elsewhere) = (here.expect("it may"), Locks::connect(&url).await.expect("it may"));
    server.reset_stats().await;
    for waiting in [&elsewhere, &here] {
        let guard = here.simple("k").lock().await.expect("it is free");
        let waiter = tokio::spawn(waiting.simple("k").lock().into_future());
        let so_far = seen.count("k", "renewed");
        seen.renewed("k", so_far + 1).await;
        assert!(!waiter.is_finished() && !guard.is_lost());
        guard.unlock().await.expect("it was held");
        let next = timeout(Duration::from_secs(10), waiter).await.expect("it asks again");
        next.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    }
    let guard = here.simple("k").lock().await.expect("it is free");
    assert!(here.simple("k").force_unlock().await.expect("it may"));
    assert!(guard.is_lost());
    for command in ["publish", "spublish", "subscribe", "ssubscribe", "psubscribe"] {
        let stats = server.command_stats().await.get(command).copied().unwrap_or_default();
        assert_eq!((stats.calls, stats.rejected), (0, 0), "{command}");
    }
    assert_clean(&server, "k").await;
}

/// Whatever else stands under the name is left alone.
pub async fn what_is_no_such_lock_is_a_conflict(server: Server) {
    let locks = open(&server).await;
    server.cli(&["SET", "value", "for ever"]).await;
    server.cli(&["RPUSH", "list", "x"]).await;
    let mutex = locks.mutex("mutex").lock().await.expect("it is free");
    for name in ["value", "list", "mutex"] {
        let error = locks.simple(name).lock().wait(Duration::from_secs(1)).await;
        assert_eq!(error.expect_err("no such lock").kind(), ErrorKind::Conflict, "{name}");
        let error = locks.simple(name).force_unlock().await.expect_err("no such lock");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{name}");
        assert!(server.exists(name).await);
    }
    assert!(!mutex.is_lost());
    mutex.unlock().await.expect("it was held");
    let simple = locks.simple("simple").lock().await.expect("it is free");
    let error = locks.mutex("simple").lock().await.expect_err("no mutex");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(!simple.is_lost());
}
