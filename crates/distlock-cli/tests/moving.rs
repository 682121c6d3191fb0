//! Commands under locks of a primary that moves.

mod support;

use distlock_testkit::{Flavor, SentinelSet};
use support::{Bench, code};

/// The command goes on while another server takes over, and keeps others out there.
#[tokio::test]
async fn a_command_outlives_a_failover() {
    let set = SentinelSet::builder(Flavor::Redis).start().await;
    let bench = Bench::on(set.url());
    let holder = bench.hold(&[], "k");
    set.replicated().await;
    let old = set.primary().await;
    old.kill();
    set.replaced(&old).await;
    assert_eq!(code(bench.run(&["--wait", "0"], "k", "echo never")), 75);
    assert_eq!(holder.leave(), Some(0));
    assert_eq!(code(bench.run(&["--wait", "15s"], "k", "exit 7")), 7);
    set.assert_clean("k").await;
}
