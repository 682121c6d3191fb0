//! Owners that hold something already.

use std::future::IntoFuture;

use distlock::Owner;
use tokio::time::timeout;

use super::{Field, HOUR, ms, secs};

/// An owner that holds one of them already goes one level deeper there, and takes the others.
pub async fn an_owner_that_holds_one_takes_the_rest(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    for own in 0..field.size() {
        let me = here.store(own).owner();
        let one = here.member(own).lock().owner(&me).lease(HOUR).await.expect("it is free");
        assert!(here.all().try_lock().await.expect("the stores answer").is_none());
        let all = here.all().try_lock().owner(&me).lease(HOUR).await.expect("the stores answer");
        let all = all.expect("one is mine, the others are free");
        for at in 0..field.size() {
            let count = here.member(at).hold_count(&me).await.expect("the store answers");
            assert_eq!(count, if at == own { 2 } else { 1 }, "member {at}");
        }
        all.unlock().await.expect("all were held");
        let expected: Vec<bool> = (0..field.size()).map(|at| at == own).collect();
        assert_eq!(elsewhere.held().await, expected);
        assert!(!one.is_lost());
        one.unlock().await.expect("it was held");
    }
}

/// Redisson: testReentrantLock (FasterMultiLock).
pub async fn an_owner_that_holds_all_goes_deeper_in_all(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let me = here.store(0).owner();
    let outer = here.all().lock().owner(&me).await.expect("all are free");
    let inner = here.all().lock().owner(&me).lease(ms(200)).await.expect("all are mine");
    for at in 0..field.size() {
        assert_eq!(here.member(at).hold_count(&me).await.expect("the store answers"), 2);
    }
    inner.unlock().await.expect("all were held");
    tokio::time::sleep(ms(300)).await;
    // The inner lease has shortened nothing.
    assert!(!outer.is_lost());
    assert!(elsewhere.all().try_lock().await.expect("the stores answer").is_none());
    assert_eq!(elsewhere.held().await, vec![true; field.size()]);
    outer.unlock().await.expect("all were held");
    assert_eq!(elsewhere.held().await, vec![false; field.size()]);
}

/// All members belong to one owner, with which each can be entered again.
pub async fn the_guards_owner_enters_its_members_again(field: Field) {
    let here = field.process().await;
    let all = here.all().lock().await.expect("all are free");
    for at in 0..field.size() {
        let again = here.member(at).lock().owner(all.owner()).into_future();
        let again = timeout(secs(10), again).await.expect("it does not wait for itself");
        again.expect("it is mine").unlock().await.expect("it was held");
    }
    assert!(!all.is_lost());
    all.unlock().await.expect("all were held");
}

/// Inside a scope everything belongs to one owner, whichever function asks.
pub async fn a_scope_re_enters_through_nested_functions(field: Field) {
    let here = field.process().await;
    Owner::scope(async {
        let _one = here.member(1).lock().await.expect("it is free");
        let all = timeout(secs(10), here.all().lock().into_future()).await;
        let all = all.expect("it does not wait for itself").expect("one is mine");
        all.unlock().await.expect("all were held");
    })
    .await;
}

/// Two uses of one owner at the same time come one after the other, and neither frees what the other has.
pub async fn one_owner_in_two_tasks_never_frees_the_others_hold(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let me = here.store(0).owner();
    for _ in 0..field.crowd(30) {
        let ask = || here.all().lock().owner(&me).into_future();
        let (one, two) = tokio::join!(ask(), ask());
        let (one, two) = (one.expect("it is mine"), two.expect("it is mine"));
        for at in 0..field.size() {
            assert_eq!(here.member(at).hold_count(&me).await.expect("the store answers"), 2);
        }
        let (first, second) = tokio::join!(one.unlock(), async {
            assert_eq!(elsewhere.held().await, vec![true; field.size()]);
            two.unlock().await
        });
        first.and(second).expect("all were held");
    }
}
