//! Commands under locks of a primary that moves.

use std::time::Duration;

use crate::support::{Bench, code};
use distlock_testkit::{Flavor, SentinelSet};

/// The command goes on while another server takes over, and keeps others out there.
#[tokio::test]
async fn a_command_outlives_a_failover() {
    // A machine that is busy is no reason to choose another primary.
    let patient = Duration::from_secs(600);
    let set = SentinelSet::builder(Flavor::Redis).down_after(patient).start().await;
    let bench = Bench::on(set.url());
    let holder = bench.hold(&["--watchdog", "60s"], "k");
    set.replicated().await;
    let old = set.primary().await;
    for sentinel in set.sentinels() {
        let dead = ["SENTINEL", "SET", set.name(), "down-after-milliseconds", "1000"];
        sentinel.cli(&dead).await;
        // One that stood still for two seconds would do nothing for thirty. Redis 6.2 cannot be told otherwise.
        let rests = ["SENTINEL", "DEBUG", "tilt-trigger", "600000", "tilt-period", "1"];
        let _ = sentinel.try_cli(&rests).await;
    }
    old.kill();
    set.replaced(&old).await;
    assert_eq!(code(bench.run(&["--wait", "0"], "k", "echo never")), 75);
    assert_eq!(holder.leave(), Some(0));
    assert_eq!(code(bench.run(&["--wait", "15s"], "k", "exit 7")), 7);
    set.assert_clean("k").await;
}
