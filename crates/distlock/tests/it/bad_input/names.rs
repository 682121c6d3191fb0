//! Names and durations.

use super::*;

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
            let next = timeout(SOON, waiter).await.expect(&context);
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
        let next = timeout(SOON, waiter).await.expect(&store);
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
            let (must, may, wait) = (mutex.lock(), mutex.try_lock(), mutex.try_lock().wait(HOUR));
            let errors = [
                timeout(SOON, must.into_future()).await.expect(key).expect_err(key),
                timeout(SOON, may.into_future()).await.expect(key).expect_err(key),
                timeout(SOON, wait.into_future()).await.expect(key).expect_err(key),
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
