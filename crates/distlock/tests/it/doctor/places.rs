//! Where locks may not be, and where nobody is.

use std::net::{IpAddr, UdpSocket};

use distlock::Locks;
use distlock::doctor::{Finding, Level};
use distlock_testkit::{Flavor, Server};

use crate::doctor::report::{CANARY, bad, examine, of, replica_of, sound};

#[tokio::test]
async fn a_replica_is_a_fault_and_its_primary_is_seen_with_it() {
    let primary = sound(Flavor::Redis).await;
    let replica = replica_of(&primary).await;
    let report = examine(&replica.url()).await;
    assert_eq!(of(&report, "role").level, Level::Fault, "{report}");
    assert_eq!(of(&report, "replica_link").level, Level::Ok, "{report}");

    let report = examine(&primary.url()).await;
    assert_eq!(bad(&report), [("min_replicas", Level::Warning)], "{report}");
    primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let report = examine(&primary.url()).await;
    assert_eq!(bad(&report), [], "{report}");

    primary.kill();
    crate::doctor::report::until("the replica notices", async || {
        replica.info_field("master_link_status").await.as_deref() == Some("down")
    })
    .await;
    let report = examine(&replica.url()).await;
    assert_eq!(of(&report, "replica_link").level, Level::Warning, "{report}");
}

#[tokio::test]
async fn a_wrong_password_is_a_finding_and_is_not_repeated() {
    for flavor in Flavor::ALL {
        let server = sound(flavor).await;
        let addr = server.addr();
        for url in [
            format!("redis://{addr}"),
            format!("redis://:{CANARY}x@{addr}"),
            format!("redis://{CANARY}:{CANARY}@{addr}"),
        ] {
            let report = examine(&url).await;
            assert_eq!(bad(&report), [("login", Level::Fault)], "{report}");
            assert!(report.is_reached(), "somebody answered");
        }
        // Nor is a database that is not there.
        let report = examine(&format!("redis://:{CANARY}@{addr}/99")).await;
        assert_eq!(bad(&report), [("login", Level::Fault)], "{report}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_or_hangs_is_not_reached() {
    let server = sound(Flavor::Redis).await;
    let url = server.url();
    server.stop();
    let report = examine(&url).await;
    assert_eq!(bad(&report), [("reachable", Level::Fault)], "{report}");
    assert!(!report.is_reached());
    server.cont();
    server.kill();
    let report = examine(&url).await;
    assert_eq!(bad(&report), [("reachable", Level::Fault)], "{report}");
    assert!(!report.is_reached());
}

/// Locks go on working while somebody looks, and are not touched.
#[tokio::test]
async fn looking_does_not_disturb_locks() {
    let server = sound(Flavor::Valkey).await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let guard = locks.mutex("k").lock().await.unwrap();
    let before = server.hgetall("k").await;
    for _ in 0..5 {
        assert_eq!(bad(&locks.doctor().await), []);
    }
    assert_eq!(server.hgetall("k").await, before);
    assert_eq!(server.keys("*").await, ["k"]);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn plain_text_and_no_password_over_the_network_are_warned_of() {
    let Some(ip) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but its loopback");
        return;
    };
    let server = Server::builder(Flavor::Redis).keep_data();
    let server = server.args(["--bind", "0.0.0.0", "--protected-mode", "no"]).start().await;
    let report = examine(&format!("redis://{ip}:{}", server.port())).await;
    let expected = [("password", Level::Warning), ("tls", Level::Warning)];
    assert_eq!(bad(&report), expected, "{report}");
}

/// Asks the system which of its addresses it would send from; nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("10.255.255.255:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[tokio::test]
async fn memory_is_fine() {
    let report = Locks::memory().doctor().await;
    assert_eq!(bad(&report), []);
    assert!(report.is_reached());
}

#[tokio::test]
async fn a_directory_that_is_gone_is_a_fault() {
    let dir = std::env::temp_dir().join(format!("distlock-doctor-{}", std::process::id()));
    let locks = Locks::connect(&format!("file:{}", dir.display())).await.unwrap();
    let report = locks.doctor().await;
    assert_eq!(bad(&report), [], "{report}");
    std::fs::remove_dir_all(&dir).unwrap();
    let report = locks.doctor().await;
    assert_eq!(bad(&report), [("directory", Level::Fault)], "{report}");
}

#[test]
fn a_finding_reads_like_a_paragraph() {
    let finding = Finding::new(Level::Fault, "eviction", "h:1", "seen").means("bad").change("it");
    assert_eq!(finding.to_string(), "fault   eviction (h:1): seen\n        bad\n        it");
}
