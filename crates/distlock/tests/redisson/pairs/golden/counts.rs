//! Steps of semaphores and latches.

use distlock_testkit::peer::Version;
use tokio::time::timeout;

use super::Known::{Left, Times};
use super::{LEASE, LONGER, Twins};
use crate::pairs::semaphore::channel;
use crate::pairs::{IN_VAIN, ms, secs};

/// Permits without an owner.
pub(super) async fn semaphore(twins: &mut Twins) {
    let [a, b, _] = [0, 1, 2].map(|n| twins.java[n].semaphore(&twins.theirs()));
    let [lock, elsewhere, _] = [0, 1, 2].map(|n| twins.rust[n].semaphore(twins.ours()));

    assert!(a.try_set(5).await && lock.init(5).await.expect("the server answers"));
    twins.same("the number is set").await;
    assert!(!a.try_set(7).await && !lock.init(7).await.expect("the server answers"));
    twins.same("the number is set again").await;
    a.acquire(2).await;
    let two = lock.acquire(2).await.expect("there are five");
    twins.same("two are taken").await;
    assert!(!b.try_acquire(4, ms(0)).await && !b.try_acquire(4, IN_VAIN).await);
    let busy = elsewhere.try_acquire(4).wait(ms(50)).await.expect("the server answers");
    assert!(busy.is_none());
    twins.same("four are refused").await;
    let entry = b.acquire(4);
    let ours = tokio::spawn(elsewhere.acquire(4).into_future());
    twins.listening(channel, 1).await;
    twins.same("somebody waits for four").await;
    a.release(2).await;
    two.unlock().await.expect("they were held");
    entry.within(secs(20)).await;
    let four = timeout(secs(20), ours).await.expect("it is called").expect("no panic");
    twins.same("two come back, and four are taken").await;
    b.release(4).await;
    four.expect("there are five").unlock().await.expect("they were held");
    twins.same("all come back").await;
    for more in [3, -2, -10] {
        a.add(more).await;
        lock.add(i64::from(more)).await.expect("the server answers");
        twins.same(&format!("{more} more")).await;
    }
    a.release(6).await;
    lock.release(6).await.expect("the server answers");
    twins.same("six are given back").await;
    assert_eq!(a.drain().await, lock.drain().await.expect("the server answers"));
    twins.same("all are taken for good").await;

    twins.clear().await;
    a.release(2).await;
    lock.release(2).await.expect("the server answers");
    twins.same("permits are given to a semaphore that is none").await;
    twins.clear().await;
    a.add(3).await;
    lock.add(3).await.expect("the server answers");
    twins.same("a semaphore is made by adding").await;
    twins.clear().await;
    assert!(a.try_set(0).await && lock.init(0).await.expect("the server answers"));
    twins.same("a semaphore of none").await;
}

const KEPT: &str = "Redisson's permits without a lease are for ever, ours are kept by the watchdog and end with their process";

/// Permits with leases.
pub(super) async fn leased_semaphore(twins: &mut Twins) {
    let [a, b, _] = [0, 1, 2].map(|n| twins.java[n].leased_semaphore(&twins.theirs()));
    let [lock, elsewhere, _] = [0, 1, 2].map(|n| twins.rust[n].leased_semaphore(twins.ours()));

    assert!(a.try_set(5).await && lock.init(5).await.expect("the server answers"));
    twins.same("the number is set").await;
    let two_there = a.acquire(2, Some(LEASE)).await.ids;
    let two = lock.acquire(2).lease(LEASE).await.expect("there are five");
    twins.same("two are taken").await;
    let one_there = a.acquire(1, Some(LONGER)).await.ids;
    let one = lock.acquire(1).lease(LONGER).await.expect("there are three");
    twins.same("one more is taken").await;
    assert!(b.try_acquire(3, ms(0), Some(LEASE)).await.ids.is_empty());
    assert!(b.try_acquire(3, IN_VAIN, None).await.ids.is_empty());
    let busy = elsewhere.try_acquire(3).wait(ms(50)).await.expect("the server answers");
    assert!(busy.is_none());
    twins.same("three are refused").await;
    assert!(a.update_lease(&two_there[0], 3 * LEASE).await);
    lock.extend(two.ids()[0], 3 * LEASE).await.expect("it is out");
    twins.same("one gets a new lease").await;

    // Before 3.51 a Java thread that waits for several is not woken by anybody (Redisson's #6664).
    let all = twins.version() != Version::Older3;
    let entry = all.then(|| b.acquire(4, Some(LEASE)));
    let ours = all.then(|| tokio::spawn(elsewhere.acquire(4).lease(LEASE).into_future()));
    if all {
        twins.listening(channel, 1).await;
        twins.same("somebody waits for four").await;
    }
    a.release_one(&one_there[0]).await;
    one.unlock().await.expect("it was held");
    twins.same("one comes back").await;
    a.release(&two_there).await;
    two.unlock().await.expect("they were held");
    let four_there = match entry {
        Some(entry) => entry.within(secs(20)).await.ids,
        None => b.acquire(4, Some(LEASE)).await.ids,
    };
    let four = match ours {
        Some(ours) => timeout(secs(20), ours).await.expect("it is called").expect("no panic"),
        None => elsewhere.acquire(4).lease(LEASE).await,
    };
    twins.same("two come back, and four are taken").await;
    a.set(3).await;
    lock.set(3).await.expect("the server answers");
    twins.same("fewer than are out").await;
    for more in [4, -1] {
        a.add(more).await;
        lock.add(i64::from(more)).await.expect("the server answers");
        twins.same(&format!("{more} more")).await;
    }
    a.release(&four_there).await;
    four.expect("there are five").unlock().await.expect("they were held");
    twins.same("all come back").await;

    let short_there = a.acquire(2, Some(ms(300))).await.ids;
    let short = lock.acquire(2).lease(ms(300)).await.expect("there are some");
    timeout(secs(20), short.lost()).await.expect("it ends");
    tokio::time::sleep(ms(350)).await;
    let next_there = a.acquire(3, Some(LEASE)).await.ids;
    let next = lock.acquire(3).lease(LEASE).await.expect("there are some");
    twins.same("leases have ended, and more are taken").await;
    assert_eq!(a.try_release(&short_there).await, 0);
    drop(short);
    a.release(&next_there).await;
    next.unlock().await.expect("they were held");
    twins.same("all but those come back").await;

    let kept_there = a.acquire(1, None).await.ids;
    let kept = lock.acquire(1).await.expect("there are some");
    twins.same_but("without a lease", &[Times("{L}:timeout", KEPT)]).await;
    a.release(&kept_there).await;
    kept.unlock().await.expect("it was held");
    twins.same("it comes back").await;

    twins.clear().await;
    a.set(2).await;
    lock.set(2).await.expect("the server answers");
    twins.same("a semaphore is made by setting").await;
    twins.clear().await;
    a.add(3).await;
    lock.add(3).await.expect("the server answers");
    twins.same("a semaphore is made by adding").await;
}

const NO_LATCH: &str = "Redisson keeps a latch of zero; ours is open, so there is none";

fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// A count.
pub(super) async fn latch(twins: &mut Twins) {
    let [a, b, _] = [0, 1, 2].map(|n| twins.java[n].latch(&twins.theirs()));
    let [lock, elsewhere, _] = [0, 1, 2].map(|n| twins.rust[n].latch(twins.ours()));

    assert!(a.try_set(2).await && lock.init(2).await.expect("the server answers"));
    twins.same("the count is set").await;
    assert!(!a.try_set(7).await && !lock.init(7).await.expect("the server answers"));
    twins.same("the count is set again").await;
    let entry = b.wait();
    let ours = tokio::spawn(elsewhere.wait().into_future());
    twins.listening(latch_channel, 1).await;
    twins.same("somebody waits").await;
    a.count_down().await;
    lock.count_down().await.expect("the server answers");
    twins.same("counted down").await;
    a.count_down().await;
    lock.count_down().await.expect("the server answers");
    entry.within(secs(20)).await;
    timeout(secs(20), ours).await.expect("it is called").expect("no panic").expect("it opens");
    twins.same("open").await;
    a.count_down().await;
    lock.count_down().await.expect("the server answers");
    twins.same("counted down when it is open").await;
    assert!(a.try_set(2).await && lock.init(2).await.expect("the server answers"));
    twins.same("used again").await;
    assert!(a.delete().await && lock.delete().await.expect("the server answers"));
    twins.same("removed").await;
    assert!(a.try_set(0).await && lock.init(0).await.expect("the server answers"));
    twins.same_but("a count of zero", &[Left("L", NO_LATCH)]).await;
}
