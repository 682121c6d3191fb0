//! Whose lock it is.

use distlock::{ErrorKind, Owner};

use super::{HOUR, secs};
use crate::suites::Ground;

/// Redisson: testUnlockFail.
pub async fn a_stranger_cannot_unlock(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let free = here.mutex(&name).unlock(&here.owner()).await.expect_err("nobody holds it");
    assert_eq!(free.kind(), ErrorKind::NotHeld);
    assert!(!free.is_retryable());
    let guard = here.mutex(&name).lock().lease(HOUR).await.expect("it is free");
    let before = here.mutex(&name).inspect().await.expect("the store answers");
    for locks in [&here, &elsewhere] {
        let stranger = locks.owner();
        let error = locks.mutex(&name).unlock(&stranger).await.expect_err("it is not the owner");
        assert_eq!(error.kind(), ErrorKind::NotHeld);
        assert_eq!(error.lock_name(), Some(&*name));
        assert!(error.to_string().contains(&stranger.to_string()), "{error}");
    }
    let after = here.mutex(&name).inspect().await.expect("the store answers");
    assert_eq!(after.holders, before.holders);
    assert!(after.ttl <= before.ttl && after.ttl.expect("it is held") > HOUR - secs(60));
    guard.unlock().await.expect("it was held");
}

/// What a guard holds, the guard releases.
pub async fn an_owner_with_a_guard_is_told_to_use_it(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let guard = mutex.lock().await.expect("it is free");
    let error = mutex.unlock(guard.owner()).await.expect_err("a guard holds it");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert!(!guard.is_lost());
    assert!(mutex.is_held_by(guard.owner()).await.expect("the store answers"));
    guard.unlock().await.expect("it was held");
}

/// Redisson: testIsHeldByCurrentThread, testIsHeldByOtherThread.
pub async fn the_holder_is_told_from_others(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let (me, other) = (here.owner(), here.owner());
    assert!(!here.mutex(&name).is_held_by(&me).await.expect("the store answers"));
    let guard = here.mutex(&name).lock().owner(&me).await.expect("it is free");
    // By the owner's name in its own process, by the id of its stay in every other.
    assert!(here.mutex(&name).is_held_by(guard.stay()).await.expect("the store answers"));
    let error = here.mutex(&name).unlock(guard.stay()).await.expect_err("a guard holds it");
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    for (locks, holds) in [(&here, &me), (&elsewhere, guard.stay())] {
        let mutex = locks.mutex(&name);
        assert!(mutex.is_held_by(holds).await.expect("the store answers"));
        assert!(!mutex.is_held_by(&other).await.expect("the store answers"));
        let holder = mutex.holder().await.expect("the store answers").expect("it is held");
        assert_eq!((holder.owner, holder.depth), (holds.to_string(), 1));
    }
    let stay = *guard.stay();
    guard.unlock().await.expect("it was held");
    assert!(!here.mutex(&name).is_held_by(&me).await.expect("the store answers"));
    assert!(!elsewhere.mutex(&name).is_held_by(&stay).await.expect("the store answers"));
    assert_eq!(elsewhere.mutex(&name).holder().await.expect("the store answers"), None);
}

/// Every acquisition is somebody new unless it says otherwise, and an owner survives being written down.
pub async fn owners_are_new_unless_named(ground: Ground) {
    let locks = ground.open().await;
    let (one, two) = (locks.mutex(ground.name("one")), locks.mutex(ground.name("two")));
    let first = one.lock().await.expect("it is free");
    let second = two.lock().await.expect("it is free");
    assert_ne!(first.owner(), second.owner());
    let written = first.stay().to_string();
    let read: Owner = written.parse().expect("it reads what it wrote");
    assert_eq!(read, *first.owner());
    assert!(one.is_held_by(&read).await.expect("the store answers"));
    let same = two.try_lock().owner(first.owner()).await.expect("the store answers");
    assert!(same.is_none(), "holding one lock is not holding the other");
}
