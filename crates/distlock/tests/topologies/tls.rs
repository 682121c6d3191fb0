//! Encrypted connections work, and whatever is wrong with one of them fails closed. Unix sockets work too.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Locks, State};
use distlock_testkit::proxy::Proxy;
use distlock_testkit::server::Certificates;
use distlock_testkit::{Flavor, Server, Tls, assert_clean};

const SOON: Duration = Duration::from_secs(30);
/// A watchdog's time-out for a hold that must be kept: a machine that stands still for some seconds does not cost it.
const STEADY: Duration = Duration::from_secs(6);

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Locks, waits, is woken, renews and releases.
async fn serves(server: &Server, url: &str) {
    let connect = async || Locks::builder().url(url).watchdog(STEADY).connect().await.expect(url);
    let (locks, other) = (connect().await, connect().await);
    let guard = locks.mutex("served").lock().await.expect("a free lock");
    let waiting = tokio::spawn(other.mutex("served").lock().into_future());
    eventually("it waits", async || !server.pubsub_channels().await.is_empty()).await;
    let before = server.calls("pexpire").await;
    eventually("renewed", async || server.calls("pexpire").await > before + 1).await;
    // The server counts a renewal before the holder has the answer.
    eventually("held", async || guard.state() == State::Held).await;
    guard.unlock().await.expect("a free lock");
    let next = tokio::time::timeout(SOON, waiting)
        .await
        .expect("woken")
        .expect("no panic")
        .expect("no error");
    next.unlock().await.expect("a free lock");
    drop((locks, other));
    eventually("no connection is left", async || server.client_count().await == 0).await;
    assert_clean(server, "served").await;
}

#[tokio::test]
async fn a_unix_socket_serves() {
    let server = Server::redis().await;
    serves(&server, &server.unix_url()).await;
}

/// Refused in bounded time, and the server was told nothing.
async fn fails_closed(server: &Server, url: &str, kinds: &[ErrorKind]) {
    server.reset_stats().await;
    let connecting = tokio::time::timeout(SOON, Locks::connect(url));
    let error = connecting.await.expect("bounded").expect_err(url);
    assert!(kinds.contains(&error.kind()), "{url}: {error:?}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    assert_eq!(server.calls("hello").await, 0, "{url}");
}

/// A URL with the scheme of the other sort of port says which one to write.
#[tokio::test]
async fn the_wrong_scheme_is_named() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).start().await;
    let plain = format!("redis://:canary@{}", server.addr());
    let error = Locks::connect(&plain).await.expect_err("it is encrypted");
    assert!(error.to_string().contains("write rediss:// instead of redis://"), "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    // With certificates to trust, so that nothing else is in the way.
    let options = server.url().split_once('?').map(|(_, options)| options.to_owned()).unwrap();
    let unencrypted = Server::redis().await;
    let encrypted = format!("rediss://:canary@{}?{options}", unencrypted.addr());
    for _ in 0..8 {
        let error = Locks::connect(&encrypted).await.expect_err("it is not encrypted");
        assert!(error.to_string().contains("write redis:// instead of rediss://"), "{error}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn an_encrypted_connection_serves() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).start().await;
    serves(&server, &server.url()).await;
    let by_name = server.url().replace("127.0.0.1", "localhost");
    serves(&server, &by_name).await;
}

#[tokio::test]
async fn a_certificate_on_both_sides_and_a_password_serve() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Mutual).password("secret").start().await;
    serves(&server, &server.url()).await;
}

#[tokio::test]
async fn an_encrypted_connection_that_breaks_is_made_again() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Mutual).start().await;
    let proxy = Proxy::start(server.addr()).await;
    let url = server.url_at(proxy.addr());
    let locks = Locks::builder().url(url).watchdog(STEADY).connect().await.unwrap();
    let guard = locks.mutex("broken").lock().await.unwrap();
    for _ in 0..3 {
        proxy.reset_all().await;
        let before = server.calls("pexpire").await;
        eventually("renewed", async || server.calls("pexpire").await > before).await;
    }
    // The server counts a renewal before the holder has the answer.
    eventually("held", async || guard.state() == State::Held).await;
    guard.unlock().await.unwrap();
    assert_clean(&server, "broken").await;
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).password("canary").start().await;
    let elsewhere = server.dir().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let others = Certificates::generate(&elsewhere, Tls::Server);
    let at = format!("rediss://:canary@{}", server.addr());
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    fails_closed(&server, &format!("{at}?ca={}", others.ca.display()), &kinds).await;
    // The system does not trust it either.
    fails_closed(&server, &at, &kinds).await;
    fails_closed(&server, &format!("{at}?ca=/no/such/file"), &[ErrorKind::Config]).await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Expired).password("canary").start().await;
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    fails_closed(&server, &server.url(), &kinds).await;
}

/// Broken for long. The server would speak it.
#[tokio::test]
async fn an_old_protocol_is_refused() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).password("canary");
    let old = ["--tls-protocols", "TLSv1.1", "--tls-ciphers", "DEFAULT@SECLEVEL=0"];
    let server = server.args(old).start().await;
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    fails_closed(&server, &server.url(), &kinds).await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Server).password("canary");
    let server = server.args(["--bind", "127.0.0.1", "127.0.0.2"]).start().await;
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    fails_closed(&server, &format!("{}&sni=elsewhere.example", server.url()), &kinds).await;
    // The machine is the same, its name is not the one in the certificate.
    let by_other_name = server.url().replace("127.0.0.1", "127.0.0.2");
    fails_closed(&server, &by_other_name, &kinds).await;
    // Unless it is said which name to expect.
    serves(&server, &format!("{by_other_name}&sni=localhost")).await;
}

#[tokio::test]
async fn a_client_without_the_certificate_that_is_asked_for_is_refused() {
    let server = Server::builder(Flavor::Redis).tls(Tls::Mutual).password("canary").start().await;
    let certificates = server.certificates().expect("a server with TLS").clone();
    let at = format!("rediss://:canary@{}?ca={}", server.addr(), certificates.ca.display());
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    fails_closed(&server, &at, &kinds).await;
    let elsewhere = server.dir().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let others = Certificates::generate(&elsewhere, Tls::Server);
    let (cert, key) = (others.client_cert.display(), others.client_key.display());
    fails_closed(&server, &format!("{at}&cert={cert}&key={key}"), &kinds).await;
    let half = format!("{at}&cert={cert}");
    fails_closed(&server, &half, &[ErrorKind::Config]).await;
}

#[tokio::test]
async fn encryption_is_neither_dropped_nor_assumed() {
    let plain = Server::builder(Flavor::Redis).password("canary").start().await;
    let encrypted =
        Server::builder(Flavor::Redis).tls(Tls::Server).password("canary").start().await;
    let ca = &encrypted.certificates().expect("a server with TLS").ca;
    let kinds = [ErrorKind::Config, ErrorKind::Unavailable];
    let to_plain = format!("rediss://:canary@{}?ca={}", plain.addr(), ca.display());
    fails_closed(&plain, &to_plain, &kinds).await;
    let to_encrypted = format!("redis://:canary@{}", encrypted.addr());
    fails_closed(&encrypted, &to_encrypted, &kinds).await;
}
