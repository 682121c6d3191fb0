//! All or none.

use std::future::IntoFuture;

use distlock::{ErrorKind, MultiLock, State};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Field, HOUR, ms, secs};
use crate::suites::eventually;

/// Redisson: testLockUnlock, testIsHeldAndIsLockedByThread.
pub async fn all_are_held_and_all_are_released(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for _ in 0..2 {
        let guard = here.all().lock().lease(secs(10)).await.expect("all are free");
        assert_eq!(guard.state(), State::Held);
        assert_eq!(guard.guards().len(), field.size());
        for at in 0..field.size() {
            let member = elsewhere.member(at);
            assert!(member.is_held_by(guard.owner()).await.expect("the store answers"));
            assert!(!member.is_held_by(&here.store(at).owner()).await.expect("the store answers"));
            let left = member.ttl().await.expect("the store answers").expect("it is held");
            assert!(left > secs(5) && left <= secs(10), "{left:?} left");
        }
        guard.unlock().await.expect("all were held");
        assert_eq!(elsewhere.held().await, vec![false; field.size()]);
    }
}

/// Redisson: test (three servers): refused while held, member by member and as a whole, from here and from elsewhere.
pub async fn whoever_holds_all_keeps_everybody_out(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let guard = here.all().try_lock().await.expect("the stores answer").expect("all are free");
    for process in [&here, &elsewhere] {
        assert!(process.all().try_lock().await.expect("the stores answer").is_none());
        let short = process.all().try_lock().wait(ms(30)).lease(HOUR);
        assert!(short.await.expect("the stores answer").is_none());
        for at in 0..field.size() {
            let member = process.member(at).try_lock().await.expect("the store answers");
            assert!(member.is_none(), "member {at} was given away");
        }
    }
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.expect("all were held");
    let next = elsewhere.all().try_lock().await.expect("the stores answer");
    next.expect("all are free").unlock().await.expect("all were held");
}

/// One that is busy is enough, and the others are as free as before.
pub async fn one_that_is_busy_refuses_all_and_the_others_stay_free(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for busy in 0..field.size() {
        for holder in [&here, &elsewhere] {
            let held = holder.member(busy).lock().lease(HOUR).await.expect("it is free");
            assert!(here.all().try_lock().await.expect("the stores answer").is_none());
            let waited = here.all().try_lock().wait(ms(40)).await;
            assert!(waited.expect("the stores answer").is_none());
            let expected: Vec<bool> = (0..field.size()).map(|at| at == busy).collect();
            let as_before = || async { elsewhere.held().await == expected };
            eventually("the others are free again", as_before).await;
            held.unlock().await.expect("it was held");
        }
    }
}

/// Redisson: testWaitAndLeaseTimeouts.
pub async fn of_ten_that_ask_at_once_one_wins(field: Field) {
    let here = field.process().await;
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(field.process().await);
    }
    // Five of one process, five of one each.
    others.extend((0..5).map(|_| here.clone()));
    let mut tasks = JoinSet::new();
    for process in others {
        let request = process.all().try_lock().wait(secs(0)).lease(secs(10));
        tasks.spawn(request.into_future());
    }
    let mut won = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        won.extend(ended.expect("no task panics").expect("the stores answer"));
    }
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(here.held().await, vec![true; field.size()], "of the winner only");
    for guard in won {
        guard.unlock().await.expect("all were held");
    }
}

/// Redisson: testMultiThreads.
pub async fn the_second_waits_until_the_first_lets_go(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for process in [&here, &elsewhere] {
        let guard = here.all().lock().lease(HOUR).await.expect("all are free");
        let waiter = tokio::spawn(process.all().lock().into_future());
        tokio::time::sleep(ms(60)).await;
        assert!(!waiter.is_finished(), "somebody came in beside the holder");
        let since = Instant::now();
        guard.unlock().await.expect("all were held");
        let next = waiter.await.expect("no panic").expect("all are free now");
        assert!(since.elapsed() < field.slack(), "woken after {:?}", since.elapsed());
        next.unlock().await.expect("all were held");
    }
}

/// Redisson: testTryLockWait (FasterMultiLock): a member's lease is waited out.
pub async fn a_wait_is_as_long_as_the_last_member_is_held(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let since = Instant::now();
    let last = field.size() - 1;
    let brief = elsewhere.member(last).lock().lease(ms(400)).await.expect("it is free");
    let guard = here.all().try_lock().wait(secs(20)).await.expect("the stores answer");
    let (guard, took) = (guard.expect("the lease ends"), since.elapsed());
    assert!(took >= ms(390) && took < ms(400) + field.slack(), "after {took:?}");
    assert!(brief.is_lost());
    guard.unlock().await.expect("all were held");
}

/// A wait that runs out says which one was in the way, who has it, and for how long.
pub async fn a_wait_timeout_says_who_was_in_the_way(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let busy = field.size() - 1;
    let held = elsewhere.member(busy).lock().lease(HOUR).await.expect("it is free");
    let since = Instant::now();
    let error = here.all().lock().wait(ms(80)).await.expect_err("one is held elsewhere");
    assert!(since.elapsed() >= ms(80) && since.elapsed() < ms(80) + field.slack());
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert_eq!(error.lock_name(), Some(here.name(busy)));
    let text = error.to_string();
    assert!(text.contains(&held.stay().to_string()) && text.contains("80ms"), "{text}");
    let refused = here.all().lock().wait(secs(0)).await.expect_err("one is held elsewhere");
    assert_eq!(refused.kind(), ErrorKind::WaitTimeout);
}

/// Whatever is named twice counts once, also through two connections; and all of nothing is nothing.
pub async fn whatever_is_named_twice_counts_once(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let doubled = [0, 1, 0, 1, 1].map(|at| here.member(at).into());
    let doubled = MultiLock::new(doubled.into_iter().chain([elsewhere.member(0).into()]));
    let guard = timeout(secs(20), doubled.lock().into_future()).await;
    let guard = guard.expect("it does not wait for itself").expect("all are free");
    assert_eq!(guard.guards().len(), 2);
    let depth = here.member(0).hold_count(guard.owner()).await.expect("the store answers");
    assert_eq!(depth, 1);
    guard.unlock().await.expect("all were held");
    let error = MultiLock::new([]).lock().await.expect_err("there is nothing to lock");
    assert_eq!(error.kind(), ErrorKind::Config);
}

/// Stores come in the caller's order, names are sorted within a store.
pub async fn the_order_is_the_callers_for_stores_and_sorted_for_names(field: Field) {
    let here = field.process().await;
    let backwards = here.some((0..field.size()).rev()).lock().await.expect("all are free");
    let taken: Vec<&str> = backwards.guards().iter().map(|guard| guard.name()).collect();
    let mut expected: Vec<&str> = (0..field.size()).map(|at| here.name(at)).collect();
    if !field.is_one_store() {
        expected.reverse();
    }
    assert_eq!(taken, expected);
    backwards.unlock().await.expect("all were held");
}

/// A drop cannot wait, but the next attempt here does.
pub async fn dropping_and_trying_again_succeeds(field: Field) {
    let here = field.process().await;
    for round in 0..field.crowd(60) {
        let guard = here.all().try_lock().await.expect("the stores answer");
        drop(guard.unwrap_or_else(|| panic!("refused in round {round}")));
    }
}

/// A bad name, or a duration that cannot be kept, is found before anything is sent.
pub async fn bad_input_is_refused_before_anything_is_locked(field: Field) {
    let here = field.process().await;
    let members = [here.member(0).into(), here.store(1).mutex("").into(), here.member(1).into()];
    let error = MultiLock::new(members).lock().await.expect_err("a name is empty");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    let error = here.all().lock().lease(secs(0)).await.expect_err("no lease is that short");
    assert_eq!(error.kind(), ErrorKind::InvalidDuration);
    assert_eq!(here.held().await, vec![false; field.size()]);
}

/// Programs without a runtime of their own lock in the same way.
pub async fn blocking_callers_lock_in_the_same_way(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let all = here.all();
    let work = tokio::task::spawn_blocking(move || {
        let guard = all.lock().lease(HOUR).blocking().expect("all are free");
        (all.try_lock().blocking().expect("the stores answer").is_none(), guard)
    });
    let (refused, guard) = work.await.expect("no panic");
    assert!(refused);
    assert_eq!(elsewhere.held().await, vec![true; field.size()]);
    let work = tokio::task::spawn_blocking(move || guard.unlock_blocking());
    work.await.expect("no panic").expect("all were held");
    assert_eq!(elsewhere.held().await, vec![false; field.size()]);
}
