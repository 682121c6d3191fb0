//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Backoff, Locks};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::suites::eventually;
use crate::{Server, assert_clean};

crate::suites::exclusive::exclusive_server!(spin);

const HOUR: Duration = Duration::from_secs(3600);

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// Whoever waits, from wherever, nobody subscribes to anything; and a crowd of one process asks as often as one.
pub async fn nobody_subscribes_and_one_of_a_crowd_asks(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let guard = elsewhere.spin("k").lock().lease(HOUR).await.expect("it is free");
    here.spin("k").try_lock().await.expect("the server answers"); // scripts are loaded, connections made
    server.reset_stats().await;
    let since = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let lock = here.spin("k").backoff(Backoff::constant(Duration::from_millis(50)));
        tasks.spawn(async move { lock.lock().await.expect("it gets free").unlock().await });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Twenty pauses a second, one question before and one after them.
    let asked = server.calls("evalsha").await;
    let most = 5 + (20.0 * since.elapsed().as_secs_f64()).ceil() as u64;
    assert!((2..=most).contains(&asked), "{asked} questions in {:?}", since.elapsed());
    assert_eq!(server.pubsub_channels().await, [""; 0]);
    guard.unlock().await.expect("it was held");
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic").expect("it was held");
    }
    for command in ["subscribe", "ssubscribe", "psubscribe"] {
        assert_eq!(server.calls(command).await, 0, "{command}");
    }
    assert_clean(&server, "k").await;
}

/// Redisson's spin lock releases in silence; ours tells whoever listens on the same name.
pub async fn a_mutexs_waiter_is_woken_by_a_spins_release(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    for _ in 0..3 {
        let guard = here.spin("k").lock().lease(HOUR).await.expect("it is free");
        let waiter = tokio::spawn(elsewhere.mutex("k").lock().into_future());
        eventually("it listens", || async { server.pubsub_channels().await.len() == 1 }).await;
        // Well before it would look again by itself.
        guard.unlock().await.expect("it was held");
        let next = timeout(Duration::from_secs(8), waiter).await.expect("it is told");
        next.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    }
    assert_clean(&server, "k").await;
}

/// Where pub/sub is forbidden, one can still wait.
pub async fn a_user_without_pub_sub_can_lock_and_wait(server: Server) {
    let can =
        "+hello +ping +client +evalsha +script|load +pttl +pexpire +hset +hdel +hexists +hgetall";
    let mut user = vec!["ACL", "SETUSER", "mute", "on", ">word", "~*", "-@all"];
    user.extend(can.split(' '));
    server.cli(&user).await;
    let url = format!("redis://mute:word@{}", server.addr());
    let (here, elsewhere) = (Locks::connect(&url).await, Locks::connect(&url).await);
    let (here, elsewhere) = (here.expect("it may"), elsewhere.expect("it may"));
    let guard = here.spin("k").lock().lease(HOUR).await.expect("it is free");
    let waiter = tokio::spawn(elsewhere.spin("k").lock().into_future());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished());
    guard.unlock().await.expect("it was held");
    let next = timeout(Duration::from_secs(20), waiter).await.expect("it asks again");
    next.expect("no panic").expect("it gets free").unlock().await.expect("it was held");
    assert_clean(&server, "k").await;
}
