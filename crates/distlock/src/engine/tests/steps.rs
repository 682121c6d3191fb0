//! Steps of one process that meet each other.

use super::*;

/// Lets whatever can happen now happen.
async fn calm() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

impl Scene {
    /// A single try after a drop: it waits until the store, which is behind, knows of that.
    async fn comes_after<G: Send + 'static>(
        &self,
        gone: impl Sized,
        next: impl Future<Output = Result<Option<G>>> + Send + 'static,
    ) {
        self.store.wait_at_the_gate().await;
        drop(gone);
        let trying = tokio::spawn(next);
        calm().await;
        assert!(!trying.is_finished(), "it did not wait for the release before it");
        self.store.gate.add_permits(1);
        let tried = timeout(LONG, trying).await.expect("it ends").unwrap().unwrap();
        drop(tried.expect("what was held before is free"));
        calm().await;
    }
}

/// An attempt that got no answer is taken back while a renewal of the holder's is under way. By the time the store hears of
/// that, the owner has come back.
#[tokio::test(start_paused = true)]
async fn what_is_taken_back_late_is_not_what_its_owner_got_since() {
    let scene = Scene::new("forgets").await;
    let holder = scene.locks.mutex("k").lock().await.unwrap();
    let owner = scene.locks.owner();
    scene.store.whims.renews_late.store(true, Ordering::Relaxed);
    scene.store.whims.remembers.store(true, Ordering::Relaxed);
    scene.store.be(Mood::Mute);
    sleep(LONG / 3 - Duration::from_millis(500)).await; // the renewal is due during the attempt
    let failed = scene.locks.mutex("k").try_lock().owner(&owner).await;
    scene.store.wait_at_the_gate().await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Indeterminate);
    drop(holder);
    scene.store.be(Mood::Well);
    scene.store.gate.add_permits(1);
    let again = tokio::spawn(scene.locks.mutex("k").try_lock().owner(&owner).into_future());
    sleep(Duration::from_millis(600)).await; // longer than the pause before it is told again
    scene.store.whims.remembers.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let again = again.await.unwrap().unwrap().expect("nobody else wants it");
    assert!(scene.is_locked().await, "taken from under its owner");
    again.unlock().await.unwrap();
}

/// The drop comes while the store is told something else of the hold: it is busy only until it knows.
#[tokio::test(start_paused = true)]
async fn a_single_try_comes_after_the_drop_before_it() {
    let scene = Scene::new("after").await;
    scene.store.whims.renews_late.store(true, Ordering::Relaxed);
    let Scene { locks, .. } = &scene;
    let held = locks.mutex("k").lock().await.unwrap();
    scene.comes_after(held, locks.mutex("k").try_lock().into_future()).await;
    let held = locks.mutex("k").lock().await.unwrap();
    scene.comes_after(held, locks.multi(["k", "l"]).try_lock().into_future()).await;
    let heir = scene.heir(HOUR, Mood::Late).await;
    scene.comes_after(heir, locks.mutex("k").try_lock().into_future()).await;
    scene.store.be(Mood::Well);

    let held = locks.fair("f").lock().await.unwrap();
    scene.comes_after(held, locks.fair("f").try_lock().into_future()).await;
    let held = locks.rw("rw").write().await.unwrap();
    scene.comes_after(held, locks.rw("rw").try_write().into_future()).await;
    let held = locks.rw("rw").write().await.unwrap();
    scene.comes_after(held, locks.rw("rw").try_read().into_future()).await;
    let held = locks.rw("rw").read().await.unwrap();
    scene.comes_after(held, locks.rw("rw").try_write().into_future()).await;
    let permits = locks.leased_semaphore("p").with_permits(1);
    let held = permits.acquire(1).await.unwrap();
    scene.comes_after(held, permits.try_acquire(1).into_future()).await;
}

/// The store renews, and has no room for more: what is held stays held for as long as its owner tries to go deeper.
#[tokio::test(start_paused = true)]
async fn a_reentry_that_finds_no_end_keeps_the_hold_alive() {
    let scene = Scene::new("deeper").await;
    let owner = scene.locks.owner();
    let outer = scene.locks.mutex("k").lock().owner(&owner).await.unwrap();
    scene.store.be(Mood::Down);
    let inner = tokio::spawn(scene.locks.mutex("k").lock().owner(&owner).into_future());
    sleep(LONG * 3).await;
    assert!(!outer.is_lost() && scene.is_locked().await);
    scene.store.be(Mood::Well);
    let inner = timeout(LONG, inner).await.expect("it ends").unwrap().unwrap();
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(!scene.is_locked().await);
}

/// What is won only after that is let go before closing ends: the program may end with it.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_attempts_under_way() {
    for way in ["caller", "driver", "shared"] {
        let scene = Scene::new(way).await;
        let held = match way {
            "driver" => Some(scene.other.mutex("k").lock().lease(HOUR).await.unwrap()),
            _ => None,
        };
        let asking = match way {
            "shared" => tokio::spawn({
                let reading = scene.locks.rw("k").try_read().into_future();
                async move { reading.await.map(drop) }
            }),
            _ => tokio::spawn({
                let locking = scene.locks.mutex("k").lock().into_future();
                async move { locking.await.map(drop) }
            }),
        };
        if let Some(held) = held {
            while scene.locks.mutex("k").waiting() == 0 {
                tokio::task::yield_now().await;
            }
            calm().await;
            scene.store.whims.acquires_late.store(true, Ordering::Relaxed);
            held.unlock().await.unwrap();
        }
        scene.store.whims.acquires_late.store(true, Ordering::Relaxed);
        scene.store.wait_at_the_gate().await;
        let locks = scene.locks.clone();
        let closing = tokio::spawn(async move { locks.close().await });
        calm().await;
        assert!(!closing.is_finished(), "{way}");
        scene.store.gate.add_permits(1);
        timeout(Duration::from_secs(2), closing).await.expect("it ends").unwrap();
        assert_eq!(asking.await.unwrap().unwrap_err().kind(), ErrorKind::Closed, "{way}");
        assert!(!scene.is_locked().await, "{way}");
        assert!(!scene.other.rw("k").is_locked().await.unwrap(), "{way}");
    }
}

/// The answer for several comes when their lease is over. They begin then, as far as the store knows.
#[tokio::test(start_paused = true)]
async fn several_that_come_too_late_are_let_go() {
    let scene = Scene::new("late").await;
    let lease = Duration::from_secs(10);
    *scene.store.whims.nap.lock().unwrap() = Some(lease + Duration::from_secs(1));
    let several = scene.locks.multi(["k", "l"]).try_lock().lease(lease).await;
    assert!(several.unwrap().is_none());
    timeout(lease / 2, async {
        while scene.is_locked().await || scene.other.mutex("l").is_locked().await.unwrap() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("nobody has them");
}

/// A majority of stores takes note of what it is to forget, whether its stores can be asked or not. A waiter that came meanwhile must not
/// take that for an answer, and wait out the outage for as long as a holder could live.
#[tokio::test(start_paused = true)]
async fn what_is_forgotten_without_an_answer_prolongs_no_wait() {
    let scene = Scene::new("no answer").await;
    let store = &scene.store;
    store.be(Mood::Down);
    store.whims.forgets_later.store(true, Ordering::Relaxed);
    store.whims.acquires_late.store(true, Ordering::Relaxed);
    let first = scene.locks.mutex("k").lock().wait(Duration::from_millis(100));
    let first = tokio::spawn(first.into_future());
    store.wait_at_the_gate().await;
    store.gate.add_permits(1); // its own attempt fails
    calm().await;
    store.wait_at_the_gate().await; // and the driver asks for it
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    let since = Instant::now();
    let second = tokio::spawn(scene.locks.mutex("k").lock().into_future());
    sleep(Duration::from_millis(1)).await;
    store.gate.add_permits(1_000);
    assert_eq!(second.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(since.elapsed() < Duration::from_secs(5), "after {:?}", since.elapsed());
}
