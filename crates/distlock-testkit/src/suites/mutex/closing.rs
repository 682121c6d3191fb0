//! The end of a `Locks`.

use distlock::ErrorKind;
use tokio::time::timeout;

use super::{HOUR, ms, secs};
use crate::suites::Ground;
use crate::suites::times::STEADY;

/// Closing ends waits, releases holds, and refuses what comes later.
pub async fn closing_ends_waits_and_releases_holds(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (ground.name("mine"), ground.name("theirs"));
    let guard = here.mutex(&mine).lock().lease(HOUR).await.expect("it is free");
    let other = elsewhere.mutex(&theirs).lock().await.expect("it is free");
    let waiters =
        [&mine, &theirs, &theirs].map(|name| tokio::spawn(here.mutex(name).lock().into_future()));
    tokio::time::sleep(ms(40)).await;

    timeout(secs(10), here.close()).await.expect("closing is quick");
    assert!(!elsewhere.mutex(&mine).is_locked().await.expect("the store answers"), "released");
    assert!(guard.is_lost());
    timeout(secs(5), guard.lost()).await.expect("a guard that is still out learns of it");
    for waiter in waiters {
        let ended = timeout(secs(5), waiter).await.expect("its wait ends").expect("no panic");
        assert_eq!(ended.expect_err("it is closed").kind(), ErrorKind::Closed);
    }
    for clone in [&here, &here.clone()] {
        let late = clone.mutex(&mine).lock().await.expect_err("it is closed");
        assert_eq!(late.kind(), ErrorKind::Closed);
        assert!(!late.is_retryable());
        assert_eq!(
            clone.mutex(&mine).try_lock().await.expect_err("closed").kind(),
            ErrorKind::Closed
        );
    }
    assert_eq!(guard.unlock().await.expect_err("taken away").kind(), ErrorKind::Lost);
    // Others go on.
    assert!(elsewhere.mutex(&theirs).is_held_by(other.owner()).await.expect("the store answers"));
    let next = elsewhere.mutex(&mine).try_lock().await.expect("the store answers");
    assert!(next.is_some());
    timeout(secs(10), here.close()).await.expect("closing twice is fine");
}

/// Closing waits for the releases that drops began.
pub async fn closing_waits_for_releases_under_way(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let count = ground.crowd(60);
    let mut guards = Vec::new();
    for n in 0..count {
        let mutex = here.mutex(ground.name(&format!("k{n}")));
        guards.push(mutex.lock().lease(HOUR).await.expect("it is free"));
    }
    drop(guards);
    here.close().await;
    assert_eq!(elsewhere.list(ground.prefix()).await.expect("the store answers"), []);
}

/// Dropping the last handle takes a guard's lock away from nobody: the guard still works.
pub async fn a_guard_outlives_its_locks(ground: Ground) {
    let (here, elsewhere) = (ground.open_with_watchdog(STEADY).await, ground.open().await);
    let name = ground.name("k");
    let guard = here.mutex(&name).lock().await.expect("it is free");
    drop(here);
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert!(!guard.is_lost(), "still renewed");
    assert!(elsewhere.mutex(&name).is_held_by(guard.owner()).await.expect("the store answers"));
    guard.unlock().await.expect("it was held");
    assert!(!elsewhere.mutex(&name).is_locked().await.expect("the store answers"));
}
