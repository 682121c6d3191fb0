//! Root uses a directory that is somebody else's, and keeps that one out of nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use distlock_testkit::process::{Builder, Worker, foreign, worker};
use distlock_testkit::suites::{Ground, eventually};

use super::connected;

/// Nobody.
const OTHER: u32 = 65534;

/// How `setpriv` becomes that one.
const AS_OTHER: [&str; 4] = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// A directory for locks that belongs to [`OTHER`]; `None`, and a line that says so, where that takes more than this user may do.
fn ground() -> Option<(Ground, PathBuf)> {
    let (ground, dir) = super::ground();
    let locks = dir.join("locks");
    fs::create_dir(&locks).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&locks, Permissions::from_mode(0o700)).unwrap();
    let mut other = std::process::Command::new("setpriv");
    other.args(AS_OTHER).args(["test", "-w"]).arg(&locks);
    if chown(&locks, Some(OTHER), Some(OTHER)).is_err()
        || !other.status().is_ok_and(|status| status.success())
    {
        super::skipped("a directory of another user's: this one can neither make it nor be that");
        return None;
    }
    Some((ground, locks))
}

/// The program of that name, which lies beside this worker's, run by [`OTHER`].
fn as_other(beside: &Worker, name: &str) -> Option<Builder> {
    let program = fs::read_link(format!("/proc/{}/exe", beside.pid())).unwrap();
    let program = program.with_file_name(name);
    if program.ancestors().skip(1).any(|dir| !is_open(dir)) {
        super::skipped("a directory of another user's: that one cannot run the test's programs");
        return None;
    }
    let other = AS_OTHER.iter().fold(foreign("other", "setpriv"), |other, arg| other.arg(arg));
    Some(other.arg(program))
}

fn is_open(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 != 0)
}

#[tokio::test]
async fn root_that_is_killed_locks_nobody_out_of_its_own_directory() {
    let Some((ground, _)) = ground() else { return };
    let mut root = connected(ground.url()).await;
    let Some(other) = as_other(&root, "worker") else { return };
    assert!(root.ask("lock k").await.starts_with("locked"));
    let mut other = other.start().await;
    other.wait_for("ready").await;
    assert_eq!(other.ask(&format!("connect {} 30000", ground.url())).await, "connected");
    assert_eq!(other.ask("try k 0 0").await, "busy");
    other.send("lock k");
    let locks = ground.open().await;
    let waits =
        || async { locks.mutex("k").inspect().await.is_ok_and(|seen| seen.waiters == Some(1)) };
    eventually("it waits", waits).await;
    root.kill();
    assert!(other.line().await.unwrap().starts_with("locked"));
    assert_eq!(other.ask("unlock").await, "unlocked");
}

#[tokio::test]
async fn a_file_that_only_root_may_open_hides_nothing_else() {
    let Some((ground, dir)) = ground() else { return };
    let mut root = connected(ground.url()).await;
    assert!(root.ask("lock k").await.starts_with("locked"));
    let mut files = (0..64).map(|stripe| dir.join(format!("locks-{stripe:02}")));
    let free = files.find(|path| !path.exists()).unwrap();
    fs::write(&free, "root's").unwrap();
    fs::set_permissions(&free, Permissions::from_mode(0o600)).unwrap();
    let mut lists = worker("filer").arg("list").arg(ground.url()).start().await;
    assert_eq!(lists.line().await.as_deref(), Some("listed k"));
    let Some(other) = as_other(&root, "filer") else { return };
    let mut lists = other.arg("list").arg(ground.url()).start().await;
    assert_eq!(lists.line().await.as_deref(), Some("listed k"));
}
