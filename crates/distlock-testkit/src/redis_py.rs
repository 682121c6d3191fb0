//! redis-py's `Lock` in a process of its own: what the `simple` kind must get along with.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::process::{Worker, foreign};

/// Says which Python has the package `redis`.
const VARIABLE: &str = "DISTLOCK_REDIS_PY";
/// The program that drives it; its commands are listed there.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/redis-py/peer.py");

/// A process that locks with redis-py on the server at `url`. `None`, and a line on the test's output, where there is no
/// Python with that package; `cargo xtask test` installs one where it can.
pub async fn redis_py(url: &str) -> Option<Worker> {
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python with the package redis; set {VARIABLE} to the path of one");
        return None;
    };
    let mut peer = foreign("redis-py", python).arg(PEER).arg(url).start().await;
    peer.wait_for("ready").await;
    Some(peer)
}

fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let python = std::env::var_os(VARIABLE).map_or("python3".into(), PathBuf::from);
            let mut command = Command::new(&python);
            command.args(["-c", "import redis.lock"]).stdin(Stdio::null());
            let found = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            found.is_ok_and(|status| status.success()).then_some(python)
        })
        .clone()
}
