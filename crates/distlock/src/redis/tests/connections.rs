//! How connections come, go and break.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::server::{
    LATE, Reconnects, Server, claim, connect, connect_observed, eventually, owner,
};
use crate::env::{BoxFuture, System};
use crate::locks::Durability;
use crate::redis::{Connector, Endpoint, RedisStore, Stream, Surroundings, Target};
use crate::store::{Attempt, Store};
use crate::{ErrorKind, Tracing};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_wrong_address_password_or_database_is_found_at_once() {
    let server = Server::start_with(&["--requirepass", "", "--databases", "4"]).await;
    let mut raw = server.raw().await;
    raw.run::<()>("ACL SETUSER lk on >right +@all ~* &*").await;
    let at = |start: &str, end: &str| format!("redis://{start}127.0.0.1:{}{end}", server.port());

    connect(&at("lk:right@", "/3")).await.unwrap();
    let table = [
        (at("lk:canary-1@", ""), ErrorKind::Config),
        (at("nobody:canary-1@", ""), ErrorKind::Config),
        (at("", "/9"), ErrorKind::Config),
        ("redis://127.0.0.1:1".to_owned(), ErrorKind::Unavailable),
        ("redis://no-such-host.invalid".to_owned(), ErrorKind::Unavailable),
        ("redis+unix:///no/such/socket".to_owned(), ErrorKind::Unavailable),
    ];
    for (url, kind) in table {
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    raw.run::<()>("CONFIG SET requirepass secret").await;
    let error = connect(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!format!("{:?}", connect(&at(":secret@", "")).await.unwrap()).contains("secret"));
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_unix_socket_serves_too() {
    let server = Server::start().await;
    let store = connect(&format!("redis+unix://{}?db=2", server.socket().display())).await.unwrap();
    store.acquire(&claim("k", owner(), 1)).await.unwrap();
    let mut raw = server.raw().await;
    assert!(!raw.run::<bool>("EXISTS k").await);
    raw.run::<()>("SELECT 2").await;
    assert!(raw.run::<bool>("EXISTS k").await);
}

/// Speaks like a server that knows neither HELLO nor discretion.
#[derive(Debug)]
struct Parrot;

impl Connector for Parrot {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        let (near, mut far) = tokio::io::duplex(4096);
        tokio::spawn(async move {
            let mut asked = vec![0; 4096];
            let n = far.read(&mut asked).await.unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..n]).replace(['\r', '\n'], " ");
            let answer = format!("-ERR unknown command 'HELLO', with args: {asked}\r\n");
            let _ = far.write_all(answer.repeat(4).as_bytes()).await;
            let _ = far.read(&mut [0; 1]).await;
        });
        Box::pin(async move { Ok(Box::new(near) as Box<dyn Stream>) })
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_server_that_repeats_the_password_does_not_get_it_into_an_error() {
    let target = Target::parse("redis://user:canary-1@host/2").unwrap();
    let surroundings = Surroundings {
        env: Arc::new(System),
        connector: Arc::new(Parrot),
        observer: Arc::new(Tracing),
        reply_timeout: LATE,
        durability: Durability::Primary,
        holder_info: false,
    };
    let error = RedisStore::connect(target, surroundings, false).await.unwrap_err();
    assert!(!error.is_retryable());
    let mut said = format!("{error} {error:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        said += &format!("{cause} {cause:?}");
        source = cause.source();
    }
    assert!(!said.contains("canary"), "{said}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn no_reply_in_time_is_indeterminate_and_costs_the_connection() {
    let server = Server::start().await;
    let seen = Arc::<Reconnects>::default();
    let store = connect_observed(&server.url(), seen.clone()).await.unwrap();
    let (mut raw, me) = (server.raw().await, owner());
    store.acquire(&claim("warm", me, 1)).await.unwrap();

    raw.run::<()>("CLIENT PAUSE 600000 WRITE").await;
    let start = Instant::now();
    let error = store.acquire(&claim("k", me, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert!(start.elapsed() >= LATE - Duration::from_millis(10));
    raw.run::<()>("CLIENT UNPAUSE").await;

    eventually("the server works again", async || store.acquire(&claim("k", me, 1)).await.is_ok())
        .await;
    assert!(seen.0.load(Ordering::SeqCst) >= 1);
    eventually("the old connection is closed", async || raw.connections().await == 1).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_connection_that_broke_while_idle_is_replaced_without_an_error() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    for _ in 0..5 {
        raw.run::<()>("CLIENT KILL TYPE normal SKIPME yes").await;
        // The end of the stream has to arrive before it can be known.
        tokio::time::sleep(Duration::from_millis(50)).await;
        store.acquire(&claim("k", owner(), 1)).await.unwrap();
        assert_eq!(raw.connections().await, 1);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_server_that_is_down_is_unavailable_and_many_callers_share_the_finding() {
    let server = Server::start().await;
    let store = server.store().await;
    let port = server.port();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    let callers: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.acquire(&claim("k", owner(), 1)).await.unwrap_err() })
        })
        .collect();
    for caller in callers {
        let error = caller.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
    assert!(start.elapsed() < LATE);
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn each_runtime_has_a_connection_and_takes_it_along() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (main, side) = (runtime(), runtime());
    let server = main.block_on(Server::start());
    let (store, mut raw) = main.block_on(async { (server.store().await, server.raw().await) });

    side.block_on(store.acquire(&claim("a", owner(), 1))).unwrap();
    assert_eq!(main.block_on(raw.connections()), 2);
    drop(side);
    main.block_on(eventually("closed with its runtime", async || raw.connections().await == 1));

    // Many runtimes come and go; their connections do not add up.
    for _ in 0..5 {
        runtime().block_on(store.acquire(&claim("b", owner(), 1))).unwrap();
    }
    assert!(format!("{store:?}").contains("runtimes: 2"), "{store:?}");
    main.block_on(store.acquire(&claim("c", owner(), 1))).unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn outside_a_runtime_a_step_is_an_error_and_no_panic() {
    let server = Server::start().await;
    let store = server.store().await;
    let answer = std::thread::spawn(move || {
        let claim = claim("k", owner(), 1);
        let mut step = store.acquire(&claim);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(step.as_mut().poll(&mut cx), std::task::Poll::Ready(Err(_)))
    });
    assert!(answer.join().unwrap());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn dropping_the_store_closes_everything() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    store.acquire(&claim("k", me, 1)).await.unwrap();
    let mut listener = store.listen(&claim("k", owner(), 1)).await.unwrap();
    assert_eq!(raw.connections().await, 2);
    drop(store);
    listener.heard().await;
    eventually("all connections closed", async || raw.connections().await == 0).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_dropped_step_leaves_the_store_working() {
    let server = Server::start().await;
    let store = server.store().await;
    for i in 0..200 {
        let claim = claim("k", owner(), 1);
        let step = store.acquire(&claim);
        let _ = tokio::time::timeout(Duration::from_micros(i * 2), step).await;
        // Whether or not it happened, the owner can find out.
        store.release(&crate::store::Claim { depth: 0, ..claim }).await.unwrap();
    }
    let last = store.acquire(&claim("k", owner(), 1)).await.unwrap();
    assert!(matches!(last, Attempt::Acquired { .. }), "{last:?}");
}

#[cfg(feature = "tls")]
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn tls_is_verified_both_ways() {
    let dir = std::env::temp_dir().join(format!("distlock-tls-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&dir).unwrap();
    let script = "
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > ext
        openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout s.key -out s.csr
        openssl x509 -req -in s.csr -CA ca.pem -CAkey ca.key -days 2 -extfile ext -out s.pem
    ";
    let made = std::process::Command::new("sh").args(["-ec", script]).current_dir(&dir).output();
    assert!(made.unwrap().status.success(), "openssl must be installed");
    let port = distlock_testkit::port::free();
    let file = |name: &str| dir.join(name).display().to_string();
    let (port_text, cert, key, ca) =
        (port.to_string(), file("s.pem"), file("s.key"), file("ca.pem"));
    let server = Server::start_with(&[
        "--tls-port",
        &port_text,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
    ])
    .await;

    let ours = format!("ca={ca}&cert={cert}&key={key}");
    let store = connect(&format!("rediss://localhost:{port}?{ours}")).await.unwrap();
    store.acquire(&claim("k", owner(), 1)).await.unwrap();
    connect(&format!("rediss://127.0.0.1:{port}/1?{ours}")).await.unwrap();

    let table = [
        (format!("rediss://localhost:{port}?{ours}&sni=elsewhere"), ErrorKind::Config),
        (format!("rediss://localhost:{port}?cert={cert}&key={key}"), ErrorKind::Config),
        (format!("rediss://localhost:{port}?ca=/no/such/file"), ErrorKind::Config),
        (format!("rediss://localhost:{port}?ca={ca}"), ErrorKind::Unavailable),
        // A server that does not speak TLS waits for the rest of what it takes for a command.
        (format!("rediss://localhost:{}?{ours}", server.port()), ErrorKind::Unavailable),
    ];
    for (url, kind) in table {
        let error = connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}
