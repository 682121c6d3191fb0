//! The host of shared servers, and what it lends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use distlock_testkit::peer::{Kind, Site, Version};
use distlock_testkit::process::Worker;
use distlock_testkit::server::{Flavor, Server};
use distlock_testkit::shared::Lender;
use distlock_testkit::suites::eventually;
use distlock_testkit::worker;

const WATCHDOG: Duration = Duration::from_secs(9);
/// A JVM may take this long to start on a machine that does other things.
const START: Duration = Duration::from_secs(120);

/// A host of a test's own. It ends with this value.
struct Host {
    process: Worker,
    socket: PathBuf,
}

impl Host {
    async fn start(name: &str) -> Host {
        let name = format!("dlkit-{}-{name}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let mut process = worker("testkit-servers").arg(&socket).start().await;
        process.wait_for("ready").await;
        Host { process, socket }
    }

    fn lender(&self) -> Lender {
        Lender::at(&self.socket)
    }

    /// Asks without holding up the test's runtime.
    async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(Lender) -> T + Send + 'static) -> T {
        let lender = self.lender();
        tokio::task::spawn_blocking(move || ask(lender)).await.expect("the host answers")
    }

    async fn redis(&self) -> Server {
        self.ask(|lender| lender.server(Flavor::Redis)).await.expect("Redis is installed")
    }

    async fn finish(self) {
        assert!(self.process.finish().await.success());
        assert!(!self.socket.exists());
    }
}

fn runs(pid: u32) -> bool {
    // A zombie has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// What a call panics with.
fn complaint(call: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(call)).expect_err("it panics");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[tokio::test]
async fn all_who_ask_use_the_same_server() {
    let host = Host::start("same").await;
    let (one, two) = (host.redis().await, host.redis().await);
    assert_eq!(one.pid(), two.pid());
    assert_eq!(one.url(), two.url());
    one.cli(&["SET", "k", "v"]).await;
    assert!(two.exists("k").await);
    drop(one);
    assert!(two.exists("k").await);
    let start = || worker("testkit-borrower").arg("ground").env("DISTLOCK_SERVERS", &host.socket);
    let (mut other, mut another) = (start().start().await, start().start().await);
    let says = [other.wait_for("uses ").await, another.wait_for("uses ").await];
    assert_ne!(says[0], says[1], "the names of two processes differ");
    assert!(says.iter().all(|line| line.starts_with(&format!("uses {} t", two.pid()))));
    let users: Vec<String> = two.ask(&["ACL", "USERS"]).await;
    assert_eq!(users.len(), 3, "one for each process: {users:?}");
    assert!(other.finish().await.success());
    assert!(another.finish().await.success());
    let users: Vec<String> = two.ask(&["ACL", "USERS"]).await;
    assert_eq!(users, ["default"]);
    host.finish().await;
}

#[tokio::test]
async fn two_askers_at_once_get_one_start() {
    let host = Host::start("once").await;
    let asks: Vec<_> = (0..4)
        .map(|_| {
            let lender = host.lender();
            tokio::task::spawn_blocking(move || lender.sentinels(Flavor::Redis))
        })
        .collect();
    let mut pids = Vec::new();
    for ask in asks {
        let set = ask.await.unwrap().expect("Redis is installed");
        assert_eq!((set.servers().len(), set.sentinels().len()), (2, 3));
        pids.push(set.servers().iter().map(|server| server.pid()).collect::<Vec<_>>());
        assert!(set.primary().await.is_primary().await);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1);
    host.finish().await;
}

#[tokio::test]
async fn a_lent_server_cannot_be_broken() {
    let host = Host::start("whole").await;
    let server = host.redis().await;
    for (what, broken) in
        [("kill", Server::kill as fn(&Server)), ("stop", Server::stop), ("continue", Server::cont)]
    {
        let why = complaint(|| broken(&server));
        assert!(why.contains(&format!("cannot {what} the server")), "{why}");
        assert!(why.contains("starts one of its own"), "{why}");
    }
    let lent = server.pid();
    let restart = tokio::spawn(async move { server.restart().await }).await;
    assert!(restart.unwrap_err().is_panic());
    assert!(runs(lent));
    host.finish().await;
}

#[tokio::test]
async fn its_servers_end_with_the_host() {
    let mut host = Host::start("end").await;
    let server = host.redis().await;
    let cluster = host.ask(|lender| lender.cluster(Flavor::Redis)).await.expect("it is installed");
    assert_eq!(cluster.nodes().len(), 6);
    cluster.healed().await;
    let least = cluster.least_privilege("t-", "auto");
    assert!(least.starts_with("redis+cluster://least"));
    let tls = host.ask(|lender| lender.tls_server()).await.expect("Redis is installed");
    assert!(tls.url().contains("&cert=/"));
    assert!(tls.certificates().unwrap().client_key.exists());
    tls.cli(&["PING"]).await;
    let mut all: Vec<_> = cluster.nodes().iter().map(|node| (node.pid(), node.dir())).collect();
    all.extend([(server.pid(), server.dir()), (tls.pid(), tls.dir())]);
    assert!(all.iter().all(|(pid, dir)| runs(*pid) && dir.is_dir()));
    host.process.close();
    assert_eq!(host.process.line().await, None);
    for (pid, dir) in all {
        assert!(!runs(pid));
        assert!(!dir.exists());
    }
}

#[tokio::test]
async fn a_server_that_died_is_reported_once_with_its_users() {
    let host = Host::start("dead").await;
    let server = host.redis().await;
    // A test that kills what it was lent after all.
    let _ = server.try_cli(&["SHUTDOWN", "NOSAVE"]).await;
    let pid = server.pid();
    eventually("it is gone", || async { !runs(pid) }).await;
    let lender = host.lender();
    let ask = move || complaint(|| drop(lender.server(Flavor::Redis)));
    let why = tokio::task::spawn_blocking(ask).await.unwrap();
    assert!(why.contains("the shared Redis server was broken by one of its users"), "{why}");
    assert!(why.contains(&format!("(process {pid}) has ended")), "{why}");
    assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
    assert_ne!(host.redis().await.pid(), pid);
    host.finish().await;
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let why = complaint(|| drop(Lender::at("/nonexistent/host.sock").server(Flavor::Redis)));
    assert!(why.contains("no answer from the host of shared servers at /nonexistent/host.sock"));
}

#[tokio::test]
async fn a_lent_jvm_answers_each_of_its_users() {
    let host = Host::start("jvm").await;
    let ask = || host.ask(|lender| lender.peer(Version::Newest, Site::One, WATCHDOG, 0));
    let Some(one) = ask().await else { return };
    let two = ask().await.expect("it was there a moment ago");
    assert_eq!(one.peer.uuid(), two.peer.uuid());
    assert_eq!(one.server.pid(), two.server.pid());
    let why = complaint(|| one.peer.kill());
    assert!(why.contains("cannot kill this JVM"), "{why}");

    // Both call their threads the same, and each command gets its own answer.
    let (one, two, server) = (Arc::new(one.peer), Arc::new(two.peer), two.server);
    let (first, second) = (one.thread("a"), two.thread("a"));
    assert_ne!(first.owner().await, second.owner().await);
    let mut answers = Vec::new();
    for n in 0..50 {
        let (mine, theirs) = (format!("one-{n}"), format!("two-{n}"));
        first.lock(Kind::Plain, &mine).await;
        answers.push((first.is_locked(Kind::Plain, &mine), true));
        answers.push((second.is_locked(Kind::Plain, &theirs), false));
        answers.push((second.is_locked(Kind::Plain, &mine), true));
        answers.push((second.is_held(Kind::Plain, &mine), false));
    }
    for (answer, expected) in answers {
        assert_eq!(answer.await, expected);
    }

    // A user that goes away no longer waits.
    second.lock(Kind::Plain, "busy").await;
    let waits = first.lock(Kind::Plain, "busy");
    // Redisson keeps the subscription of a thread that is interrupted while it subscribes.
    eventually("it sleeps", || async { first.is_asleep().await }).await;
    let channel = "redisson_lock__channel:{busy}".to_owned();
    let heard = || async { server.pubsub_channels().await.contains(&channel) };
    assert!(heard().await);
    drop((waits, first, one));
    eventually("nobody waits", || async { !heard().await }).await;
    second.unlock(Kind::Plain, "busy").await;
    host.finish().await;
}

#[tokio::test]
async fn two_processes_use_one_jvm() {
    let host = Host::start("pair").await;
    let start = || worker("testkit-borrower").arg("pair").env("DISTLOCK_SERVERS", &host.socket);
    let (mut one, mut two) = (start().start().await, start().start().await);
    let (Some(one_says), Some(two_says)) =
        (one.line_within(START).await, two.line_within(START).await)
    else {
        return; // it has said SKIPPED
    };
    assert_eq!(one_says, two_says, "one server and two JVMs");
    assert!(one.finish().await.success());
    assert!(two.finish().await.success());
    host.finish().await;
}
