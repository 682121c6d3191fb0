//! What Prometheus sees of a program's locks.
//!
//! `cargo run --release -p distlock --example prometheus` makes some traffic, asks its own listener as Prometheus would,
//! and checks the figures. With `-- --serve` it goes on until it is stopped, for a Prometheus and a Grafana to look at
//! (the dashboard is docs/grafana-dashboard.json):
//!
//! ```yaml
//! scrape_configs:
//!   - job_name: distlock
//!     static_configs: [{ targets: ["localhost:9464"] }]
//! ```

use std::error::Error;
use std::time::Duration;

use distlock::{Locks, Metrics};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let serve = std::env::args().any(|arg| arg == "--serve");

    // Before connecting: the recorder gets names, units and descriptions then.
    let figures = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &Metrics::BUCKETS)?
        .install_recorder()?;
    let listener = TcpListener::bind(("127.0.0.1", if serve { 9464 } else { 0 })).await?;
    let address = listener.local_addr()?;
    println!("figures at http://{address}/metrics");
    tokio::spawn(answer(listener, figures));

    let locks = Locks::connect("memory:").await?;
    traffic(&locks).await?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut seen = String::new();
    stream.read_to_string(&mut seen).await?;
    for line in seen.lines().filter(|line| line.starts_with("distlock_acquire_total")) {
        println!("{line}");
    }
    for sample in [
        "distlock_acquire_total{kind=\"mutex\",outcome=\"acquired\"} 101",
        "distlock_acquire_total{kind=\"mutex\",outcome=\"timeout\"} 5",
        "distlock_hold_seconds_count{kind=\"mutex\"} 101",
        "distlock_held{kind=\"mutex\"} 0",
        "distlock_waiting{kind=\"mutex\"} 0",
    ] {
        assert!(seen.lines().any(|line| line == sample), "not seen: {sample}\n{seen}");
    }
    println!("ok: 101 acquired, 5 timed out, nothing held or waited for in the end");

    if !serve {
        return Ok(());
    }
    loop {
        traffic(&locks).await?;
    }
}

/// A hundred who get the lock one after the other, and five who run out of patience.
async fn traffic(locks: &Locks) -> Outcome {
    let lock = locks.mutex("orders:42");
    let crowd = (0..100).map(|_| {
        let lock = lock.clone();
        tokio::spawn(async move {
            let guard = lock.lock().await?;
            tokio::time::sleep(Duration::from_millis(2)).await;
            guard.unlock().await
        })
    });
    for member in crowd.collect::<Vec<_>>() {
        member.await??;
    }
    let guard = lock.lock().await?;
    for _ in 0..5 {
        assert!(lock.try_lock().wait(Duration::from_millis(10)).await?.is_none());
    }
    guard.unlock().await?;
    Ok(())
}

/// The least that Prometheus needs. Programs that have a web server already give `figures.render()` from a route of it.
async fn answer(listener: TcpListener, figures: PrometheusHandle) {
    while let Ok((stream, _)) = listener.accept().await {
        let text = figures.render();
        // One that hangs up or says nothing is in nobody's way.
        tokio::spawn(async move {
            let _hung_up = reply(stream, &text).await;
        });
    }
}

async fn reply(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    let _question = stream.read(&mut [0; 1024]).await?;
    let head = format!(
        "HTTP/1.0 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await
}
