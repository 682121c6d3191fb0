//! The whole runner, with shell scripts that behave like executables of tests.

use std::fs;
use std::time::Duration;

use super::*;
use list::Test;
use programs::{Executable, Kind};
use scratch::Scratch;

/// Behaves as its test's name says.
const SCRIPT: &str = r#"#!/bin/sh
case "$*" in
*--show-output*)
  echo 'test good ... ok'; echo 'test unlucky ... FAILED'
  echo 'failures:'; echo '---- unlucky stdout ----'; echo 'as one of many'
  exit 101 ;;
esac
[ "$1" = --exact ] && [ "$3" = --nocapture ] || exit 99
case "$2" in
good) ;;
idle) echo 'SKIPPED: nothing to do' >&2 ;;
bad) echo "$RUST_BACKTRACE $RUST_LOG"; exit 101 ;;
unlucky) if [ ! -e "$PWD/tried" ]; then touch "$PWD/tried"; echo 'no luck'; exit 101; fi ;;
hangs) sleep 600 ;;
here) [ "$CARGO_MANIFEST_DIR" = "$PWD" ] && [ "$CARGO_PKG_NAME" = kit ] || exit 1 ;;
esac
"#;

/// Runs tests of these names, integration tests unless `kind` says otherwise.
fn run(paths: &[&str], kind: Kind, args: &str) -> (Summary, Scratch) {
    let dir = Scratch::new().unwrap();
    let path = dir.path().join("fake");
    // Written by another process: one that another thread forks meanwhile would hold the file open for writing, and then it
    // cannot be run.
    let mut write = Command::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", SCRIPT]);
    assert!(write.arg(&path).status().unwrap().success());
    let package_dir = fs::canonicalize(dir.path()).unwrap();
    let executable = Executable {
        package: "kit".into(),
        package_dir,
        kind,
        is_library: false,
        target: "it".into(),
        path,
    };
    let executables = [executable];
    let tests: Vec<Test> = paths
        .iter()
        .map(|path| Test {
            executable: 0,
            kind,
            path: (*path).into(),
            name: format!("kit/it::{path}"),
            is_ignored: false,
        })
        .collect();
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let options = Options::parse(&args).unwrap();
    let environment = Environment::new(&Programs::default()).unwrap();
    let times = Times::default();
    let plan = plan::plan(&executables, &tests, &options, &times, None).unwrap();
    let logs = Logs::new(dir.path().join("logs"), dir.path().to_owned()).unwrap();
    let runner = Runner {
        executables: &executables,
        tests: &tests,
        environment: &environment,
        options: &options,
        keeper: Keeper::start().unwrap(),
        captures: logs.captures(),
        threads: 1,
        limit: Duration::from_secs(2),
    };
    let summary = execute(&runner, &plan, Slots::exactly(2), &logs);
    (summary, dir)
}

fn names(troubles: &[report::Trouble]) -> Vec<&str> {
    troubles.iter().map(|trouble| trouble.name.as_str()).collect()
}

#[test]
fn every_outcome_is_told_apart() {
    let paths = ["good", "idle", "bad", "unlucky", "here"];
    let (summary, dir) = run(&paths, Kind::Integration, "--test it");
    assert_eq!(summary.passed, 2);
    assert_eq!(names(&summary.failed), ["kit/it::bad"]);
    assert_eq!(names(&summary.flaky), ["kit/it::unlucky"]);
    assert_eq!(summary.skipped.get("nothing to do"), Some(&1));
    let logs = &summary.failed[0].logs;
    let log = |n: usize| fs::read_to_string(dir.path().join(&logs[n])).unwrap();
    assert!(log(0).starts_with("1 "), "{}", log(0));
    assert_eq!(log(1), "full debug\n");
    assert_eq!(summary.lines().last().unwrap(), "3 passed, 1 failed, 1 skipped");
}

#[test]
fn a_test_that_hangs_has_failed() {
    let (summary, _dir) = run(&["hangs", "good"], Kind::Integration, "--test it --no-retry");
    assert_eq!(summary.passed, 1);
    assert_eq!(names(&summary.failed), ["kit/it::hangs"]);
    assert!(summary.failed[0].reason.starts_with("hung"), "{}", summary.failed[0].reason);
}

#[test]
fn a_unit_test_that_failed_among_others_runs_again_alone() {
    let (summary, dir) = run(&["good", "unlucky", "lost"], Kind::Unit, "--lib");
    assert_eq!(summary.passed, 1);
    // The second time `unlucky` is tried by itself for the first time; `lost` had no result and passes.
    assert_eq!(names(&summary.failed), ["kit/it::unlucky"]);
    assert_eq!(names(&summary.flaky), ["kit/it::lost"]);
    let log = fs::read_to_string(dir.path().join(&summary.failed[0].logs[0])).unwrap();
    assert_eq!(log, "as one of many\n");
}
