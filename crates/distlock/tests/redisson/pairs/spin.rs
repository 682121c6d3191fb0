//! `spin` beside `RedissonClient.getSpinLock`.

exclusive_beside_java!(spin, Kind::Spin, Line::Unseen);

/// A release of Redisson's spin lock is not called out. A mutex of ours that waits for it looks by itself, long before the
/// lease would end; a spinning waiter of Java's sees any release.
pub(super) async fn a_mutex_finds_out_that_it_is_free(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let locks = pair.rust().await;
    java.lock_for(JAVA, &name, HOUR).await;
    let waiter = tokio::spawn(locks.mutex(&name).lock().lease(HOUR).into_future());
    pair.waiting(&name, 1).await;
    java.unlock(JAVA, &name).await;
    let guard = timeout(SOON, waiter).await.expect("it looks");
    let guard = guard.expect("no panic").expect("it gets free");
    let mut next = java.lock_for(JAVA, &name, HOUR);
    assert!(java_waits(&pair).await && !next.is_done(), "two are inside");
    guard.unlock().await.expect("it was held");
    next.within(secs(20)).await;
    java.unlock(JAVA, &name).await;
}

/// A release of ours is called out, so that a plain lock of Java's hears it.
pub(super) async fn a_plain_lock_of_javas_is_called(pair: Pair) {
    let (java, name) = (pair.java("a"), pair.name("k"));
    let guard = pair.rust().await.spin(&name).lock().lease(HOUR).await.expect("it is free");
    let waiter = java.lock_for(Kind::Plain, &name, HOUR);
    pair.waiting(&name, 1).await;
    guard.unlock().await.expect("it was held");
    waiter.within(secs(20)).await;
    java.unlock(Kind::Plain, &name).await;
}

/// Waits until another thread of the same JVM has been answered: what was sent before has begun.
async fn java_waits(pair: &Pair) -> bool {
    !pair.java("other").is_locked(JAVA, &pair.name("free")).await
}
