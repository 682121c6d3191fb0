//! The servers that the other tests stand on.

use std::process::Command;
use std::time::Duration;

use distlock_testkit::server::{CommandStats, Flavor, Server, Tls};
use distlock_testkit::suites::eventually;

fn runs(pid: u32) -> bool {
    // A zombie has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[tokio::test]
async fn every_installed_flavor_starts_and_leaves_nothing() {
    assert!(Flavor::installed().contains(&Flavor::Redis));
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let pid = server.pid();
        let dir = server.dir().to_owned();
        assert_eq!(server.info_field("process_id").await, Some(pid.to_string()));
        assert_eq!(server.info_field("tcp_port").await, Some(server.port().to_string()));
        assert_eq!(server.info_field("no_such_field").await, None);
        assert!(server.keys("*").await.is_empty());
        assert!(server.pubsub_channels().await.is_empty());
        assert_eq!(server.client_count().await, 0);
        drop(server);
        assert!(!runs(pid));
        assert!(!dir.exists());
    }
}

#[tokio::test]
async fn two_servers_share_nothing() {
    let (one, two) = tokio::join!(Server::redis(), Server::redis());
    assert_ne!(one.port(), two.port());
    one.cli(&["SET", "k", "v"]).await;
    assert!(one.exists("k").await);
    assert!(!two.exists("k").await);
}

#[tokio::test]
async fn the_url_and_the_socket_lead_to_it() {
    let server = Server::redis().await;
    server.cli(&["SET", "k", "v"]).await;
    for url in [server.url(), server.unix_url()] {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let value: String = redis::cmd("GET").arg("k").query(&mut connection).unwrap();
        assert_eq!(value, "v");
        // The server may be about to hear that the last one has gone.
        let alone = || async { server.client_count().await == 1 };
        eventually("this is the only connection", alone).await;
    }
}

#[tokio::test]
async fn a_password_is_asked_for_and_is_in_the_urls() {
    let server = Server::builder(Flavor::Redis).password("sesam").start().await;
    for url in [server.url(), server.unix_url()] {
        redis::Client::open(url).unwrap().get_connection().unwrap();
    }
    let bare = format!("redis://{}", server.addr());
    let mut connection = redis::Client::open(bare).unwrap().get_connection().unwrap();
    assert!(redis::cmd("PING").exec(&mut connection).is_err());
}

#[tokio::test]
async fn questions_are_answered() {
    let server = Server::redis().await;
    server.cli(&["HSET", "h", "b", "2", "a", "1"]).await;
    let hash = server.hgetall("h").await;
    assert_eq!(
        hash.into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]
    );
    assert_eq!((server.pttl("h").await, server.pttl("none").await), (-1, -2));
    let error = server.try_cli(&["GET", "h"]).await.unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    assert_eq!(server.command_stats().await["get"].failed, 1);
    server.reset_stats().await;
    assert_eq!(server.calls("get").await, 0);
    server.cli(&["GET", "none"]).await;
    let stats = server.command_stats().await;
    assert_eq!(stats["get"], CommandStats { calls: 1, rejected: 0, failed: 0 });
}

#[tokio::test]
async fn options_reach_the_program() {
    let server = Server::builder(Flavor::Redis).args(["--maxmemory", "5mb"]).start().await;
    assert_eq!(server.info_field("maxmemory").await.as_deref(), Some("5242880"));
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_loses_the_data() {
    let server = Server::redis().await;
    let (port, pid) = (server.port(), server.pid());
    server.cli(&["SET", "k", "v"]).await;
    server.restart().await;
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(!server.exists("k").await);
    server.kill();
    assert!(server.try_cli(&["PING"]).await.is_err());
    server.restart().await;
    server.cli(&["PING"]).await;
}

#[tokio::test]
async fn a_restart_keeps_the_data_when_asked_to() {
    let server = Server::builder(Flavor::Redis).keep_data().start().await;
    server.cli(&["SET", "k", "v"]).await;
    server.restart().await;
    assert!(server.exists("k").await);
}

#[tokio::test]
async fn a_stopped_server_answers_when_it_goes_on() {
    let server = Server::redis().await;
    server.stop();
    let mut ping = std::pin::pin!(server.cli(&["PING"]));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut ping).await;
    assert!(early.is_err());
    server.cont();
    ping.await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_matter() {
    let server = Server::redis().await;
    let before = tokio::time::Instant::now();
    server.cli(&["PING"]).await;
    server.restart().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[test]
fn a_test_without_a_runtime_has_servers_too() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    server.try_cli_blocking(&["PING"]).unwrap();
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let start = || Server::builder(Flavor::Redis).start_blocking();
    let server = std::thread::spawn(start).join().unwrap();
    server.try_cli_blocking(&["PING"]).unwrap();
    assert!(runs(server.pid()));
}

#[tokio::test]
#[should_panic(expected = "no-such-option")]
async fn a_server_that_does_not_start_says_why() {
    Server::builder(Flavor::Redis).args(["--no-such-option", "1"]).start().await;
}

fn openssl(server: &Server, with_client_cert: bool) -> bool {
    let files = server.certificates().expect("a server with TLS");
    let mut command = Command::new("openssl");
    command.arg("s_client").arg("-connect").arg(server.addr().to_string());
    command.args(["-verify_return_error", "-quiet", "-verify_hostname", "localhost"]);
    command.arg("-CAfile").arg(&files.ca);
    if with_client_cert {
        command.arg("-cert").arg(&files.client_cert).arg("-key").arg(&files.client_key);
    }
    let script = "printf 'PING\\r\\nQUIT\\r\\n' | \"$@\" 2>&1";
    let line = [command.get_program()].into_iter().chain(command.get_args());
    let output = Command::new("sh").args(["-c", script, "sh"]).args(line).output();
    let output = output.expect("a shell");
    String::from_utf8_lossy(&output.stdout).contains("+PONG")
}

#[tokio::test]
async fn tls_with_certificates_of_its_own() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).start().await;
    assert!(server.url().starts_with("rediss://127.0.0.1:"));
    assert!(server.url().contains("?ca=/"));
    assert!(!server.url().contains("&cert="));
    server.cli(&["PING"]).await;
    let mutual = Server::builder(Flavor::Redis).tls(Tls::Mutual).start().await;
    assert!(mutual.url().contains("&cert=/"));
    mutual.cli(&["PING"]).await;
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("SKIPPED: no openssl to try the certificates with");
        return;
    }
    assert!(openssl(&server, false));
    assert!(openssl(&mutual, true));
    assert!(!openssl(&mutual, false));
}
