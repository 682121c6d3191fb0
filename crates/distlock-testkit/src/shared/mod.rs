//! Servers, Sentinel sets, clusters and Redisson JVMs that tests share.
//!
//! Within one process they are started for the first test that wants them and stopped after the last. Where every test runs
//! in a process of its own, a host starts them instead, once for all processes: the program `testkit-servers`. The variable
//! `DISTLOCK_SERVERS` names its Unix socket; [`Ground`](crate::suites::Ground) and [`Pair`](crate::Pair) ask there if it is
//! set.
//!
//! A client connects, sends one line of JSON that says what it wants, and receives one line of JSON: the description of what
//! it asked for, `{"error": …}`, or `{"skipped": …}` where a program is not installed. After the description of a JVM the
//! connection carries the commands and answers of [`Peer`](crate::Peer), a line each.
//!
//! * [`Lender`]: the host as a test process sees it. What it lends goes on when the test process ends.
//! * [`run_host`]: the host.

mod host;
mod lender;
mod local;
mod relay;
mod start;
mod things;
mod wanted;

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

pub use host::run_host;
pub use lender::{Lender, LentPeer};
pub(crate) use local::{cluster, sentinels, server, tls_server};
pub(crate) use start::{pair_cluster, peer_builder};

/// Names the host's Unix socket.
pub const VARIABLE: &str = "DISTLOCK_SERVERS";

/// Letters and digits that no other process has, even if it gets the same id later: servers live longer than processes.
pub(crate) fn process_tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
        // A process id comes again within minutes, and not within the 12 days that these digits count.
        let micros = now.as_micros() & 0xff_ffff_ffff;
        format!("{:x}{micros:010x}", std::process::id())
    })
}
