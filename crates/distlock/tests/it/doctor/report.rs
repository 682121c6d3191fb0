//! Reading reports.

use std::time::{Duration, Instant};

use distlock::Locks;
use distlock::doctor::{Finding, Level, Report};
use distlock_testkit::{Flavor, Server};

/// In no report, whatever it says and however it is shown.
pub(crate) const CANARY: &str = "canary0word";

pub(crate) async fn examine(url: &str) -> Report {
    examine_as(url, "").await
}

/// With a prefix.
pub(crate) async fn examine_as(url: &str, prefix: &str) -> Report {
    let locks = Locks::builder().url(url).prefix(prefix).lazy().connect().await.unwrap();
    let report = tokio::time::timeout(Duration::from_secs(30), locks.doctor());
    let report = report.await.expect("the doctor hangs");
    let shown = format!("{report} {report:?} {locks:?} {:?}", locks.doctor());
    assert!(!shown.contains(CANARY), "{shown}");
    for finding in report.findings() {
        assert!(!finding.says.is_empty(), "{finding:?}");
        if finding.level >= Level::Warning {
            assert!(!finding.means.is_empty() && !finding.change.is_empty(), "{finding:?}");
        }
    }
    report
}

/// Warnings and faults, by subject.
pub(crate) fn bad(report: &Report) -> Vec<(&'static str, Level)> {
    let bad = report.findings().iter().filter(|finding| finding.level >= Level::Warning);
    let mut bad: Vec<_> = bad.map(|finding| (finding.subject, finding.level)).collect();
    bad.sort();
    bad.dedup();
    bad
}

pub(crate) fn of<'a>(report: &'a Report, subject: &str) -> &'a Finding {
    let found = report.findings().iter().find(|finding| finding.subject == subject);
    found.unwrap_or_else(|| panic!("nothing about {subject}:\n{report}"))
}

/// A server as it should be. Asks for the password that must not be seen.
pub(crate) async fn sound(flavor: Flavor) -> Server {
    Server::builder(flavor).keep_data().password(CANARY).start().await
}

/// A replica of it, up to date.
pub(crate) async fn replica_of(server: &Server) -> Server {
    let port = server.port().to_string();
    let replica = Server::builder(server.flavor())
        .keep_data()
        .password(CANARY)
        .args(["--replicaof", "127.0.0.1", &port, "--masterauth", CANARY])
        .args(["--repl-diskless-sync-delay", "0"])
        .start()
        .await;
    until("the replica follows", async || {
        replica.info_field("master_link_status").await.as_deref() == Some("up")
            && server.info_field("slave0").await.is_some_and(|line| line.contains("online"))
    })
    .await;
    replica
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
