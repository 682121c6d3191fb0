//! Foreign data, and addresses.

use super::*;

/// Somebody else's hash with a time to live may be another client's lock: busy, and over when it is over.
#[tokio::test]
async fn a_foreign_holder_is_just_busy() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let locks = Locks::connect(&server.url()).await.unwrap();
        for (field, count) in [("somebody", "1"), ("client:thread", "7"), ("odd", "many")] {
            server.cli(&["HSET", "k", field, count]).await;
            server.cli(&["PEXPIRE", "k", "3600000"]).await;
            assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "{field}");
            let refused = locks.mutex("k").unlock(&locks.owner()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotHeld);
            let value: String = server.ask(&["HGET", "k", field]).await;
            assert_eq!(value, count);
            server.cli(&["PEXPIRE", "k", "400"]).await;
            let next = timeout(SOON, locks.mutex("k").lock().into_future()).await;
            next.expect("it is over").unwrap().unlock().await.unwrap();
        }
    }
}

/// A count that somebody scribbled over is set right by the next step and cannot make the lock immortal.
#[tokio::test]
async fn a_scribbled_count_does_no_harm() {
    let server = Server::redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mutex = locks.mutex("k");
    for count in ["many", "-5", "99999999999999999999", ""] {
        let me = locks.owner();
        let outer = mutex.lock().owner(&me).lease(HOUR).await.unwrap();
        let stay = outer.stay().to_string();
        server.cli(&["HSET", "k", &stay, count]).await;
        let inner = mutex.lock().owner(&me).lease(HOUR).await.expect(count);
        assert_eq!(mutex.hold_count(&me).await.unwrap(), 2, "{count:?}");
        server.cli(&["HSET", "k", &stay, count]).await;
        inner.unlock().await.expect(count);
        server.cli(&["HSET", "k", &stay, count]).await;
        outer.unlock().await.expect(count);
        assert!(!server.exists("k").await, "{count:?}");
    }
}

/// A key that was made immortal while we held it: the holder still lets go of it.
#[tokio::test]
async fn a_hold_that_was_made_immortal_is_released() {
    let server = Server::redis().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let guard = locks.mutex("k").lock().lease(HOUR).await.unwrap();
    server.cli(&["PERSIST", "k"]).await;
    let refused = locks.mutex("k").try_lock().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    guard.unlock().await.unwrap();
    assert!(!server.exists("k").await);
}

#[tokio::test]
async fn urls_that_name_no_store_are_config_errors() {
    let bad = [
        "",
        "memory",
        "redis",
        "redis:",
        "redis://",
        "redis://:0",
        "redis://host:0",
        "redis://host:99999",
        "redis://host:port",
        "redis://host/db",
        "redis://host/-1",
        "redis://host?unknown=1",
        "redis://host#fragment",
        "redis://user@host",
        "redis+unix://",
        "redis+unix://host/path",
        "redis+nothing://host",
        "http://127.0.0.1",
        "postgres://127.0.0.1",
        "file",
        "::::",
        "\0",
        "redis://ho st",
    ];
    for url in bad {
        let opened = timeout(SOON, Locks::connect(url)).await;
        let error = opened.expect(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url:?}: {error}");
        assert!(!error.is_retryable());
        assert!(!error.to_string().is_empty());
    }
    let error = Locks::builder().connect().await.expect_err("no url");
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = Locks::connect_blocking("nonsense:").expect_err("no such store");
    assert_eq!(error.kind(), ErrorKind::Config);
}

/// What is wrong with a URL is said, with what to write instead.
#[tokio::test]
async fn urls_that_are_nearly_right_are_corrected() {
    for (url, said) in [
        ("localhost:6379", "did you mean redis://localhost:6379?"),
        ("redis:6379", "did you mean redis://redis:6379?"),
        ("10.0.0.7", "did you mean redis://10.0.0.7?"),
        ("db-1.example.org:6380", "did you mean redis://db-1.example.org:6380?"),
        ("redis://a,b:6379", "names several servers: write redis+sentinel://"),
        (
            "redis://user:canary@a:1,user:canary@b:2",
            "names several servers: write redis+sentinel://",
        ),
        ("redis://:canary@a,redis://:canary@b", "several URLs"),
        ("redis://:canary@a redis://:canary@b", "several URLs"),
        ("redis+nothing://:canary@host", "is none of redis://"),
    ] {
        let error = Locks::connect(url).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url:?}: {error}");
        assert!(error.to_string().contains(said), "{url:?}: {error}");
        assert!(!everything_said(&error).contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn a_password_is_never_said() {
    let server = Server::builder(Flavor::Redis).password(CANARY).start().await;
    let builder = Locks::builder().url(server.url()).prefix("p:");
    keeps_the_secret(&format!("{builder:?} {builder:#?}"));
    let locks = builder.connect().await.unwrap();
    let mutex = locks.mutex("k");
    let request = mutex.lock();
    keeps_the_secret(&format!("{locks:?} {locks:#?} {mutex:?} {request:?}"));
    let guard = request.await.unwrap();
    keeps_the_secret(&format!("{guard:?} {guard:#?}"));
    let busy = mutex.lock().wait(Duration::ZERO).await.unwrap_err();
    keeps_the_secret(&everything_said(&busy));
    server.kill();
    let gone = mutex.try_lock().await.unwrap_err();
    keeps_the_secret(&everything_said(&gone));
    keeps_the_secret(&format!("{locks:?} {guard:?}"));
    guard.leak();
}

#[tokio::test]
async fn a_wrong_password_is_a_config_error_that_keeps_it() {
    let server = Server::builder(Flavor::Redis).password("right1").start().await;
    let at = server.addr();
    let wrong = [
        format!("redis://:{CANARY}@{at}"),
        format!("redis://{CANARY}:{CANARY}@{at}"),
        format!("redis+unix://{}?pass={CANARY}", server.socket().display()),
    ];
    for url in wrong {
        let error = Locks::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        keeps_the_secret(&everything_said(&error));
    }
    let none = Locks::connect(&format!("redis://{at}")).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Config, "{none}");
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable_and_keeps_the_password() {
    // Bound and not listening: nobody else can take the port, and nobody answers on it.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let unreachable = [
        format!("redis://u:{CANARY}@127.0.0.1:{port}/1"),
        format!("redis://u:{CANARY}@no-such-host.invalid"),
        format!("redis+unix:///no/such.sock?pass={CANARY}"),
    ];
    for url in unreachable {
        let opened = timeout(Duration::from_secs(20), Locks::connect(&url)).await;
        let error = opened.expect(&url).expect_err(&url);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_retryable());
        keeps_the_secret(&everything_said(&error));
    }
    for url in [
        format!("redis://u:{CANARY}@host:99999"),
        format!("redis://u:{CANARY}@host/{CANARY}"),
        format!("redis://{CANARY}@host"),
        format!("redis://u:{CANARY}#@host"),
        format!("redis://u:{CANARY}/@host"),
        CANARY.to_owned(),
        format!("{CANARY}://x"),
    ] {
        let error = Locks::connect(&url).await.expect_err(&url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        keeps_the_secret(&everything_said(&error));
        let builder = Locks::builder().url(&url);
        keeps_the_secret(&format!("{builder:?}"));
    }
}
