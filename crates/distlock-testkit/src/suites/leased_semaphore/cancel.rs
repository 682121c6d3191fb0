//! An acquisition may be dropped anywhere.

use distlock::{LeasedSemaphore, Locks, Permits};

use super::{NO_LOOKING, counts, done, ms, secs};
use crate::cancel::{Cut, poll_times};
use crate::suites::{Ground, eventually};

/// More polls than any of the futures here takes.
const MOST_POLLS: usize = 60;

/// Nothing is out, nobody is known to have anything, and everything can be had at once.
async fn nothing_is_out(one: &LeasedSemaphore, other: &LeasedSemaphore, permits: u32, when: &str) {
    let all = || async { counts(one).await == (i64::from(permits), 0) };
    eventually(&format!("{when}: all are back"), all).await;
    assert!(!other.inspect().await.expect("the store answers").is_held(), "{when}");
    for semaphore in [one, other] {
        let all = semaphore.try_acquire(permits).await.expect("the store answers");
        let all = all.unwrap_or_else(|| panic!("{when}: not all are there"));
        all.release().await.expect("they were held");
    }
}

async fn two(ground: &Ground) -> (Locks, Locks) {
    let open = || ground.open_with_watchdog(NO_LOOKING);
    (open().await, open().await)
}

/// Dropped after any number of polls, an acquisition takes nothing.
pub async fn an_acquisition_cut_at_any_poll_takes_nothing(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) =
        (here.leased_semaphore(ground.name("s")), elsewhere.leased_semaphore(ground.name("s")));
    mine.init(3).await.expect("the store answers");
    for polls in 0.. {
        assert!(polls < MOST_POLLS, "it never ends");
        let cut = poll_times(mine.acquire(2).into_future(), polls).await;
        let over = !matches!(cut, Cut::Dropped);
        drop(cut);
        nothing_is_out(&mine, &theirs, 3, &format!("after {polls} polls")).await;
        if over {
            break;
        }
    }
    done(&mine).await;
}

/// So does one that has to wait, here or elsewhere; and nobody else's permits suffer.
pub async fn a_wait_cut_at_any_poll_takes_nothing(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) =
        (here.leased_semaphore(ground.name("s")), elsewhere.leased_semaphore(ground.name("s")));
    mine.init(3).await.expect("the store answers");
    for holder in [&mine, &theirs] {
        for polls in 0.. {
            assert!(polls < MOST_POLLS, "it never ends");
            let held = holder.acquire(2).await.expect("three are left");
            let cut = poll_times(mine.acquire(2).into_future(), polls).await;
            let over = matches!(cut, Cut::Asleep);
            drop(cut);
            eventually("one is left", || async { counts(&theirs).await == (1, 2) }).await;
            held.release().await.expect("they were held");
            nothing_is_out(&mine, &theirs, 3, &format!("after {polls} polls")).await;
            if over {
                break;
            }
        }
    }
    done(&mine).await;
}

/// A waiter that leaves in the moment in which it is served passes it on.
pub async fn a_wait_cut_while_it_is_served_takes_nothing(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) =
        (here.leased_semaphore(ground.name("s")), elsewhere.leased_semaphore(ground.name("s")));
    mine.init(2).await.expect("the store answers");
    for step in 0..ground.crowd(45) as u32 {
        let holder = if step % 2 == 0 { &mine } else { &theirs };
        let held: Permits = holder.acquire(2).await.expect("two are left");
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
    nothing_is_out(&mine, &theirs, 2, "at the end").await;
    done(&mine).await;
}
