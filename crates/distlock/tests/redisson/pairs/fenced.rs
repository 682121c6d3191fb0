//! `fenced` beside `RedissonClient.getFencedLock`.

exclusive_beside_java!(fenced, Kind::Fenced, Line::Channel);

/// Every acquisition of either side has a larger token than any before it.
pub(super) async fn tokens_grow_across_both(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = pair.rust().await.fenced(&name);
    let mut last = 0;
    let mut grows = |token: u64| {
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    for round in 0..12 {
        if round % 3 != 1 {
            let held = match round % 2 {
                0 => java.lock(JAVA, &name).await,
                _ => java.lock_for(JAVA, &name, HOUR).await,
            };
            grows(held.token.expect("a fenced lock has tokens"));
            // Java counts a re-entry too.
            let again = java.try_lock(JAVA, &name, ms(0), Some(HOUR)).await.expect("it is Java's");
            grows(again.token.expect("a fenced lock has tokens"));
            java.unlock(JAVA, &name).await;
            java.unlock(JAVA, &name).await;
        }
        if round % 3 != 2 {
            let guard = lock.lock().lease(HOUR).await.expect("it is free");
            grows(guard.token());
            assert_eq!(java.token(&name).await.unsigned_abs(), guard.token());
            let again = lock.lock().owner(guard.owner()).await.expect("it is mine");
            assert!(again.token() >= guard.token());
            drop(again);
            guard.unlock().await.expect("it was held");
        }
        if round == 6 {
            // Whoever lets itself be forced out has an older one than the next.
            java.lock(JAVA, &name).await;
            assert!(lock.force_unlock().await.expect("the server answers"));
        }
    }
}

/// Who waited for the other side has a larger token than the one it waited for.
pub(super) async fn a_waiters_token_is_the_larger_one(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let lock = hearing(&pair).await.fenced(&name);
    for _ in 0..3 {
        let guard = lock.lock().lease(HOUR).await.expect("it is free");
        let first = guard.token();
        pair.waiting(&name, 0).await;
        let waiter = java.lock_for(JAVA, &name, HOUR);
        pair.waiting(&name, 1).await;
        guard.unlock().await.expect("it was held");
        let second = waiter.within(secs(20)).await.token.expect("a fenced lock has tokens");
        pair.waiting(&name, 0).await;
        let waiter = tokio::spawn(lock.lock().lease(HOUR).into_future());
        pair.waiting(&name, 1).await;
        java.unlock(JAVA, &name).await;
        let guard = timeout(SOON, waiter).await.expect("it is called");
        let guard = guard.expect("no panic").expect("it gets free");
        let third = guard.token();
        assert!(first < second && second < third, "{first}, {second}, {third}");
        guard.unlock().await.expect("it was held");
    }
}

/// A lock without tokens of the same name excludes and is excluded, and calls and is called.
pub(super) async fn it_is_one_lock_with_the_plain_one(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let locks = hearing(&pair).await;
    java.lock_for(Kind::Plain, &name, HOUR).await;
    assert!(locks.fenced(&name).try_lock().await.expect("the server answers").is_none());
    let waiter = tokio::spawn(locks.fenced(&name).lock().lease(HOUR).into_future());
    pair.waiting(&name, 1).await;
    java.unlock(Kind::Plain, &name).await;
    let guard = timeout(SOON, waiter).await.expect("it is called");
    let guard = guard.expect("no panic").expect("it gets free");
    assert!(java.try_lock(Kind::Plain, &name, ms(0), None).await.is_none());
    guard.unlock().await.expect("it was held");

    java.lock_for(JAVA, &name, HOUR).await;
    assert!(locks.mutex(&name).try_lock().await.expect("the server answers").is_none());
    pair.waiting(&name, 0).await;
    let waiter = tokio::spawn(locks.mutex(&name).lock().lease(HOUR).into_future());
    pair.waiting(&name, 1).await;
    java.unlock(JAVA, &name).await;
    let guard = timeout(SOON, waiter).await.expect("it is called");
    let guard = guard.expect("no panic").expect("it gets free");
    assert!(java.try_lock(JAVA, &name, ms(0), None).await.is_none());
    guard.unlock().await.expect("it was held");
}
