//! Alone, or two at a time.

/// The promises for the kind with this accessor. `counts`: whether the store keeps how often an owner holds it.
macro_rules! exclusive_promises {
    ($kind:ident, counts: $counts:expr) => {
        use std::future::IntoFuture;
        use std::time::Duration;

        use distlock::{ErrorKind, State};
        use tokio::time::{Instant, timeout};

        use crate::suites::times::{HOUR, STEADY, ms, secs};
        use crate::suites::{Ground, Recorder};

        /// The longest pause of those who poll.
        const PAUSE: Duration = ms(128);

        /// Redisson: testLockUnlock.
        pub async fn a_lock_can_be_taken_and_released_twice(ground: Ground) {
            let locks = ground.open().await;
            let lock = locks.$kind(ground.name("k"));
            for _ in 0..2 {
                let guard = lock.lock().await.expect("it is free");
                assert_eq!(guard.state(), State::Held);
                assert!(lock.is_locked().await.expect("the store answers"));
                guard.unlock().await.expect("it was held");
                assert!(!lock.is_locked().await.expect("the store answers"));
            }
        }

        /// Redisson: testReentrancy: two acquisitions, one release, and others are still refused.
        pub async fn the_same_owner_enters_again_and_others_do_not(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let me = here.owner();
            let lock = here.$kind(&name);
            let outer = lock.try_lock().owner(&me).await.expect("the store answers");
            let outer = outer.expect("it is free");
            let inner = lock.try_lock().owner(&me).await.expect("the store answers");
            inner.expect("it is mine").unlock().await.expect("it was held");
            for locks in [&here, &elsewhere] {
                let other = locks.$kind(&name).try_lock().await.expect("the store answers");
                assert!(other.is_none());
            }
            assert_eq!(outer.state(), State::Held);
            outer.unlock().await.expect("it was held");
            let next = elsewhere.$kind(&name).try_lock().await.expect("the store answers");
            assert!(next.is_some());
        }

        /// Redisson: testIsLocked, testIsLockedOtherThread.
        pub async fn everybody_sees_that_it_is_locked(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let seen = async || {
                let mine = here.$kind(&name).is_locked().await.expect("the store answers");
                let theirs = elsewhere.$kind(&name).is_locked().await.expect("the store answers");
                assert_eq!(mine, theirs);
                mine
            };
            assert!(!seen().await);
            let guard = here.$kind(&name).lock().await.expect("it is free");
            assert!(seen().await);
            guard.unlock().await.expect("it was held");
            assert!(!seen().await);
        }

        /// Redisson: testIsHeldByCurrentThread, testIsHeldByOtherThread.
        pub async fn the_holder_is_told_from_others(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let (me, other) = (here.owner(), here.owner());
            let guard = here.$kind(&name).lock().owner(&me).await.expect("it is free");
            // By the owner's name in its own process, by the id of its stay in every other.
            for (locks, holds) in [(&here, guard.owner()), (&elsewhere, guard.stay())] {
                let lock = locks.$kind(&name);
                assert!(lock.is_held_by(holds).await.expect("the store answers"));
                assert!(!lock.is_held_by(&other).await.expect("the store answers"));
                let holder = lock.holder().await.expect("the store answers").expect("it is held");
                assert_eq!((holder.owner, holder.depth), (holds.to_string(), 1));
            }
            assert_eq!(*guard.owner(), me);
            assert_ne!(guard.stay(), guard.owner());
            guard.unlock().await.expect("it was held");
            assert_eq!(elsewhere.$kind(&name).holder().await.expect("the store answers"), None);
        }

        /// Redisson: testGetHoldCount: 0, 1, 2, 1, 0 where the store counts.
        pub async fn holds_are_counted(ground: Ground) {
            let locks = ground.open().await;
            let lock = locks.$kind(ground.name("k"));
            let me = locks.owner();
            let two = if $counts { 2 } else { 1 };
            let count = async || lock.hold_count(&me).await.expect("the store answers");
            assert_eq!(count().await, 0);
            let outer = lock.lock().owner(&me).await.expect("it is free");
            assert_eq!(count().await, 1);
            let inner = lock.lock().owner(&me).await.expect("it is mine");
            assert_eq!(count().await, two);
            outer.unlock().await.expect("it was held");
            assert_eq!(count().await, 1);
            assert!(lock.try_lock().await.expect("the store answers").is_none());
            inner.unlock().await.expect("it was held");
            assert_eq!(count().await, 0);
        }

        /// Redisson: testUnlockFail.
        pub async fn a_stranger_cannot_unlock(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let guard = here.$kind(&name).lock().lease(HOUR).await.expect("it is free");
            for locks in [&here, &elsewhere] {
                let stranger = locks.owner();
                let error = locks.$kind(&name).unlock(&stranger).await.expect_err("not its own");
                assert_eq!(error.kind(), ErrorKind::NotHeld);
                assert_eq!(error.lock_name(), Some(&*name));
            }
            assert!(here.$kind(&name).is_held_by(guard.owner()).await.expect("the store answers"));
            guard.unlock().await.expect("it was held");
            // What a leaked guard left, its owner frees from anywhere.
            let leaked = here.$kind(&name).lock().lease(HOUR).await.expect("it is free").leak();
            elsewhere.$kind(&name).unlock(&leaked).await.expect("that owner holds it");
            // An owner that the program named finds what it left by its name, and comes back to it.
            let (lock, me) = (here.$kind(&name), here.owner());
            let stay = lock.lock().owner(&me).lease(HOUR).await.expect("it is free").leak();
            assert!(lock.is_held_by(&me).await.expect("the store answers"));
            assert!(elsewhere.$kind(&name).is_held_by(&stay).await.expect("the store answers"));
            let back = lock.try_lock().owner(&me).await.expect("the store answers");
            let back = back.expect("it is its own");
            assert_eq!(*back.stay(), stay);
            back.leak();
            lock.unlock(&me).await.expect("it left it there");
            assert!(!lock.is_locked().await.expect("the store answers"));
            let next = lock.lock().owner(&me).lease(HOUR).await.expect("it is free");
            assert_ne!(*next.stay(), stay, "that stay is over");
            next.unlock().await.expect("it was held");
        }

        /// Redisson: testForceUnlock.
        pub async fn force_frees_the_lock_and_tells_a_holder_here(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let guard = here.$kind(&name).lock().lease(HOUR).await.expect("it is free");
            assert!(here.$kind(&name).force_unlock().await.expect("the store answers"));
            assert!(!here.$kind(&name).force_unlock().await.expect("the store answers"));
            assert!(guard.is_lost());
            let next = elsewhere.$kind(&name).try_lock().await.expect("the store answers");
            let next = next.expect("it is free");
            let late = guard.unlock().await.expect_err("it was taken away");
            assert_eq!(late.kind(), ErrorKind::Lost);
            let held = here.$kind(&name).is_held_by(next.owner()).await;
            assert!(held.expect("the store answers"), "the late unlock did nothing");
        }

        /// Redisson: testExpire: a waiter gets in when a lease ends, and the late unlock says that it was lost.
        pub async fn a_waiter_gets_in_when_the_lease_ends(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            for waiting in [&elsewhere, &here] {
                let since = Instant::now();
                let first = here.$kind(&name).lock().lease(ms(600)).await.expect("it is free");
                let next = waiting.$kind(&name).lock().wait(secs(20)).await.expect("it ends");
                let took = since.elapsed();
                assert!(first.is_lost(), "two are inside");
                let limit = ms(600) + PAUSE + ground.slack();
                assert!(took >= ms(598) && took < limit, "in after {took:?}");
                let late = first.unlock().await.expect_err("its lease is over");
                assert_eq!(late.kind(), ErrorKind::Lost);
                next.unlock().await.expect("it was held");
            }
        }

        /// Redisson: testAutoExpire: a hold that nobody keeps alive is gone within the watchdog's timeout.
        pub async fn what_nobody_renews_is_free_after_the_watchdogs_timeout(ground: Ground) {
            let (here, elsewhere) = (ground.open_with_watchdog(ms(800)).await, ground.open().await);
            let name = ground.name("k");
            let since = Instant::now();
            here.$kind(&name).lock().await.expect("it is free").leak();
            let next = elsewhere.$kind(&name).lock().wait(secs(20)).await.expect("it ends");
            let took = since.elapsed();
            let limit = ms(800) + PAUSE + ground.slack();
            assert!(took >= ms(798) && took < limit, "in after {took:?}");
            next.unlock().await.expect("it was held");
        }

        /// Without a lease the watchdog keeps the lock for as long as the guard lives.
        pub async fn the_watchdog_keeps_a_lock_without_a_lease(ground: Ground) {
            let seen = Recorder::new();
            let builder = ground.builder().watchdog(STEADY).observer(seen.clone());
            let locks = builder.connect().await.expect("the store can be opened");
            let elsewhere = ground.open().await;
            let name = ground.name("k");
            let guard = locks.$kind(&name).lock().await.expect("it is free");
            // For longer than a timeout.
            seen.renewed(&name, 4).await;
            assert!(!guard.is_lost());
            assert!(elsewhere.$kind(&name).try_lock().await.expect("the store answers").is_none());
            guard.unlock().await.expect("it was held");
        }

        /// Extending lengthens, and does not bring back what is lost.
        pub async fn extending_lengthens_what_is_held(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let guard = here.$kind(&name).lock().lease(secs(5)).await.expect("it is free");
            guard.extend(HOUR).await.expect("it is held");
            let ttl = elsewhere.$kind(&name).ttl().await.expect("the store answers");
            assert!(ttl.expect("it is held") > HOUR - secs(60), "{ttl:?}");
            elsewhere.$kind(&name).force_unlock().await.expect("the store answers");
            let next = elsewhere.$kind(&name).lock().lease(secs(60)).await.expect("it is free");
            let late = guard.extend(HOUR).await.expect_err("it was taken away");
            assert_eq!(late.kind(), ErrorKind::Lost);
            let ttl = elsewhere.$kind(&name).ttl().await.expect("the store answers");
            assert!(ttl.expect("it is held") <= secs(60), "{ttl:?}");
            next.unlock().await.expect("it was held");
        }

        /// Redisson: testTryLockWait, testTryLockAsyncWaitTime, testTryLockAsyncFailed: a wait on a held lock runs out when
        /// it should.
        pub async fn a_wait_that_runs_out_gives_nothing(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let guard = here.$kind(&name).lock().lease(HOUR).await.expect("it is free");
            for waiting in [&elsewhere, &here] {
                let since = Instant::now();
                let none = waiting.$kind(&name).try_lock().wait(ms(400)).await;
                assert!(none.expect("the store answers").is_none());
                let took = since.elapsed();
                assert!(took >= ms(400) && took < ms(400) + ground.slack(), "{took:?}");
                let error = waiting.$kind(&name).lock().wait(ms(100)).await.expect_err("busy");
                assert_eq!(error.kind(), ErrorKind::WaitTimeout);
                assert!(error.to_string().contains(&guard.stay().to_string()), "{error}");
                let none = waiting.$kind(&name).try_lock().await.expect("the store answers");
                assert!(none.is_none());
            }
            guard.unlock().await.expect("it was held");
        }

        /// Redisson: testTryLockAsync, testTimedTryLockAsync, testTryLockAsyncSucceed: who waits gets in soon after the
        /// release.
        pub async fn a_waiter_gets_in_soon_after_the_release(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            for waiting in [&elsewhere, &here] {
                let guard = here.$kind(&name).lock().lease(HOUR).await.expect("it is free");
                let lock = waiting.$kind(&name);
                let waiter = tokio::spawn(lock.try_lock().wait(secs(20)).into_future());
                tokio::time::sleep(ms(300)).await;
                assert!(!waiter.is_finished());
                let since = Instant::now();
                guard.unlock().await.expect("it was held");
                let next = waiter.await.expect("no panic").expect("the store answers");
                let took = since.elapsed();
                assert!(took < PAUSE + ms(72) + ground.slack(), "in after {took:?}");
                next.expect("it gets free").unlock().await.expect("it was held");
            }
        }

        /// Redisson: testLockUninterruptibly: who waits and is woken for nothing waits on, and gets in.
        pub async fn a_waiter_that_is_disturbed_keeps_waiting(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let guard = elsewhere.$kind(&name).lock().lease(HOUR).await.expect("it is free");
            let mut waiting = std::pin::pin!(here.$kind(&name).lock().into_future());
            for _ in 0..20 {
                let disturbed = timeout(ms(2), waiting.as_mut()).await;
                assert!(disturbed.is_err(), "two are inside");
            }
            guard.unlock().await.expect("it was held");
            let next = timeout(secs(10), waiting).await.expect("it gets free");
            next.expect("it gets free").unlock().await.expect("it was held");
        }
    };
}

pub(crate) use exclusive_promises;
