//! The same service goes wrong without the lock, and with the lock inside the transaction.
//!
//! Nothing here is left to chance: everybody has read before anybody commits, because each waits there for the others.
//! If these tests fail, the other ones prove nothing.

use std::sync::Arc;

use distlock_testkit::service::{Order, Service};
use distlock_testkit::suites::Site;
use tokio::sync::Barrier;

use crate::service::{
    ACCOUNT, Account, Answers, EMAIL, Place, at, on_every_profile, pay_all, sign_up_all,
};

/// How many ask at once.
const CROWD: usize = 8;

on_every_profile! {
    with_the_lock_inside_the_transaction_each_becomes_a_member
    with_the_lock_inside_the_transaction_each_is_paid
}

/// A service in which all who ask meet after reading.
async fn meeting(place: &Place, order: Order) -> Service {
    let all = Arc::new(Barrier::new(CROWD));
    place.service().await.order(order).before_commit(move || {
        let all = all.clone();
        async move {
            all.wait().await;
        }
    })
}

async fn each_becomes_a_member(place: Place, order: Order) {
    let service = meeting(&place, order).await;
    let answers = sign_up_all(&[service], CROWD).await;
    assert_eq!(answers, Answers { yes: CROWD, no: 0 });
    assert_eq!(place.database.members(EMAIL), (CROWD as u32, CROWD as u32));
}

async fn each_is_paid(place: Place, order: Order) {
    place.database.open_account(ACCOUNT, 100);
    let service = meeting(&place, order).await;
    let answers = pay_all(&[service], [80; CROWD].into_iter()).await;
    assert_eq!(answers, Answers { yes: CROWD, no: 0 });
    // 640 were paid out of 100, and the balance looks right.
    let overdrawn = Account { balance: 20, paid: 80 * CROWD as i64, entries: CROWD as u32 };
    assert_eq!(place.account(), overdrawn);
}

async fn with_the_lock_inside_the_transaction_each_becomes_a_member(place: Place) {
    each_becomes_a_member(place, Order::LockInside).await;
}

async fn with_the_lock_inside_the_transaction_each_is_paid(place: Place) {
    each_is_paid(place, Order::LockInside).await;
}

#[tokio::test]
async fn without_a_lock_each_becomes_a_member() {
    at(Site::Memory, "mutex", |place| each_becomes_a_member(place, Order::NoLock)).await;
}

#[tokio::test]
async fn without_a_lock_each_is_paid() {
    at(Site::Memory, "mutex", |place| each_is_paid(place, Order::NoLock)).await;
}
