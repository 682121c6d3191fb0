//! The same in several processes.

use std::time::Duration;

use distlock_testkit::suites::Site;
use distlock_testkit::{Flavor, Worker, worker};

use crate::service::{ACCOUNT, Account, EMAIL, Place, at};

const PROCESSES: usize = 3;

/// Tasks in each.
const TASKS: usize = 40;

/// Every kind and store that processes can share.
macro_rules! in_several_processes {
    ($($test:ident)*) => {
        $(mod $test {
            use super::*;

            #[tokio::test]
            async fn mutex_file() {
                at(Site::File, "mutex", super::$test).await;
            }

            #[tokio::test]
            async fn mutex_redis() {
                at(Site::Server(Flavor::Redis), "mutex", super::$test).await;
            }

            #[tokio::test]
            async fn simple_redis() {
                at(Site::Server(Flavor::Redis), "simple", super::$test).await;
            }

            #[tokio::test]
            async fn fair_redis() {
                at(Site::Server(Flavor::Redis), "fair", super::$test).await;
            }
        })*
    };
}

in_several_processes! {
    sign_ups_with_one_e_mail_make_one_member
    payments_at_once_never_overdraw
    with_the_lock_inside_the_transaction_each_process_makes_a_member
}

async fn tellers(place: &Place, order: &str) -> Vec<Worker> {
    let mut tellers = Vec::new();
    for _ in 0..PROCESSES {
        let teller = worker("teller").arg(place.profile()).arg(place.database.path()).arg(order);
        tellers.push(teller.start().await);
    }
    for teller in &mut tellers {
        teller.wait_for("ready").await;
    }
    tellers
}

/// How many were answered yes and no in all processes together; they end after that.
async fn answers(mut tellers: Vec<Worker>) -> (usize, usize) {
    let mut sum = (0, 0);
    for teller in &mut tellers {
        let done = teller.wait_for_within("done", Duration::from_secs(60)).await;
        let number = |key: &str| {
            let value = done.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse::<usize>().ok()).expect("a count")
        };
        sum = (sum.0 + number("yes"), sum.1 + number("no"));
    }
    for teller in tellers {
        assert!(teller.finish().await.success());
    }
    sum
}

async fn sign_ups_with_one_e_mail_make_one_member(place: Place) {
    let mut tellers = tellers(&place, "outside").await;
    let line = format!("sign-up {EMAIL} {TASKS}");
    tellers.iter_mut().for_each(|teller| teller.send(&line));
    assert_eq!(answers(tellers).await, (1, PROCESSES * TASKS - 1));
    assert_eq!(place.database.members(EMAIL), (1, 1), "one member, one gift");
}

async fn payments_at_once_never_overdraw(place: Place) {
    let all = PROCESSES * TASKS;
    let enough = all * 2 / 3;
    place.database.open_account(ACCOUNT, enough as i64 * 30 + 15);
    let mut tellers = tellers(&place, "outside").await;
    let line = format!("pay {ACCOUNT} 30 {TASKS}");
    tellers.iter_mut().for_each(|teller| teller.send(&line));
    assert_eq!(answers(tellers).await, (enough, all - enough));
    let expected = Account { balance: 15, paid: enough as i64 * 30, entries: enough as u32 };
    assert_eq!(place.account(), expected);
}

/// The race that the tests above would find.
async fn with_the_lock_inside_the_transaction_each_process_makes_a_member(place: Place) {
    let mut tellers = tellers(&place, "inside").await;
    for teller in &mut tellers {
        assert_eq!(teller.ask("meet").await, "meeting");
        teller.send(&format!("sign-up {EMAIL} 1"));
        // It has read, found nobody, and released the lock.
        teller.wait_for("met").await;
    }
    tellers.iter_mut().for_each(|teller| teller.send("go"));
    assert_eq!(answers(tellers).await, (PROCESSES, 0));
    assert_eq!(place.database.members(EMAIL), (PROCESSES as u32, PROCESSES as u32));
}
