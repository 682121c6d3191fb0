//! Learning that a lock is gone.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use distlock::{ErrorKind, State};
use tokio::time::{Instant, timeout};

use super::{HOUR, ms, secs};
use crate::suites::Ground;
use crate::suites::times::STEADY;

/// The news can be waited for anywhere, without the guard.
pub async fn the_news_of_a_loss_can_be_awaited_in_another_task(ground: Ground) {
    let locks = ground.open().await;
    let (since, lease) = (Instant::now(), secs(2));
    let guard = locks.mutex(ground.name("k")).lock().lease(lease).await.expect("it is free");
    let watch = tokio::spawn(guard.lost());
    assert_eq!(guard.state(), State::Held);
    timeout(lease + ground.slack(), watch).await.expect("the lease ends").expect("no panic");
    // Before the store lets go: a margin for clocks and timers is taken off.
    assert!(since.elapsed() >= lease * 9 / 10, "lost after {:?}", since.elapsed());
    assert_eq!(guard.state(), State::Lost);
    assert!(guard.is_lost());
    guard.lost().await; // again and again
}

/// A lock that is released was not lost.
pub async fn a_release_is_no_loss(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let lease = secs(3);
    let guard = mutex.lock().lease(lease).await.expect("it is free");
    let watch = tokio::spawn(guard.lost());
    guard.unlock().await.expect("it was held");
    let ended = timeout(lease + ms(200), watch).await;
    assert!(ended.is_err(), "a released lock was called lost");
}

struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Work under a lock that is lost is dropped, at once.
pub async fn work_stops_when_the_lock_is_lost(ground: Ground) {
    let locks = ground.open().await;
    let guard = locks.mutex(ground.name("k")).lock().lease(ms(300)).await.expect("it is free");
    let stopped = Arc::new(AtomicBool::new(false));
    let tells = Tells(stopped.clone());
    let work = async move {
        let _tells = tells;
        pending::<()>().await
    };
    let ended = timeout(ms(300) + ground.slack(), guard.while_held(work)).await;
    let error = ended.expect("the lease ends").expect_err("the work never does");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.lock_name(), Some(guard.name()));
    assert!(stopped.load(Ordering::SeqCst), "the work is still there");
    // And none is begun after the loss.
    let begun = AtomicBool::new(false);
    let late = guard.while_held(async { begun.store(true, Ordering::SeqCst) }).await;
    assert_eq!(late.expect_err("it is lost").kind(), ErrorKind::Lost);
    assert!(!begun.load(Ordering::SeqCst));
}

/// Work that ends in time gives what it gives, and may be dropped without harm to the guard.
pub async fn work_under_a_held_lock_gives_its_value(ground: Ground) {
    let locks = ground.open().await;
    let guard = locks.mutex(ground.name("k")).lock().await.expect("it is free");
    let local = std::rc::Rc::new(5);
    // Neither Send nor 'static is asked of the work.
    let value = guard.while_held(async { *local + 2 }).await.expect("it is held");
    assert_eq!(value, 7);
    let cut = timeout(ms(20), guard.while_held(pending::<()>())).await;
    assert!(cut.is_err());
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.expect("it was held");
}

/// Redisson: testForceUnlock. A holder of the same process learns of it at once, and its unlock says so.
pub async fn force_frees_the_lock_and_tells_a_holder_here(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    assert!(!mutex.force_unlock().await.expect("the store answers"), "nothing to free");
    let me = locks.owner();
    let outer = mutex.lock().owner(&me).lease(HOUR).await.expect("it is free");
    let inner = mutex.lock().owner(&me).lease(HOUR).await.expect("it is mine");
    assert!(mutex.force_unlock().await.expect("the store answers"));
    assert!(!mutex.is_locked().await.expect("the store answers"));
    timeout(secs(5), outer.lost()).await.expect("it is told");
    assert!(outer.is_lost() && inner.is_lost());
    let next = mutex.try_lock().await.expect("the store answers").expect("it is free");
    for stale in [inner, outer] {
        assert_eq!(stale.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    }
    assert!(
        mutex.is_held_by(next.owner()).await.expect("the store answers"),
        "the next holder stays"
    );
    next.unlock().await.expect("it was held");
}

/// A holder elsewhere learns of it when it renews.
pub async fn force_is_noticed_elsewhere_with_the_next_renewal(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let name = ground.name("k");
    let guard = here.mutex(&name).lock().await.expect("it is free");
    assert!(elsewhere.mutex(&name).force_unlock().await.expect("the store answers"));
    let since = Instant::now();
    let next = elsewhere.mutex(&name).lock().await.expect("it is free");
    timeout(STEADY / 3 + ground.slack(), guard.lost()).await.expect("it is noticed");
    assert!(since.elapsed() < STEADY / 2 + ground.slack());
    assert_eq!(guard.unlock().await.expect_err("it was lost").kind(), ErrorKind::Lost);
    assert!(elsewhere.mutex(&name).is_held_by(next.owner()).await.expect("the store answers"));
    next.unlock().await.expect("it was held");
}

/// Freed by force from elsewhere and not renewed since: the unlock finds out.
pub async fn an_unlock_after_force_elsewhere_says_lost(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = here.mutex(&name).lock().lease(HOUR).await.expect("it is free");
    assert!(elsewhere.mutex(&name).force_unlock().await.expect("the store answers"));
    let next = elsewhere.mutex(&name).lock().lease(HOUR).await.expect("it is free");
    let error = guard.unlock().await.expect_err("it was taken away");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(elsewhere.mutex(&name).is_held_by(next.owner()).await.expect("the store answers"));
    next.unlock().await.expect("it was held");
}

/// A waiter hears of force as of any release.
pub async fn force_wakes_those_who_wait(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for waiting in [&here, &elsewhere] {
        let guard = here.mutex(&name).lock().lease(HOUR).await.expect("it is free");
        let waiter = tokio::spawn(waiting.mutex(&name).lock().into_future());
        tokio::time::sleep(ms(40)).await;
        assert!(here.mutex(&name).force_unlock().await.expect("the store answers"));
        let next = timeout(ground.slack(), waiter).await.expect("it is woken");
        next.expect("no panic").expect("it is free").unlock().await.expect("it was held");
        assert!(guard.is_lost());
    }
}
