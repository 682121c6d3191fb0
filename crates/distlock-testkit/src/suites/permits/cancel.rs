//! An acquisition may be dropped anywhere.

use std::future::IntoFuture;

use distlock::Permits;

use super::{Kind, counts, done, two_sides};
use crate::cancel::{in_vain, sweep};
use crate::suites::times::{ms, secs};
use crate::suites::{Ground, eventually};

/// Nothing is out, nobody is known to have anything, and everything can be had at once.
async fn nothing_is_out<S: Kind>([one, other]: [&S; 2], permits: u32, when: &str) {
    let all = || async { counts(one).await == (i64::from(permits), 0) };
    eventually(&format!("{when}: all are back"), all).await;
    assert!(!other.inspect().await.expect("the store answers").is_held(), "{when}");
    for semaphore in [one, other] {
        let all = semaphore.try_acquire(permits).await.expect("the store answers");
        let all = all.unwrap_or_else(|| panic!("{when}: not all are there"));
        all.release().await.expect("they were held");
    }
}

/// Dropped after any number of polls, an acquisition takes nothing.
pub(crate) async fn an_acquisition_cut_at_any_poll_takes_nothing<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(3).await.expect("the store answers");
    let nothing_left = async |when: &str| nothing_is_out([&mine, &theirs], 3, when).await;
    let prepare = async || (mine.acquire(2).into_future(), ());
    sweep("acquire", nothing_left, prepare, async |()| ()).await;
    done(&mine).await;
}

/// So does one that has to wait, here or elsewhere; and nobody else's permits suffer.
pub(crate) async fn a_wait_cut_at_any_poll_takes_nothing<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(3).await.expect("the store answers");
    for holder in [&mine, &theirs] {
        let nothing_left = async |when: &str| nothing_is_out([&mine, &theirs], 3, when).await;
        let prepare = async || {
            let held = holder.acquire(2).await.expect("three are left");
            let request = mine.acquire(2).into_future();
            (in_vain(request), held)
        };
        let check = async |held: Permits| {
            eventually("one is left", || async { counts(&theirs).await == (1, 2) }).await;
            held.release().await.expect("they were held");
        };
        sweep("acquire", nothing_left, prepare, check).await;
    }
    done(&mine).await;
}

/// A waiter that leaves in the moment in which it is served passes it on.
pub(crate) async fn a_wait_cut_while_it_is_served_takes_nothing<S: Kind>(ground: Ground) {
    let (mine, theirs) = two_sides::<S>(&ground).await;
    mine.init(2).await.expect("the store answers");
    for step in 0..ground.crowd(45) {
        let holder = if step % 2 == 0 { &mine } else { &theirs };
        let held = holder.acquire(2).await.expect("two are left");
        let leaves = tokio::spawn(mine.acquire(1).into_future());
        let stays = tokio::spawn(mine.acquire(2).into_future());
        tokio::time::sleep(ms(5)).await;
        let release = tokio::spawn(held.release());
        for _ in 0..step {
            tokio::task::yield_now().await;
        }
        leaves.abort();
        drop(leaves.await);
        release.await.expect("no panic").expect("they were held");
        let stays = tokio::time::timeout(secs(10), stays).await.expect("it is served");
        stays.expect("no panic").expect("they come back").release().await.expect("they were held");
    }
    nothing_is_out([&mine, &theirs], 2, "at the end").await;
    done(&mine).await;
}
