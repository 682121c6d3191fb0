//! Names, durations, URLs and foreign data that a careless or hostile caller may bring.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::error::Error as _;
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks};
use distlock_testkit::suites::{Ground, Site};
use distlock_testkit::{Flavor, Server};
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

/// Names that are odd, but names.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        " ",
        "a\r\nb",
        "\r\nFLUSHALL\r\n",
        "*1\r\n$8\r\nFLUSHALL\r\n",
        "$-1\r\n",
        "nul\0nul",
        "\0",
        "ключ",
        "🔒",
        "e\u{301}",
        "é",
        "\u{202e}drawkcab",
        "'); redis.call('flushall')--",
        "\"]] redis.call('flushall') --[[",
        "%s%n%d",
        "*",
        "?",
        "[a-z]",
        "\\",
        "{}",
        "x{y",
        "{a",
        "a}b",
        "{a}{b}",
        "a{b}c",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a%2fb",
        "CON",
        "-rf",
        "A",
        "a",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(4096));
    names.push("я".repeat(2048));
    names
}

async fn grounds() -> Vec<(String, Locks, Locks, Option<Server>, Option<Ground>)> {
    let mut all = Vec::new();
    for site in [Site::Memory, Site::File] {
        let ground = Ground::at(site).unwrap();
        let (here, elsewhere) = (ground.open().await, ground.open().await);
        all.push((format!("{site:?}"), here, elsewhere, None, Some(ground)));
    }
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let here = Locks::connect(&server.url()).await.unwrap();
        let elsewhere = Locks::connect(&server.url()).await.unwrap();
        all.push((format!("{flavor:?}"), here, elsewhere, Some(server), None));
    }
    all
}

#[tokio::test]
async fn odd_names_are_names_and_nothing_else() {
    for (store, here, elsewhere, server, _ground) in grounds().await {
        if let Some(server) = &server {
            server.cli(&["SET", "canary", "alive"]).await;
        }
        for name in odd_names() {
            let short: String = name.chars().take(20).collect();
            let context = format!("{short:?} on {store}");
            let guard = here.mutex(&name).lock().lease(HOUR).await.expect(&context);
            assert_eq!(guard.name(), name, "{context}");
            assert!(elsewhere.mutex(&name).try_lock().await.unwrap().is_none(), "{context}");
            let listed = elsewhere.list(&name).await.unwrap();
            assert_eq!(listed.len(), 1, "{context}: {listed:?}");
            assert_eq!(*listed[0].name, *name, "{context}");
            if let Some(server) = &server {
                let mut keys: Vec<Vec<u8>> = server.ask(&["KEYS", "*"]).await;
                keys.sort();
                let mut expected = vec![name.clone().into_bytes(), b"canary".to_vec()];
                expected.sort();
                assert_eq!(keys, expected, "{context}");
            }
            // A waiter, so that the name also goes through a subscription.
            let waiter = tokio::spawn(elsewhere.mutex(&name).lock().into_future());
            tokio::time::sleep(Duration::from_millis(5)).await;
            guard.unlock().await.expect(&context);
            let next = timeout(Duration::from_secs(5), waiter).await.expect(&context);
            next.unwrap().expect(&context).unlock().await.expect(&context);
            assert_eq!(here.list("").await.unwrap(), [], "{context}");
        }
        if let Some(server) = &server {
            let alive: String = server.ask(&["GET", "canary"]).await;
            assert_eq!(alive, "alive");
        }
    }
}

/// No two different names are the same lock.
#[tokio::test]
async fn odd_names_do_not_collide() {
    for (store, here, elsewhere, _server, _ground) in grounds().await {
        let mut guards = Vec::new();
        for name in odd_names() {
            let guard = here.mutex(&name).try_lock().await.unwrap();
            guards.push(guard.unwrap_or_else(|| panic!("{name:?} collides on {store}")));
        }
        assert_eq!(elsewhere.list("").await.unwrap().len(), guards.len(), "{store}");
        for guard in guards {
            guard.unlock().await.unwrap();
        }
        assert_eq!(elsewhere.list("").await.unwrap(), [], "{store}");
    }
}

fn is_invalid_name(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().len() < 500, "the error repeats a long name");
}

#[tokio::test]
async fn a_name_must_be_there_and_not_too_long() {
    let ground = Ground::at(Site::Memory).unwrap();
    let locks = ground.open().await;
    let prefixed = ground.builder().prefix("p".repeat(96)).connect().await.unwrap();
    let huge = "x".repeat(64 << 20);
    let bad = [
        locks.mutex(""),
        locks.mutex("x".repeat(4097)),
        locks.mutex("я".repeat(2049)),
        locks.mutex(&huge),
        prefixed.mutex(""),
        prefixed.mutex("x".repeat(4001)),
    ];
    for mutex in bad {
        is_invalid_name(&mutex.lock().await.unwrap_err());
        is_invalid_name(&mutex.try_lock().await.unwrap_err());
        is_invalid_name(&mutex.is_locked().await.unwrap_err());
        is_invalid_name(&mutex.force_unlock().await.unwrap_err());
        is_invalid_name(&mutex.unlock(&locks.owner()).await.unwrap_err());
        is_invalid_name(&mutex.ttl().await.unwrap_err());
        assert_eq!(mutex.name(), "");
    }
    let longest = prefixed.mutex("x".repeat(4000)).lock().await.unwrap();
    assert_eq!(longest.name().len(), 4096);
}

/// A name cannot forge a log line or an error message.
#[tokio::test]
async fn names_are_escaped_where_people_read_them() {
    let locks = Locks::memory();
    let mutex = locks.mutex("a\n2026-01-01 ERROR all is lost\x1b[31m");
    let _guard = mutex.lock().await.unwrap();
    let error = mutex.lock().wait(Duration::ZERO).await.unwrap_err();
    for text in
        [error.to_string(), format!("{error:?}"), format!("{mutex:?}"), format!("{_guard:?}")]
    {
        assert!(!text.contains('\n') && !text.contains('\x1b'), "{text}");
    }
}

#[tokio::test]
async fn durations_that_cannot_be_kept_are_refused() {
    let locks = Locks::memory();
    let mutex = locks.mutex("k");
    let ten_years = Duration::from_secs(10 * 365 * 24 * 3600);
    let guard = locks.mutex("held").lock().await.unwrap();
    for lease in [Duration::ZERO, Duration::MAX, ten_years + Duration::from_nanos(1)] {
        for error in [
            mutex.lock().lease(lease).await.unwrap_err(),
            mutex.try_lock().lease(lease).await.unwrap_err(),
            mutex.lock().lease(lease).wait(Duration::MAX).await.unwrap_err(),
            guard.extend(lease).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidDuration, "{lease:?}");
            assert!(!error.is_retryable());
        }
    }
    assert!(!mutex.is_locked().await.unwrap(), "nothing was sent");
    assert!(!guard.is_lost());
    for watchdog in [Duration::ZERO, Duration::from_millis(99), ten_years * 2, Duration::MAX] {
        let error = Locks::builder().url("memory:").watchdog(watchdog).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidDuration, "{watchdog:?}");
    }
    let floor = Duration::from_millis(100);
    Locks::builder().url("memory:").watchdog(floor).connect().await.unwrap();
}

#[tokio::test]
async fn the_longest_durations_do_not_overflow() {
    for (store, here, elsewhere, _server, _ground) in grounds().await {
        let ten_years = Duration::from_secs(10 * 365 * 24 * 3600);
        let guard = here.mutex("k").lock().wait(Duration::MAX).lease(ten_years).await.unwrap();
        let ttl = elsewhere.mutex("k").ttl().await.unwrap().unwrap();
        assert!(ttl <= ten_years && ttl > ten_years - HOUR, "{store}: {ttl:?}");
        assert!(guard.remaining() > ten_years / 2, "{store}");
        let waiter =
            tokio::spawn(elsewhere.mutex("k").try_lock().wait(Duration::MAX).into_future());
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiter.is_finished(), "{store}");
        guard.unlock().await.unwrap();
        let next = timeout(Duration::from_secs(5), waiter).await.expect(&store);
        next.unwrap().unwrap().expect(&store).unlock().await.unwrap();
    }
}

/// Less than a millisecond is one: rounding down would be a lock that is free at once.
#[tokio::test]
async fn a_lease_under_a_millisecond_rounds_up() {
    for (store, here, _elsewhere, server, _ground) in grounds().await {
        for nanos in [1, 999_999] {
            let lease = Duration::from_nanos(nanos);
            // It may be over before the answer is here, which is no error of the store's.
            let _ = here.mutex("k").try_lock().lease(lease).await.expect(&store);
        }
        let guard =
            here.mutex("j").lock().lease(Duration::from_nanos(59_999_999_999)).await.unwrap();
        if let Some(server) = &server {
            assert!(server.pttl("j").await <= 60_000, "{store}");
        }
        guard.unlock().await.unwrap();
    }
}

/// Everything about a key, as a client could see it.
async fn dump(server: &Server, key: &str) -> Vec<u8> {
    server.ask::<Option<Vec<u8>>>(&["DUMP", key]).await.unwrap_or_default()
}

#[tokio::test]
async fn foreign_data_under_the_name_is_a_conflict_and_stays_as_it_is() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let locks = Locks::connect(&server.url()).await.unwrap();
        let foreign: [(&str, &[&str]); 8] = [
            ("string", &["SET", "string", "1"]),
            ("string-ttl", &["SET", "string-ttl", "1", "PX", "60000"]),
            ("list", &["RPUSH", "list", "1", "2"]),
            ("set", &["SADD", "set", "1"]),
            ("zset", &["ZADD", "zset", "1", "a"]),
            ("stream", &["XADD", "stream", "*", "f", "v"]),
            ("hash", &["HSET", "hash", "field", "value"]),
            ("hash-count", &["HSET", "hash-count", "00000000-0000-0000-0000-000000000000:1", "1"]),
        ];
        for (key, command) in foreign {
            server.cli(command).await;
            let (before, ttl) = (dump(&server, key).await, server.pttl(key).await);
            let mutex = locks.mutex(key);
            let limit = Duration::from_secs(5);
            let (must, may, wait) = (mutex.lock(), mutex.try_lock(), mutex.try_lock().wait(HOUR));
            let errors = [
                timeout(limit, must.into_future()).await.expect(key).expect_err(key),
                timeout(limit, may.into_future()).await.expect(key).expect_err(key),
                timeout(limit, wait.into_future()).await.expect(key).expect_err(key),
                mutex.inspect().await.expect_err(key),
                mutex.is_locked().await.expect_err(key),
                mutex.force_unlock().await.expect_err(key),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{key} on {flavor:?}: {error}");
                assert_eq!(error.lock_name(), Some(key));
                assert!(!error.is_retryable());
            }
            let unlocked = mutex.unlock(&locks.owner()).await.expect_err(key);
            assert!(
                matches!(unlocked.kind(), ErrorKind::Conflict | ErrorKind::NotHeld),
                "{unlocked:?}"
            );
            assert_eq!(dump(&server, key).await, before, "{key} was changed on {flavor:?}");
            let ttl_now = server.pttl(key).await;
            assert!(ttl_now == ttl || ttl > 0 && ttl_now > ttl - 20_000, "{key}: {ttl} {ttl_now}");
        }
        assert_eq!(locks.list("").await.unwrap(), [], "none of these is a lock");
        distlock_testkit::assert_clean(&server, "redisson_").await;
    }
}

/// Somebody else's hash with a time to live may be another client's lock: busy, and over when it is over.
#[tokio::test]
async fn a_foreign_holder_is_just_busy() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let locks = Locks::connect(&server.url()).await.unwrap();
        for (field, count) in [("somebody", "1"), ("client:thread", "7"), ("odd", "many")] {
            server.cli(&["HSET", "k", field, count]).await;
            server.cli(&["PEXPIRE", "k", "400"]).await;
            assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "{field}");
            let refused = locks.mutex("k").unlock(&locks.owner()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotHeld);
            let value: String = server.ask(&["HGET", "k", field]).await;
            assert_eq!(value, count);
            let next =
                timeout(Duration::from_secs(10), locks.mutex("k").lock().into_future()).await;
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
        server.cli(&["HSET", "k", &me.to_string(), count]).await;
        let inner = mutex.lock().owner(&me).lease(HOUR).await.expect(count);
        assert_eq!(mutex.hold_count(&me).await.unwrap(), 2, "{count:?}");
        server.cli(&["HSET", "k", &me.to_string(), count]).await;
        inner.unlock().await.expect(count);
        server.cli(&["HSET", "k", &me.to_string(), count]).await;
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
        "file:",
        "::::",
        "\0",
        "redis://ho st",
    ];
    for url in bad {
        let opened = timeout(Duration::from_secs(5), Locks::connect(url)).await;
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

const CANARY: &str = "canary4f1c9";

/// Everything an error says, its causes included, in both notations.
fn everything_said(error: &Error) -> String {
    let mut said = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        said += &format!(" {error} {error:?} {error:#?}");
        cause = error.source();
    }
    said
}

fn keeps_the_secret(text: &str) {
    assert!(!text.contains(CANARY) && !text.contains("anary4f1"), "{text}");
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
