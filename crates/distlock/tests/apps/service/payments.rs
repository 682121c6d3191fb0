//! No account is overdrawn, and every payment counts.

use distlock_testkit::suites::Section;

use crate::service::{ACCOUNT, Account, Answers, CROWD, Place, on_every_profile, pay_all};

on_every_profile! {
    payments_at_once_never_overdraw
    payments_and_deposits_end_at_the_exact_balance
    a_transaction_that_fails_leaves_neither_writes_nor_a_lock
}

async fn payments_at_once_never_overdraw(place: Place) {
    let crowd = place.ground.crowd(CROWD);
    // Enough for two thirds of them, and for half a payment more.
    let enough = crowd as i64 * 2 / 3;
    place.database.open_account(ACCOUNT, enough * 30 + 15);
    let section = Section::new();
    let mut services = Vec::new();
    for _ in 0..3 {
        let section = section.clone();
        services.push(place.service().await.before_commit(move || {
            let section = section.clone();
            async move { section.visit().await }
        }));
    }
    let answers = pay_all(&services, vec![30; crowd].into_iter()).await;
    let yes = enough as usize;
    assert_eq!(answers, Answers { yes, no: crowd - yes });
    let expected = Account { balance: 15, paid: enough * 30, entries: yes as u32 };
    assert_eq!(place.account(), expected);
}

async fn payments_and_deposits_end_at_the_exact_balance(place: Place) {
    let crowd = place.ground.crowd(CROWD);
    // No sum of some of them is that of others, so nothing can make up for a payment that is lost.
    let amount = |number: usize| match number % 3 {
        0 => -(1000 + (number * number) as i64),
        _ => 1 + (number * number) as i64,
    };
    let sum: i64 = (0..crowd).map(amount).sum();
    let before = 10_000_000;
    place.database.open_account(ACCOUNT, before);
    let services = [place.service().await, place.service().await];
    let answers = pay_all(&services, (0..crowd).map(amount)).await;
    assert_eq!(answers, Answers { yes: crowd, no: 0 });
    let expected = Account { balance: before - sum, paid: sum, entries: crowd as u32 };
    assert_eq!(place.account(), expected);
}

async fn a_transaction_that_fails_leaves_neither_writes_nor_a_lock(place: Place) {
    place.database.open_account(ACCOUNT, 100);
    let service = place.service().await;
    // The book takes no payment of nothing; the balance has been written by then.
    let refused = service.pay(ACCOUNT, 0).await.expect_err("the database refuses it");
    assert!(refused.to_string().contains("CHECK"), "{refused}");
    assert_eq!(place.account(), Account { balance: 100, paid: 0, entries: 0 });
    assert!(service.pay(ACCOUNT, 40).await.expect("the lock is free again"));
    assert_eq!(place.account(), Account { balance: 60, paid: 40, entries: 1 });
}
