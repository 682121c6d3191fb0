//! What one call of each script costs the server, by its own count.

use distlock_testkit::Server;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline};

use crate::Bench;
use crate::raw;
use crate::redisson;
use crate::report::Target;
use crate::spin;

const CHUNK: usize = 500;

type Make = Box<dyn Fn(&str, &str) -> Cmd>;

/// A way to take and to leave a lock, as commands.
struct Shape {
    key: &'static str,
    acquire: Make,
    release: Make,
}

pub(crate) async fn run(bench: &mut Bench) {
    if !bench.wants("scripts") {
        return;
    }
    let mut connection = raw::connect(&bench.server.url()).await;
    let shapes = shapes(&mut connection).await;
    let calls = bench.pick(2_000, 20_000);
    for _ in 0..bench.rounds() {
        for shape in &shapes {
            bench.clean().await;
            let names: Vec<(String, String)> =
                (0..calls).map(|n| (format!("scripts:{n}"), raw::owner())).collect();
            let acquire = cost(&bench.server, &mut connection, &names, &shape.acquire).await;
            let release = cost(&bench.server, &mut connection, &names, &shape.release).await;
            let left: usize = bench.server.ask(&["DBSIZE"]).await;
            let latches = if shape.key == "redisson-latch" { calls } else { 0 };
            if left != latches {
                bench.report.broke(format!("scripts {}: {left} keys left", shape.key));
            }
            let key = format!("scripts.{}", shape.key);
            bench.report.add(format!("{key}.acquire_us"), acquire);
            bench.report.add(format!("{key}.release_us"), release);
            bench.report.add(format!("{key}.pair_us"), acquire + release);
        }
    }
    let report = &mut bench.report;
    let ours = "scripts.distlock.pair_us";
    report.compare(
        "scripts: server µs per pair",
        ours,
        "scripts.redisson-latch.pair_us",
        Target::AtMost(0.7),
    );
    report.compare(
        "scripts: beside Redisson's without latch",
        ours,
        "scripts.redisson.pair_us",
        Target::None,
    );
    report.compare("scripts: beside SET NX PX", ours, "scripts.set-nx-px.pair_us", Target::None);
}

async fn shapes(connection: &mut MultiplexedConnection) -> Vec<Shape> {
    let [acquire, release] =
        [raw::load(connection, raw::ACQUIRE).await, raw::load(connection, raw::RELEASE).await];
    let ours = Shape {
        key: "distlock",
        acquire: Box::new(move |name, owner| {
            let mut command = redis::cmd("EVALSHA");
            raw::acquire_args(command.arg(&acquire), name, owner);
            command
        }),
        release: Box::new(move |name, owner| {
            let mut command = redis::cmd("EVALSHA");
            raw::release_args(command.arg(&release), name, owner);
            command
        }),
    };
    let redisson_acquire = raw::load(connection, redisson::ACQUIRE).await;
    let take = move |name: &str, owner: &str| {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&redisson_acquire).arg(1).arg(name).arg(raw::LEASE).arg(owner);
        command
    };
    let release = raw::load(connection, redisson::RELEASE).await;
    let without = Shape {
        key: "redisson",
        acquire: Box::new(take.clone()),
        release: Box::new(move |name, owner| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&release).arg(2).arg(name).arg(raw::channel(name));
            command.arg(owner).arg(raw::LEASE);
            command
        }),
    };
    let release = raw::load(connection, redisson::RELEASE_WITH_LATCH).await;
    let with = Shape {
        key: "redisson-latch",
        acquire: Box::new(take),
        release: Box::new(move |name, owner| {
            let mut command = redis::cmd("EVALSHA");
            let latch = format!("redisson_unlock_latch:{{{name}}}:{owner}");
            command.arg(&release).arg(3).arg(name).arg(raw::channel(name)).arg(latch);
            command.arg(owner).arg(raw::LEASE).arg(16_000);
            command
        }),
    };
    let release = raw::load(connection, spin::RELEASE).await;
    let set = Shape {
        key: "set-nx-px",
        acquire: Box::new(|name, owner| {
            let mut command = redis::cmd("SET");
            command.arg(name).arg(owner).arg("NX").arg("PX").arg(raw::LEASE);
            command
        }),
        release: Box::new(move |name, owner| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&release).arg(1).arg(name).arg(owner);
            command
        }),
    };
    vec![ours, without, with, set]
}

/// The server's µs per command.
async fn cost(
    server: &Server,
    connection: &mut MultiplexedConnection,
    names: &[(String, String)],
    command: &dyn Fn(&str, &str) -> Cmd,
) -> f64 {
    server.reset_stats().await;
    for chunk in names.chunks(CHUNK) {
        let mut pipeline = Pipeline::new();
        for (name, owner) in chunk {
            pipeline.add_command(command(name, owner)).ignore();
        }
        let () = pipeline.query_async(connection).await.expect("nobody else is there");
    }
    let stats: String = server.ask(&["INFO", "commandstats"]).await;
    let one = if stats.contains("cmdstat_evalsha:") { "cmdstat_evalsha:" } else { "cmdstat_set:" };
    let line = stats.lines().find_map(|line| line.strip_prefix(one)).unwrap_or_default();
    let usec = line.split(',').find_map(|pair| pair.strip_prefix("usec="));
    usec.and_then(|usec| usec.parse::<f64>().ok()).unwrap_or(f64::NAN) / names.len() as f64
}
