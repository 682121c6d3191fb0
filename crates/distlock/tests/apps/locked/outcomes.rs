//! What the function returns when the lock is busy, lost, or when its body has something to say itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks, locked};
use distlock_testkit::suites::eventually;

use crate::locked::HOUR;

#[derive(Debug)]
enum Trouble {
    Own,
    Lock(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Lock(error)
    }
}

#[locked("k", wait = Duration::ZERO, via = locks)]
async fn at_once(locks: &Locks) -> Result<(), Error> {
    Ok(())
}

#[locked("k", or_skip, wait = "10ms", via = locks)]
async fn or_not(locks: &Locks) -> Result<Option<u32>, Error> {
    Ok(Some(1))
}

#[tokio::test]
async fn a_busy_lock_is_an_error_or_skips() {
    let locks = Locks::memory();
    let elsewhere = locks.mutex("k").lock().lease(HOUR).await.unwrap();
    assert_eq!(at_once(&locks).await.unwrap_err().kind(), ErrorKind::WaitTimeout);
    assert_eq!(or_not(&locks).await.unwrap(), None);
    elsewhere.unlock().await.unwrap();
    at_once(&locks).await.unwrap();
    assert_eq!(or_not(&locks).await.unwrap(), Some(1));
}

/// Loses the lock, and says how far it got.
#[locked("k", via = locks)]
async fn robbed(locks: &Locks, steps: &AtomicUsize, own: Option<Trouble>) -> Result<(), Trouble> {
    steps.store(1, Ordering::SeqCst);
    locks.mutex("k").force_unlock().await?;
    if let Some(own) = own {
        return Err(own);
    }
    std::future::pending::<()>().await;
    steps.store(2, Ordering::SeqCst);
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_lost_stops_the_body() {
    let (locks, steps) = (Locks::memory(), AtomicUsize::new(0));
    match robbed(&locks, &steps, None).await {
        Err(Trouble::Lock(error)) => assert_eq!(error.kind(), ErrorKind::Lost),
        other => panic!("{other:?}"),
    }
    assert_eq!(steps.load(Ordering::SeqCst), 1);
}

#[locked("k", via = locks)]
fn robbed_thread(locks: &Locks, own: bool) -> Result<u32, Trouble> {
    let mutex = locks.mutex("k");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(mutex.force_unlock())?;
    if own { Err(Trouble::Own) } else { Ok(7) }
}

#[test]
fn what_was_done_without_the_lock_is_not_ok() {
    let locks = Locks::memory();
    match robbed_thread(&locks, false) {
        Err(Trouble::Lock(error)) => assert_eq!(error.kind(), ErrorKind::Lost),
        other => panic!("{other:?}"),
    }
    // Its own error says more.
    assert!(matches!(robbed_thread(&locks, true), Err(Trouble::Own)));
}

#[locked("k", via = locks)]
async fn failing(locks: &Locks) -> Result<(), Trouble> {
    Err(Trouble::Own)
}

#[tokio::test]
async fn the_bodys_own_error_wins_and_the_lock_is_free() {
    let locks = Locks::memory();
    assert!(matches!(failing(&locks).await, Err(Trouble::Own)));
    assert!(!locks.mutex("k").is_locked().await.unwrap());
}

#[locked("k", lease = "1h", via = locks)]
async fn long(locks: &Locks) -> Result<(), Error> {
    std::future::pending().await
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing() {
    let locks = Locks::memory();
    let called = locks.clone();
    let call = tokio::spawn(async move { long(&called).await });
    eventually("held", || async { locks.mutex("k").is_locked().await.unwrap() }).await;
    call.abort();
    eventually("free", || async { !locks.mutex("k").is_locked().await.unwrap() }).await;
}
