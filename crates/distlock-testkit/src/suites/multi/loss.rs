//! Lost as soon as one is.

use std::future::{IntoFuture, pending};

use distlock::{ErrorKind, State};
use tokio::time::timeout;

use super::{Field, HOUR, secs};
use crate::suites::eventually;
use crate::suites::times::STEADY;

/// Redisson: testForceUnlock. One member that is taken away here is the loss of all, at once; the others are still held, and
/// released by the unlock, which says what was lost.
pub async fn force_on_one_member_loses_the_guard(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for gone in 0..field.size() {
        let guard = here.all().lock().lease(HOUR).await.expect("all are free");
        let news = tokio::spawn(guard.lost());
        assert!(here.member(gone).force_unlock().await.expect("the store answers"));
        timeout(secs(5), news).await.expect("it is told").expect("no panic");
        assert_eq!(guard.state(), State::Lost);
        assert_eq!(guard.remaining(), secs(0));
        let late = guard.while_held(pending::<()>()).await.expect_err("one is lost");
        assert_eq!(late.kind(), ErrorKind::Lost);
        let expected: Vec<bool> = (0..field.size()).map(|at| at != gone).collect();
        assert_eq!(elsewhere.held().await, expected, "the others stay until they are let go");
        let error = guard.unlock().await.expect_err("one was lost");
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert_eq!(error.lock_name(), Some(here.name(gone)), "{error}");
        assert_eq!(elsewhere.held().await, vec![false; field.size()]);
    }
}

/// Taken away from elsewhere it is noticed with the next renewal, and work under it stops.
pub async fn force_from_elsewhere_stops_the_work(field: Field) {
    let (here, elsewhere) = (field.process_with_watchdog(STEADY).await, field.process().await);
    let guard = here.all().lock().await.expect("all are free");
    let last = field.size() - 1;
    assert!(elsewhere.member(last).force_unlock().await.expect("the store answers"));
    let next = elsewhere.member(last).lock().lease(HOUR).await.expect("it is free");
    let stopped = timeout(STEADY / 2 + field.slack(), guard.while_held(pending::<()>())).await;
    let error = stopped.expect("it is noticed").expect_err("the work never ends");
    assert_eq!(error.kind(), ErrorKind::Lost);
    drop(guard);
    let expected: Vec<bool> = (0..field.size()).map(|at| at == last).collect();
    let others_free = || async { here.held().await == expected };
    eventually("the rest is let go, and the next holder stays", others_free).await;
    assert!(!next.is_lost());
    next.unlock().await.expect("it was held");
}

/// A release is no loss, and work that ends in time gives what it gives.
pub async fn a_release_is_no_loss(field: Field) {
    let here = field.process().await;
    let guard = here.all().lock().await.expect("all are free");
    assert_eq!(guard.while_held(async { 7 }).await.expect("all are held"), 7);
    let news = tokio::spawn(guard.lost());
    guard.unlock().await.expect("all were held");
    let next = here.all().lock().into_future().await.expect("all are free");
    next.unlock().await.expect("all were held");
    assert!(!news.is_finished(), "a released lock was called lost");
    news.abort();
}

/// Closing ends waits and releases all.
pub async fn closing_ends_waits_and_releases_all(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let guard = here.all().lock().lease(HOUR).await.expect("all are free");
    let waiter = tokio::spawn(here.all().lock().into_future());
    tokio::task::yield_now().await;
    for at in 0..field.size() {
        here.store(at).close().await;
    }
    let ended = timeout(secs(10), waiter).await.expect("the wait ends").expect("no panic");
    assert_eq!(ended.expect_err("it is closed").kind(), ErrorKind::Closed);
    assert!(guard.is_lost());
    assert_eq!(elsewhere.held().await, vec![false; field.size()]);
    let error = here.all().try_lock().await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
}
