//! Java's Redisson, for the tests of what is shared with it: built once per version, into the target directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::servers::{apt_install, on_path};

/// Names the directory with a `redisson-VERSION` for each version.
pub(crate) const VARIABLE: &str = "DISTLOCK_REDISSON";
/// Set where the tests against Redisson must run.
const REQUIRED: &str = "DISTLOCK_REQUIRE_REDISSON";
/// A version a line.
const VERSIONS: &str = include_str!("../../interop/redisson/versions");

/// Whether doing without is an error.
pub(crate) fn is_required() -> bool {
    env::var_os(REQUIRED).is_some()
}

/// The versions, for people to read.
pub(crate) fn versions() -> String {
    VERSIONS.lines().collect::<Vec<_>>().join(", ")
}

/// The directory with every version, built where that has not been done yet. Installs Java and Maven where it may.
pub(crate) fn ensure(root: &Path, target_dir: &Path) -> Result<PathBuf, String> {
    let project = root.join("interop").join("redisson");
    let dir = target_dir.join("interop");
    let changed = newest(&project.join("src")).max(modified(&project.join("pom.xml")));
    let missing = VERSIONS.lines().filter(|version| {
        let built = modified(&mark(&dir, version));
        built.is_none() || built < changed
    });
    let missing: Vec<&str> = missing.collect();
    if on_path("java").is_none() || (!missing.is_empty() && !has_tools()) {
        apt_install(&["default-jdk-headless", "maven"])?;
    }
    for version in missing {
        build(&project, &dir, version)?;
    }
    Ok(dir)
}

/// A Java runtime alone is not enough to build with.
fn has_tools() -> bool {
    on_path("javac").is_some() && on_path("mvn").is_some()
}

fn build(project: &Path, dir: &Path, version: &str) -> Result<(), String> {
    eprintln!("xtask: building the peer with Redisson {version}");
    let into = dir.join(format!("redisson-{version}"));
    // Left over from another state of the program.
    let _ = fs::remove_dir_all(&into);
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "compile"]).current_dir(project);
    maven.arg(format!("-Dredisson.version={version}"));
    maven.arg(format!("-Dpeer.dir={}", into.display()));
    // It complains on its standard output; ours is for programs.
    let done = maven.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    match done.map_err(|error| format!("cannot run mvn: {error}"))? {
        status if status.success() => {}
        status => return Err(format!("mvn: {status}")),
    }
    fs::write(mark(dir, version), "").map_err(|error| format!("{}: {error}", into.display()))
}

/// Written when a version is complete.
fn mark(dir: &Path, version: &str) -> PathBuf {
    dir.join(format!("redisson-{version}")).join("complete")
}

/// When the youngest file below `dir` was changed.
fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let times = entries.filter_map(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => newest(&path),
            false => modified(&path),
        }
    });
    times.max()
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|file| file.modified()).ok()
}
