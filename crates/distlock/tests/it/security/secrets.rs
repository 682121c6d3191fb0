//! A password is in nothing that this library says, logs at the finest level included, whatever goes wrong.

use std::error::Error as _;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use distlock::{Error, Locks};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Cluster, Flavor, Proxy, Server, Tls};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// As the server knows it, and as it must be written in a URL. Both have the piece that is looked for.
const PASSWORD: &str = "p@canary7c1/:#é";
const IN_URL: &str = "p%40canary7c1%2F%3A%23%C3%A9";
const PIECE: &str = "canary7c1";

/// Everything that was logged in this process, at every level and by every crate.
static LOG: Mutex<String> = Mutex::new(String::new());

struct Everything;

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        line.keep();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        line.keep();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        line.keep();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Line {
    fn keep(mut self) {
        self.0.push('\n');
        LOG.lock().unwrap_or_else(PoisonError::into_inner).push_str(&self.0);
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

fn keeps_the_secret(text: &str) {
    assert!(!text.contains(PIECE), "{text}");
}

/// An error, with its causes, in both notations.
fn examine(error: &Error) {
    keeps_the_secret(&format!("{error} {error:?} {error:#?}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        keeps_the_secret(&format!("{error} {error:?} {error:#?}"));
        cause = error.source();
    }
}

async fn user(server: &Server) {
    let rule = ["ACL", "SETUSER", "lk", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"];
    server.cli(&rule).await;
}

/// Everything that can be had of a store, in words.
async fn look_at_everything(locks: &Locks) {
    let mutex = locks.mutex("k");
    let request = mutex.lock();
    keeps_the_secret(&format!("{locks:#?} {mutex:#?} {request:#?} {:#?}", locks.owner()));
    let guard = request.await.expect("free");
    keeps_the_secret(&format!("{guard:#?} {:#?}", mutex.inspect().await));
    let busy = mutex.lock().wait(Duration::ZERO).await.expect_err("held");
    examine(&busy);
    keeps_the_secret(&format!("{:#?}", locks.fair("f")));
    keeps_the_secret(&format!("{:#?} {:#?}", locks.rw("r"), locks.semaphore("s")));
    keeps_the_secret(&format!("{:#?} {:#?}", locks.latch("l"), locks.multi(["a", "b"])));
    guard.unlock().await.expect("held");
}

/// One test, because what is logged is of the whole process.
#[tokio::test]
async fn a_password_is_never_said_or_logged() {
    tracing::subscriber::set_global_default(Everything).expect("the only one of this process");

    let server = Server::redis().await;
    user(&server).await;
    let proxy = Proxy::start(server.addr()).await;
    let url = format!("redis://lk:{IN_URL}@{}", proxy.addr());
    let builder = Locks::builder().url(&url).watchdog(Duration::from_secs(9));
    keeps_the_secret(&format!("{builder:#?}"));
    let locks = builder.connect().await.expect("the user may do everything");
    look_at_everything(&locks).await;

    // A connection that breaks, a server that is silent, one that refuses.
    let guard = locks.mutex("k").lock().await.expect("free");
    proxy.reset_all().await;
    examine(&locks.mutex("k").lock().wait(Duration::from_millis(50)).await.expect_err("held"));
    proxy.blackhole(true);
    eventually("noticed", || async { guard.is_lost() }).await;
    examine(&guard.unlock().await.expect_err("lost"));
    proxy.heal().await;
    server.cli(&["ACL", "SETUSER", "lk", "-evalsha"]).await;
    examine(&locks.mutex("k").try_lock().await.expect_err("not permitted"));
    server.cli(&["ACL", "DELUSER", "lk"]).await;
    let refused = locks.mutex("k").lock().wait(Duration::from_millis(50)).await;
    examine(&refused.expect_err("nobody"));
    examine(&Locks::connect(&url).await.expect_err("nobody"));
    server.kill();
    let gone = locks.mutex("k").lock().wait(Duration::from_millis(50)).await;
    examine(&gone.expect_err("no server"));

    // Other ways to get there.
    let encrypted = Server::builder(Flavor::Redis).tls(Tls::Server).start().await;
    user(&encrypted).await;
    let at = encrypted.url().replace("rediss://", &format!("rediss://lk:{IN_URL}@"));
    look_at_everything(&Locks::connect(&at).await.expect("trusted")).await;
    let untrusted = format!("rediss://lk:{IN_URL}@{}", encrypted.addr());
    examine(&Locks::connect(&untrusted).await.expect_err("nobody vouches for it"));
    let socket = format!("redis+unix://{}?user=lk&pass={IN_URL}", encrypted.socket().display());
    look_at_everything(&Locks::connect(&socket).await.expect("a socket")).await;
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    for node in cluster.nodes() {
        user(node).await;
    }
    let at = cluster.url("auto").replace("://", &format!("://lk:{IN_URL}@"));
    let locks = Locks::connect(&at).await.expect("a cluster");
    look_at_everything(&locks).await;
    cluster.nodes().iter().for_each(|node| node.kill());
    let gone = locks.mutex("k").lock().wait(Duration::from_millis(50)).await;
    examine(&gone.expect_err("no server"));
    examine(&Locks::connect(&at).await.expect_err("no server"));

    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(log.contains("distlock") && log.contains("lock lost"), "this was no log: {log}");
    keeps_the_secret(&log);
}
