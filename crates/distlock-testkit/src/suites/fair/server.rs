//! What only a server shows: these promises look at all of it, so each has one of its own.

use std::time::Duration;

use distlock::Locks;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::line::Waiter;
use super::wire::Queue;
use crate::suites::eventually;
use crate::{Server, assert_clean};

crate::suites::exclusive::exclusive_server!(fair);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

/// What clients sent; what scripts call counts too in these statistics, but nobody sent it.
async fn commands(server: &Server) -> u64 {
    let stats = server.command_stats().await;
    let sent = ["evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ping", "hello"];
    sent.iter().filter_map(|name| stats.get(*name)).map(|stats| stats.calls).sum()
}

/// One round trip in, one out, and Redisson's hash alone.
pub async fn an_uncontended_lock_costs_two_commands(server: Server) {
    let locks = open(&server).await;
    let lock = locks.fair("k");
    lock.lock().await.expect("it is free").unlock().await.expect("it was held"); // scripts are loaded
    server.reset_stats().await;
    for _ in 0..10 {
        lock.lock().await.expect("it is free").unlock().await.expect("it was held");
    }
    assert_eq!(commands(&server).await, 20);
    let guard = lock.lock().await.expect("it is free");
    assert_eq!(server.keys("*").await, ["k"]);
    let hash = server.hgetall("k").await;
    assert_eq!(hash.into_iter().collect::<Vec<_>>(), [(guard.stay().to_string(), "1".to_owned())]);
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// Redisson: testNameMapper.
pub async fn the_queue_has_the_full_name(server: Server) {
    let builder = Locks::builder().url(server.url()).prefix("app:");
    let locks = builder.connect().await.expect("the server answers");
    let guard = locks.fair("k").lock().await.expect("it is free");
    let waiter = Waiter::join(&locks, "k").await;
    let keys = ["app:k", "redisson_lock_queue:{app:k}", "redisson_lock_timeout:{app:k}"];
    assert_eq!(server.keys("*").await, keys);
    let channel = Queue::of(&server, "app:k").channel(&waiter.owner.to_string());
    let channels = || async { server.pubsub_channels().await == [&*channel] };
    eventually("it listens for itself", channels).await;
    guard.unlock().await.expect("it was held");
    waiter.enters().await.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// The last who leaves takes the queue away.
pub async fn an_idle_queue_leaves_no_key(server: Server) {
    let locks = open(&server).await;
    let guard = locks.fair("k").lock().await.expect("it is free");
    let line = [Waiter::join(&locks, "k").await, Waiter::join(&locks, "k").await];
    guard.unlock().await.expect("it was held");
    for waiter in line {
        waiter.enters().await.unlock().await.expect("it was held");
    }
    assert_clean(&server, "").await;
    let guard = locks.fair("k").lock().await.expect("it is free");
    let line = [Waiter::join(&locks, "k").await, Waiter::join(&locks, "k").await];
    for waiter in line {
        waiter.leaves();
    }
    let alone = || async { server.keys("*").await == ["k"] };
    eventually("nothing but the lock is left", alone).await;
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;
}

/// However many wait, a release calls one of them.
pub async fn sixty_four_waiters_cost_four_commands_a_hand_over(server: Server) {
    const WAITERS: u64 = 64;
    let locks = open(&server).await;
    let lock = locks.fair("k");
    // Whatever there is to load is loaded.
    let guard = lock.lock().await.expect("it is free");
    Waiter::join(&locks, "k").await.leaves();
    guard.unlock().await.expect("it was held");
    assert_clean(&server, "").await;

    server.reset_stats().await;
    let guard = lock.lock().await.expect("it is free");
    let mut tasks = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = lock.clone();
        tasks.spawn(async move {
            let guard = lock.lock().await.expect("it gets free");
            tokio::task::yield_now().await;
            guard.unlock().await.expect("it was held");
        });
    }
    let queue = Queue::of(&server, "k");
    let all_listen = || async {
        queue.len().await as u64 == WAITERS
            && server.pubsub_channels().await.len() as u64 == WAITERS
    };
    eventually("all wait and listen", all_listen).await;
    // Until the last has asked again after it began to listen.
    let (mut before, mut since) = (commands(&server).await, Instant::now());
    while since.elapsed() < ms(300) {
        sleep(ms(20)).await;
        let now = commands(&server).await;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    let start = before;
    let since = Instant::now();
    guard.unlock().await.expect("it was held");
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    let took = since.elapsed();
    assert_clean(&server, "").await;
    let drained = commands(&server).await - start;
    let each = |commands: u64| commands as f64 / WAITERS as f64;
    println!(
        "{:?}: per hand-over {:.2} commands while draining ({took:?}), {:.2} from the start",
        server.flavor(),
        each(drained),
        each(start + drained)
    );
    // On a machine that does other things it takes long enough for some to re-check: eight every 1.5 s, the others every 5 s.
    let rechecks = took.as_secs_f64() * (8.0 / 1.5 + (WAITERS - 8) as f64 / 5.0);
    let limit = 4.0 + rechecks / WAITERS as f64;
    assert!(each(drained) <= limit, "{:.2} commands per hand-over, {took:?}", each(drained));
}

/// R#1104 and Redisson's known hot loop: while the lock is free and the first in line is silent, nobody polls.
pub async fn nobody_polls_while_the_first_in_line_is_silent(server: Server) {
    let locks = open(&server).await;
    let queue = Queue::of(&server, "k");
    let guard = locks.fair("k").lock().await.expect("it is free");
    // It listens, but it does not come.
    queue.add_dead("silent", 300_000).await;
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut ear = client.get_async_pubsub().await.expect("the server answers");
    ear.subscribe(queue.channel("silent")).await.expect("it may");
    let mut line = Vec::new();
    for _ in 0..20 {
        line.push(Waiter::join(&locks, "k").await);
    }
    server.reset_stats().await;
    let since = Instant::now();
    guard.unlock().await.expect("it was held");
    let first = line.remove(0).enters().await;
    let (took, asked) = (since.elapsed(), server.calls("evalsha").await);
    // A few re-check every second or two, the others every five at most.
    let most = 20 * (3 + took.as_secs());
    assert!(asked <= most, "{asked} questions in {took:?}");
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(14), "in after {took:?}");
    first.unlock().await.expect("it was held");
    for waiter in line {
        waiter.enters().await.unlock().await.expect("it was held");
    }
    drop(ear);
    assert_clean(&server, "").await;
}
