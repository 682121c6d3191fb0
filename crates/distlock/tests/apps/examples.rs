//! Every example is run as a process of its own, on every store it can use, and says that it is content.
use std::path::Path;
use std::time::Duration;

use distlock_testkit::Server;
use distlock_testkit::process::{example, foreign};

/// The examples that a test below runs.
const TESTED: [&str; 6] =
    ["coupon_rush", "cron_fleet", "java_and_rust", "prometheus", "redis_migration", "shop"];
/// How long one may be silent. The first of them on a machine that builds meanwhile takes its time.
const PATIENCE: Duration = Duration::from_secs(180);
/// What an example says with its exit code if it cannot show anything here.
const MISSING: i32 = 3;

/// Runs it: its exit code, and its last line.
async fn run(name: &str, args: &[&str]) -> (Option<i32>, String) {
    let of = name.to_owned();
    let program = tokio::task::spawn_blocking(move || example(&of)).await.unwrap();
    let process = args.iter().fold(foreign(name, program), |process, arg| process.arg(*arg));
    let mut process = process.start().await;
    let mut last = String::new();
    while let Some(line) = process.line_within(PATIENCE).await {
        println!("{name}: {line}");
        last = line;
    }
    (process.finish().await.code(), last)
}

async fn shows(name: &str, args: &[&str]) {
    let (code, last) = run(name, args).await;
    assert_eq!(code, Some(0), "{name} {args:?}: {last:?}");
    assert!(last.starts_with("ok: "), "{name} {args:?} ends with {last:?}");
}

#[test]
fn every_example_is_run_by_a_test() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut there: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        there.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    there.sort();
    assert_eq!(there, TESTED, "an example without a test, or a test without an example");
}

#[tokio::test]
async fn coupon_rush() {
    let server = Server::redis().await;
    shows("coupon_rush", &[]).await;
    shows("coupon_rush", &["memory:"]).await;
    shows("coupon_rush", &[&server.url()]).await;
    let (code, _) = run("coupon_rush", &["redis://127.0.0.1:1"]).await;
    assert_eq!(code, Some(1), "it is content without a store");
}

#[tokio::test]
async fn shop() {
    let server = Server::redis().await;
    shows("shop", &[]).await;
    shows("shop", &[&format!("file:{}", server.dir().join("locks").display())]).await;
    shows("shop", &[&server.url()]).await;
}

#[tokio::test]
async fn cron_fleet() {
    let server = Server::redis().await;
    shows("cron_fleet", &[]).await;
    shows("cron_fleet", &[&server.url()]).await;
}

#[tokio::test]
async fn prometheus() {
    shows("prometheus", &[]).await;
}

#[tokio::test]
async fn redis_migration() {
    shows("redis_migration", &[]).await;
    let (old, new) = (Server::redis().await, Server::redis().await);
    shows("redis_migration", &[&old.url(), &new.url()]).await;
    for server in [&old, &new] {
        distlock_testkit::assert_clean(server, "redis_migration").await;
    }
}

#[tokio::test]
async fn java_and_rust() {
    let (code, last) = run("java_and_rust", &[]).await;
    if code == Some(MISSING) && std::env::var_os("DISTLOCK_REQUIRE_REDISSON").is_none() {
        return eprintln!("SKIPPED: java_and_rust, without Java or Redisson");
    }
    assert_eq!((code, last.starts_with("ok: ")), (Some(0), true), "{last:?}");
}
