//! Workers in processes of their own.

use std::time::Duration;

use distlock_testkit::worker;

#[tokio::test]
async fn a_worker_answers_and_ends_with_its_input() {
    let mut echo = worker("testkit-echo").arg("a").arg("b").env("TESTKIT_ECHO", "1").start().await;
    assert_eq!(echo.wait_for("ready").await, "ready a b Some(\"1\")");
    assert_eq!(echo.ask("one").await, "echo one");
    echo.send("two");
    echo.send("three");
    assert_eq!(echo.wait_for("echo th").await, "echo three");
    assert!(echo.finish().await.success());
}

#[tokio::test]
async fn its_exit_status_is_told() {
    let mut echo = worker("testkit-echo").start().await;
    echo.send("exit 7");
    assert_eq!(echo.finish().await.code(), Some(7));
}

#[tokio::test]
async fn a_killed_worker_says_nothing_more() {
    let mut echo = worker("testkit-echo").start().await;
    echo.wait_for("ready").await;
    echo.kill();
    echo.send("one");
    assert_eq!(echo.line().await, None);
}

#[tokio::test]
async fn a_stopped_worker_answers_when_it_goes_on() {
    let mut echo = worker("testkit-echo").start().await;
    echo.wait_for("ready").await;
    echo.stop();
    echo.send("one");
    let early = tokio::time::timeout(Duration::from_millis(50), echo.line()).await;
    assert!(early.is_err());
    echo.cont();
    assert_eq!(echo.line().await.as_deref(), Some("echo one"));
    echo.terminate();
    assert_eq!(echo.line().await, None);
}

#[tokio::test]
#[should_panic(expected = "did not say \"never\" before it ended, only [\n    \"ready  None\",\n]")]
async fn a_worker_that_does_not_say_it_is_reported() {
    let mut echo = worker("testkit-echo").start().await;
    echo.close();
    echo.wait_for("never").await;
}

/// The process that starts a server and is killed with `kill -9` takes it along.
#[tokio::test]
async fn what_a_killed_process_started_dies_too() {
    let mut guard = worker("testkit-echo").arg("--server").start().await;
    let line = guard.wait_for("server ").await;
    let [_, pid, dir] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let alive = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|l| !l.is_empty());
    assert!(alive());
    guard.kill();
    // Whoever is killed cleans nothing up.
    std::fs::remove_dir_all(dir).unwrap();
    if std::process::Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no setpriv, by which the kernel kills children with their parent");
        return;
    }
    let gone = async {
        while alive() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the server dies");
}
