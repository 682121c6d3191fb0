//! Real servers, fault proxies and suites of promises.
//!
//! * [`server`]: a Redis or Valkey of its own for a test, started, frozen, killed, restarted; or a cluster of them, or a
//!   primary with replicas and sentinels.
//! * [`proxy`]: a TCP proxy that loses, delays and cuts at exactly the command a test names.
//! * `namespace`: two network namespaces with a cable between them, where the kernel loses packets and sends them again.
//! * [`process`]: workers in processes of their own, so that `kill -9` and `SIGSTOP` are real.
//! * [`mod@redis_py`]: another client's lock, to share names with.
//! * [`peer`]: Java's Redisson, to share every kind with.
//! * [`history`]: what was done inside a lock, checked.
//! * [`leak`]: nothing may be left behind.
//! * [`cancel`]: futures that are dropped at a moment of the test's choice.
//! * [`docs`]: the Markdown files of the project, whose links and code blocks are tested.
//! * [`service`]: a small service over a real database, to put locks around.
//! * [`shared`]: servers, clusters and JVMs that tests share, also between processes.
//! * [`sim`]: the library in simulated processes, over a simulated network and server.
//! * [`stall`]: time in which the machine stood still.
//! * [`suites`]: the promises of each kind of lock, for every store to keep.
//!
//! This crate is test code: what goes wrong in it panics, with a message for the person who reads
//! the test's output.

pub mod cancel;
pub mod docs;
pub mod history;
pub mod leak;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod peer;
pub mod process;
pub mod proxy;
pub mod redis_py;
pub mod server;
pub mod service;
pub mod shared;
pub mod sim;
pub mod stall;
pub mod suites;

mod effort;
mod looks;
pub mod port;
mod scratch;
mod spawn;

pub use effort::effort;
pub use leak::assert_clean;
pub use peer::{Pair, Peer};
pub use process::{Worker, worker};
pub use proxy::{Match, Proxy};
pub use redis_py::redis_py;
pub use server::{Cluster, Flavor, Replicas, SentinelSet, Server, Tls};
pub use stall::Stopwatch;
