//! One at a time.

use distlock::{ErrorKind, State};
use tokio::time::Instant;

use super::{HOUR, ms, secs};
use crate::suites::{Ground, Recorder, Section, eventually};

/// Redisson: testLockUnlock.
pub async fn a_lock_can_be_taken_and_released_twice(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    for _ in 0..2 {
        let guard = mutex.lock().await.expect("it is free");
        assert_eq!(guard.state(), State::Held);
        assert!(mutex.is_locked().await.expect("the store answers"));
        guard.unlock().await.expect("it was held");
        assert!(!mutex.is_locked().await.expect("the store answers"));
    }
}

/// Nobody gets in beside a holder, from here or from elsewhere.
pub async fn a_held_lock_refuses_everybody_else(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = here.mutex(&name).lock().await.expect("it is free");
    for locks in [&here, &elsewhere] {
        assert!(locks.mutex(&name).try_lock().await.expect("the store answers").is_none());
        let short = locks.mutex(&name).try_lock().wait(ms(30)).lease(HOUR);
        assert!(short.await.expect("the store answers").is_none());
    }
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.expect("it was held");
    let next = elsewhere.mutex(&name).try_lock().await.expect("the store answers");
    assert!(next.is_some());
}

/// Names are all that locks have in common.
pub async fn locks_with_other_names_do_not_mind_each_other(ground: Ground) {
    let locks = ground.open().await;
    let names = ["a", "A", "a ", "ab", "a/b", "a:b", "ä"];
    let mut guards = Vec::new();
    for name in names {
        let guard = locks.mutex(ground.name(name)).try_lock().await.expect("the store answers");
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} is taken")));
    }
    assert_eq!(locks.list(ground.prefix()).await.expect("the store answers").len(), names.len());
}

/// A wait of zero is one attempt, whichever verb.
pub async fn a_wait_of_zero_is_one_attempt(ground: Ground) {
    let seen = Recorder::new();
    let (here, elsewhere) = (
        ground.builder().observer(seen.clone()).connect().await.expect("the store can be opened"),
        ground.open().await,
    );
    let name = ground.name("k");
    let mutex = here.mutex(&name);
    let guard = elsewhere.mutex(&name).lock().await.expect("it is free");
    assert!(mutex.try_lock().await.expect("the store answers").is_none());
    assert_eq!(seen.words(&name), ["attempted", "gave up"]);
    assert!(mutex.try_lock().wait(secs(0)).await.expect("the store answers").is_none());
    let refused = mutex.lock().wait(secs(0)).await.expect_err("it is held elsewhere");
    assert_eq!(refused.kind(), ErrorKind::WaitTimeout);
    assert_eq!(seen.count(&name, "attempted"), 3);
    guard.unlock().await.expect("it was held");
    mutex.lock().wait(secs(0)).await.expect("it is free").unlock().await.expect("it was held");
}

/// Redisson: testTryLockWait.
pub async fn a_wait_that_runs_out_gives_nothing(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let _guard = here.mutex(&name).lock().await.expect("it is free");
    for locks in [&here, &elsewhere] {
        let since = Instant::now();
        let waited = locks.mutex(&name).try_lock().wait(ms(300)).await;
        assert!(waited.expect("the store answers").is_none());
        let took = since.elapsed();
        assert!(took >= ms(300) && took < ms(300) + ground.slack(), "waited for {took:?}");
    }
}

/// A wait that runs out says who was in the way, and is about this lock.
pub async fn a_wait_timeout_names_the_holder(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let guard = elsewhere.mutex(&name).lock().lease(HOUR).await.expect("it is free");
    let error = here.mutex(&name).lock().wait(ms(50)).await.expect_err("it is held elsewhere");
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert!(error.is_retryable());
    assert_eq!(error.lock_name(), Some(&*name));
    assert_eq!(error.lock_kind().map(|kind| kind.as_str()), Some("mutex"));
    let text = error.to_string();
    assert!(text.contains(&guard.stay().to_string()), "{text}");
    assert!(text.contains("50ms") && text.contains("mutex"), "{text}");
}

/// A release is heard at once, and not only when the lease it saw would end.
pub async fn a_waiter_elsewhere_gets_in_when_the_holder_lets_go(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for round in 0..5 {
        let guard = here.mutex(&name).lock().lease(HOUR).await.expect("it is free");
        let waiter = tokio::spawn(elsewhere.mutex(&name).lock().into_future());
        // Let go early, late, and while the waiter subscribes.
        tokio::time::sleep(ms(7 * round)).await;
        assert!(!waiter.is_finished(), "somebody came in beside the holder");
        let since = Instant::now();
        guard.unlock().await.expect("it was held");
        let next = waiter.await.expect("no panic").expect("it is free now");
        assert!(since.elapsed() < ground.slack(), "woken after {:?}", since.elapsed());
        next.unlock().await.expect("it was held");
    }
}

/// A waiter of the same process gets it too.
pub async fn a_waiter_here_gets_in_when_the_holder_lets_go(ground: Ground) {
    let here = ground.open().await;
    let mutex = here.mutex(ground.name("k"));
    for round in 0..5 {
        let guard = mutex.lock().lease(HOUR).await.expect("it is free");
        let waiter = tokio::spawn(mutex.lock().into_future());
        tokio::time::sleep(ms(7 * round)).await;
        assert!(!waiter.is_finished(), "somebody came in beside the holder");
        let since = Instant::now();
        drop(guard);
        let next = waiter.await.expect("no panic").expect("it is free now");
        assert!(since.elapsed() < ground.slack(), "woken after {:?}", since.elapsed());
        next.unlock().await.expect("it was held");
    }
}

/// A drop cannot wait, but the next attempt here does.
pub async fn dropping_and_trying_again_succeeds(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    for round in 0..ground.crowd(100) {
        let guard = mutex.try_lock().await.expect("the store answers");
        let guard = guard.unwrap_or_else(|| panic!("refused in round {round}"));
        drop(guard);
    }
    assert!(
        !mutex.is_locked().await.expect("the store answers"),
        "a question comes after the drop"
    );
}

/// Two branches of one task are two owners.
pub async fn branches_of_a_join_exclude_each_other(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let section = Section::new();
    let branch = || async {
        let guard = mutex.lock().await.expect("it gets free");
        section.visit().await;
        tokio::time::sleep(ms(5)).await;
        guard.unlock().await.expect("it was held");
    };
    tokio::join!(branch(), branch(), branch());
    assert_eq!(section.entries(), 3);
    let both = tokio::join!(mutex.try_lock().into_future(), mutex.try_lock().into_future());
    let (one, other) = (both.0.expect("the store answers"), both.1.expect("the store answers"));
    assert!(one.is_some() != other.is_some(), "one and only one gets in: {one:?} {other:?}");
}

/// The work of a task that panics is over, and so is its hold.
pub async fn a_panic_releases_the_lock(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let work = here.mutex(&name).lock().into_future();
    let task = tokio::spawn(async move {
        let _guard = work.await.expect("it is free");
        panic!("on purpose");
    });
    assert!(task.await.expect_err("it panics").is_panic());
    let free =
        || async { elsewhere.mutex(&name).try_lock().await.expect("the store answers").is_some() };
    eventually("the lock of a task that panicked is free", free).await;
}
