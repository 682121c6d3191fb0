//! W5: how soon a waiter is inside after the holder lets go, and how soon a queue is served.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_testkit::{Proxy, Server};
use redis::{PushInfo, PushKind};
use tokio::sync::mpsc;

use crate::Bench;
use crate::client::{Client, Outcome, Who};
use crate::raw;
use crate::report::{Target, percentile};

const WAITERS: usize = 64;
/// Time enough for every waiter to be waiting; it is not measured.
const SETTLE: Duration = Duration::from_millis(30);
/// One way.
const DISTANCE: Duration = Duration::from_millis(5);

pub(crate) async fn run(bench: &mut Bench) {
    if bench.wants("w5") {
        wake_up(bench).await;
        hand_over(bench).await;
    }
    if bench.wants("drain") {
        drain(bench).await;
    }
}

async fn wake_up(bench: &mut Bench) {
    let times = bench.pick(10, 50);
    for _ in 0..bench.rounds() {
        bench.clean().await;
        let limit = publish_and_ask(&bench.server, times).await;
        note(bench, "w5.limit", limit);
        for who in Who::WAITING {
            bench.clean().await;
            match wakes(who, &bench.server.url(), times).await {
                Ok(latencies) => note(bench, &format!("w5.{}", who.key()), latencies),
                Err(error) => bench.report.broke(format!("w5 {}: {error}", who.key())),
            }
        }
    }
    let report = &mut bench.report;
    report.compare(
        "W5 wake-up of one waiter, p50 µs",
        "w5.distlock.p50_us",
        "w5.limit.p50_us",
        Target::AtMost(1.5),
    );
    report.compare(
        "W5 beside Redisson's algorithm",
        "w5.distlock.p50_us",
        "w5.redisson-alg.p50_us",
        Target::None,
    );
}

fn note(bench: &mut Bench, key: &str, mut latencies: Vec<f64>) {
    bench.report.add(format!("{key}.p50_us"), percentile(&mut latencies, 0.5));
    bench.report.add(format!("{key}.p99_us"), percentile(&mut latencies, 0.99));
}

/// From the call of `unlock` to the waiter of another instance being inside, in µs.
async fn wakes(who: Who, url: &str, times: usize) -> Outcome<Vec<f64>> {
    let (holder, waiter) = (Client::connect(who, url).await, Client::connect(who, url).await);
    let name: Arc<str> = "wake".into();
    let mut latencies = Vec::new();
    for _ in 0..times {
        let held = holder.lock(&name).await?;
        let (client, wanted) = (waiter.clone(), name.clone());
        let inside = tokio::spawn(async move {
            let held = client.lock(&wanted).await?;
            let at = Instant::now();
            held.unlock().await.map(|()| at)
        });
        tokio::time::sleep(SETTLE).await;
        let since = Instant::now();
        held.unlock().await?;
        let at = inside.await.expect("a waiter does not panic")?;
        latencies.push(at.saturating_duration_since(since).as_secs_f64() * 1e6);
    }
    holder.close().await;
    waiter.close().await;
    Ok(latencies)
}

/// What no notified lock can beat: a release that publishes, the message, and a round trip.
async fn publish_and_ask(server: &Server, times: usize) -> Vec<f64> {
    let (pushes, mut pushed) = mpsc::unbounded_channel::<PushInfo>();
    let client = redis::Client::open(format!("{}?protocol=resp3", server.url()));
    let client = client.expect("a URL of the kit's is valid");
    let config = redis::AsyncConnectionConfig::new().set_push_sender(pushes);
    let listening = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut listening = listening.expect("the server has just started");
    listening.subscribe(raw::channel("wake")).await.expect("a server lets one subscribe");
    let (holder, waiter) =
        (raw::Raw::connect(&server.url()).await, raw::Raw::connect(&server.url()).await);
    let mut latencies = Vec::new();
    for _ in 0..times {
        let owner = holder.acquire("wake").await.expect("nobody else wants it");
        tokio::time::sleep(SETTLE / 10).await;
        let since = Instant::now();
        let release = holder.release("wake", &owner);
        let waiter = async {
            while let Some(push) = pushed.recv().await {
                if push.kind == PushKind::Message {
                    break;
                }
            }
            let owner = waiter.acquire("wake").await.expect("it has just been released");
            (owner, since.elapsed())
        };
        let (released, (owner, elapsed)) = tokio::join!(release, waiter);
        released.expect("it was held");
        latencies.push(elapsed.as_secs_f64() * 1e6);
        holder.release("wake", &owner).await.expect("it is held");
        // Its message.
        pushed.recv().await;
    }
    latencies
}

/// The same over a distance: how many round trips a hand-over takes.
async fn hand_over(bench: &mut Bench) {
    let proxy = Proxy::start(bench.server.addr()).await;
    proxy.latency(DISTANCE);
    for _ in 0..bench.rounds() {
        bench.clean().await;
        let mut line = raw::connect(&proxy.url()).await;
        let mut pings = Vec::new();
        for _ in 0..5 {
            let since = Instant::now();
            let () = redis::cmd("PING").query_async(&mut line).await.expect("the server answers");
            pings.push(since.elapsed().as_secs_f64() * 1e6);
        }
        let round_trip = percentile(&mut pings, 0.5);
        for who in [Who::Distlock, Who::Redisson] {
            let key = format!("w5.{}.round_trips", who.key());
            match wakes(who, &proxy.url(), bench.pick(3, 10)).await {
                Ok(mut latencies) => {
                    bench.report.add(key, percentile(&mut latencies, 0.5) / round_trip);
                }
                Err(error) => bench.report.broke(format!("{key}: {error}")),
            }
        }
    }
    bench.report.judge(
        "W5 hand-over to another process, round trips",
        "w5.distlock.round_trips",
        Target::Below(1.1),
    );
}

async fn drain(bench: &mut Bench) {
    for _ in 0..bench.rounds() {
        for instances in [1, 4] {
            for who in Who::WAITING {
                bench.clean().await;
                let key = format!("drain.{}.{instances}.ms", who.key());
                match drained(who, &bench.server.url(), instances).await {
                    Ok(time) => bench.report.add(key, time.as_secs_f64() * 1e3),
                    Err(error) => bench.report.broke(format!("{key}: {error}")),
                }
            }
        }
    }
    let report = &mut bench.report;
    report.compare(
        "drain of 64 in one instance, ms",
        "drain.distlock.1.ms",
        "drain.redisson-alg.1.ms",
        Target::AtMost(0.2),
    );
    report.compare(
        "drain of 64 in four instances, ms",
        "drain.distlock.4.ms",
        "drain.redisson-alg.4.ms",
        Target::AtMost(0.4),
    );
}

/// From the holder's release until every waiter was in and out.
async fn drained(who: Who, url: &str, instances: usize) -> Outcome<Duration> {
    let holder = Client::connect(who, url).await;
    let name: Arc<str> = "drain".into();
    let held = holder.lock(&name).await?;
    let mut clients = Vec::new();
    for _ in 0..instances {
        clients.push(Client::connect(who, url).await);
    }
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let (client, name) = (clients[number % instances].clone(), name.clone());
            tokio::spawn(async move { client.lock(&name).await?.unlock().await })
        })
        .collect();
    tokio::time::sleep(SETTLE * 3).await;
    let since = Instant::now();
    held.unlock().await?;
    for waiter in waiters {
        waiter.await.expect("a waiter does not panic")?;
    }
    let time = since.elapsed();
    holder.close().await;
    for client in clients {
        client.close().await;
    }
    Ok(time)
}
