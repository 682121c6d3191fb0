//! How fast the locks are, beside the limit of what can be had in the same run.
//!
//! `cargo xtask bench [--json] [--quick] [FILTER…]`. Never fails because something is slow; fails when two were inside at
//! once, or a lock was lost.

mod client;
mod crowd;
mod fight;
mod local;
mod machine;
mod raw;
mod redisson;
mod report;
mod scripts;
mod solo;
mod spin;
mod wake;

use std::process::ExitCode;
use std::time::Duration;

use distlock_testkit::{Flavor, Server};

use report::Report;

/// What every workload needs.
struct Bench {
    server: Server,
    report: Report,
    quick: bool,
    filters: Vec<String>,
}

impl Bench {
    /// How many times each contender has its turn.
    fn rounds(&self) -> usize {
        if self.quick { 2 } else { 5 }
    }

    /// How long one turn lasts.
    fn turn(&self) -> Duration {
        if self.quick { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    fn pick(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }

    fn wants(&self, workload: &str) -> bool {
        let wanted =
            self.filters.is_empty() || self.filters.iter().any(|f| workload.contains(&**f));
        if wanted {
            eprintln!("{workload} …");
        }
        wanted
    }

    /// An empty server with its counters at 0.
    async fn clean(&self) {
        self.server.cli(&["FLUSHALL"]).await;
        self.server.reset_stats().await;
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(worker) = args.strip_prefix(&["--worker".to_owned()]) {
        return machine::worker(worker).await;
    }
    // `cargo test --benches` runs this too, and does not mean it.
    if !args.iter().any(|arg| arg == "--bench") {
        eprintln!("run the benchmarks with `cargo xtask bench`");
        return ExitCode::SUCCESS;
    }
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let mut bench = Bench {
        server: Server::builder(Flavor::Redis).args(["--save", ""]).start().await,
        report: Report::default(),
        quick: has("--quick"),
        filters: args.iter().filter(|arg| !arg.starts_with("--")).cloned().collect(),
    };
    scripts::run(&mut bench).await;
    solo::run(&mut bench).await;
    fight::run(&mut bench).await;
    wake::run(&mut bench).await;
    crowd::run(&mut bench).await;
    local::run(&mut bench).await;
    let version = bench.server.info_field("redis_version").await.unwrap_or_default();
    let rounds = bench.rounds();
    match has("--json") {
        true => println!("{}", bench.report.json(&version, rounds)),
        false => println!("{}", bench.report.text(&version, rounds)),
    }
    match bench.report.broken() {
        [] => ExitCode::SUCCESS,
        broken => {
            broken.iter().for_each(|what| eprintln!("BROKEN: {what}"));
            ExitCode::FAILURE
        }
    }
}
