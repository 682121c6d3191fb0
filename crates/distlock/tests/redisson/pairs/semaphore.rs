//! `semaphore` beside `RedissonClient.getSemaphore`.

use distlock::Semaphore;
use distlock_testkit::peer;
use distlock_testkit::{Pair, worker};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::pairs::{IN_VAIN, SOON, asleep, calm, hearing, ms, secs};

/// Where permits of either kind are called out.
pub(super) fn channel(name: &str) -> String {
    format!("redisson_sc:{{{name}}}")
}

/// Both sides see so many permits.
async fn both_see(java: &peer::Semaphore, rust: &Semaphore, permits: i64) {
    let seen = (java.available().await, rust.available().await.expect("the server answers"));
    assert_eq!(seen, (permits, permits));
}

/// The number is the same on both sides after every step of either, and never below what is there.
pub(super) async fn both_sides_count_the_same_permits(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").semaphore(&name);
    let rust = pair.rust().await.semaphore(&name);
    both_see(&java, &rust, 0).await;
    assert!(java.try_set(5).await);
    assert!(!rust.init(9).await.expect("the server answers"), "it was set before");
    both_see(&java, &rust, 5).await;
    java.acquire(2).await;
    both_see(&java, &rust, 3).await;
    let ours = rust.acquire(2).await.expect("there are three");
    both_see(&java, &rust, 1).await;
    assert!(!java.try_acquire(2, ms(0)).await && !java.try_acquire(2, IN_VAIN).await);
    assert!(rust.try_acquire(2).wait(ms(100)).await.expect("the server answers").is_none());
    both_see(&java, &rust, 1).await;
    let last = rust.try_acquire(1).await.expect("the server answers").expect("there is one");
    assert!(!java.try_acquire(1, ms(0)).await);
    java.release(2).await;
    both_see(&java, &rust, 2).await;
    ours.unlock().await.expect("they were held");
    last.unlock().await.expect("it was held");
    both_see(&java, &rust, 5).await;

    java.add(3).await;
    both_see(&java, &rust, 8).await;
    assert_eq!(rust.add(-2).await.expect("the server answers"), 6);
    both_see(&java, &rust, 6).await;
    java.add(-8).await;
    both_see(&java, &rust, -2).await;
    assert!(rust.try_acquire(1).await.expect("the server answers").is_none());
    assert_eq!(rust.release(3).await.expect("the server answers"), 1);
    both_see(&java, &rust, 1).await;
    assert_eq!(rust.drain().await.expect("the server answers"), 1);
    both_see(&java, &rust, 0).await;
    java.release(4).await;
    assert_eq!(java.drain().await, 4);
    both_see(&java, &rust, 0).await;
    assert!(rust.delete().await.expect("the server answers"));

    assert!(rust.init(1).await.expect("the server answers"));
    assert!(!java.try_set(7).await, "it was set before");
    both_see(&java, &rust, 1).await;
    assert!(java.try_acquire(1, ms(0)).await);
    // What Java took anybody may give back: it has no owner.
    assert_eq!(rust.release(1).await.expect("the server answers"), 1);
    assert!(rust.delete().await.expect("the server answers"));
}

/// Whoever waits is called when the other side gives back, adds, or sets the number. Java does not look again by itself.
pub(super) async fn each_is_called_by_the_other(pair: Pair) {
    let name = pair.name("k");
    let thread = pair.java("b");
    let (java, waiter) = (pair.java("a").semaphore(&name), thread.semaphore(&name));
    let rust = hearing(&pair).await.semaphore(&name);

    let entry = waiter.acquire(2);
    asleep(&thread).await;
    assert!(rust.init(2).await.expect("the server answers"));
    entry.within(secs(20)).await;
    calm(&pair, &channel(&name)).await;
    let entry = tokio::spawn(rust.acquire(2).into_future());
    pair.listening(&channel(&name), 1).await;
    waiter.release(2).await;
    let mut ours = timeout(SOON, entry).await.expect("it is called").expect("no panic");
    for how in 0..4 {
        // Ours gives back, and Java comes in.
        let mut entry = waiter.acquire(2);
        asleep(&thread).await;
        assert!(!entry.is_done(), "more are out than there are");
        match how % 2 {
            0 => ours.expect("there are two").unlock().await.expect("they were held"),
            _ => drop(ours),
        }
        entry.within(secs(20)).await;
        // Java gives back one after the other, and ours comes in.
        calm(&pair, &channel(&name)).await;
        let entry = tokio::spawn(rust.acquire(2).into_future());
        pair.listening(&channel(&name), 1).await;
        waiter.release(1).await;
        assert_eq!(java.available().await, 1);
        assert!(!entry.is_finished(), "more are out than there are");
        waiter.release(1).await;
        ours = timeout(SOON, entry).await.expect("it is called").expect("no panic");
    }

    let entry = waiter.acquire(1);
    asleep(&thread).await;
    assert_eq!(rust.add(1).await.expect("the server answers"), 1);
    entry.within(secs(20)).await;
    calm(&pair, &channel(&name)).await;
    let entry = tokio::spawn(rust.acquire(1).into_future());
    pair.listening(&channel(&name), 1).await;
    java.add(1).await;
    let more = timeout(SOON, entry).await.expect("it is called").expect("no panic");
    drop((ours, more));
    java.release(1).await;
    let all = || async { rust.available().await.expect("the server answers") == 4 };
    distlock_testkit::suites::eventually("all are back", all).await;
    assert!(rust.delete().await.expect("the server answers"));
}

/// Several wait on each side; so many permits at once let so many in, whichever side they are on, and no more.
pub(super) async fn as_many_get_in_as_there_are_permits(pair: Pair) {
    let name = pair.name("k");
    let first = pair.java("first").semaphore(&name);
    assert!(first.try_set(0).await);
    let mut rusts = JoinSet::new();
    for _ in 0..3 {
        let locks = hearing(&pair).await;
        rusts.spawn(locks.semaphore(&name).acquire(1).into_future());
    }
    let threads: Vec<_> = (0..3).map(|n| pair.java(&format!("t{n}"))).collect();
    let mut javas: Vec<_> =
        threads.iter().map(|thread| thread.semaphore(&name).acquire(1)).collect();
    // Three processes of ours, and one of Java's for all its threads.
    pair.listening(&channel(&name), 4).await;
    for thread in &threads {
        asleep(thread).await;
    }
    first.release(4).await;
    let mut inside = Vec::new();
    for round in 0..2 {
        let mut entered = 0;
        let until = std::time::Instant::now() + SOON;
        while entered < if round == 0 { 4 } else { 2 } {
            assert!(std::time::Instant::now() < until, "{entered} are called in round {round}");
            tokio::time::sleep(ms(5)).await;
            while let Some(permit) = rusts.try_join_next() {
                inside.push(permit.expect("no panic").expect("there are some"));
                entered += 1;
            }
            let waiting = javas.len();
            javas.retain_mut(|entry| !entry.is_done());
            entered += waiting - javas.len();
        }
        assert_eq!(first.available().await, 0, "more are out than there are");
        if round == 0 {
            assert_eq!(rusts.len() + javas.len(), 2, "more are out than there are");
            first.release(2).await;
        }
    }
    assert_eq!(first.available().await, 0);
    let ours = inside.len() as i64;
    for permit in inside {
        permit.unlock().await.expect("it was held");
    }
    assert_eq!(first.available().await, ours);
    for thread in &threads {
        thread.semaphore(&name).release(1).await;
    }
    assert_eq!(first.drain().await, 6, "a permit got lost");
    assert!(pair.rust().await.semaphore(&name).delete().await.expect("the server answers"));
}

/// Permits of the dead stay out on both sides. Those that we know of can be given back by their owner.
pub(super) async fn what_the_dead_had_stays_out(pair: Pair) {
    let name = pair.name("k");
    let java = pair.java("a").semaphore(&name);
    let rust = pair.rust().await.semaphore(&name);
    assert!(java.try_set(4).await);
    let doomed = pair.own_peer().await;
    doomed.thread("a").semaphore(&name).acquire(1).await;
    doomed.kill();
    let mut ours = worker("worker").start().await;
    ours.wait_for("ready").await;
    let connected = ours.ask(&format!("connect {} 3000", pair.url())).await;
    assert_eq!(connected, "connected");
    let taken = ours.ask(&format!("permits {name} 2")).await;
    let owner = taken.strip_prefix("taken ").expect("there are three").to_owned();
    ours.kill();
    both_see(&java, &rust, 1).await;
    let inside = rust.inspect().await.expect("the server answers").holders;
    let inside: Vec<_> = inside.iter().map(|holder| (&*holder.owner, holder.depth)).collect();
    assert_eq!(inside, [(&*owner, 2)]);
    // A Java waiter hears of what is given back.
    let entry = java.acquire(3);
    asleep(&pair.java("a")).await;
    assert!(rust.force_unlock().await.expect("the server answers"));
    entry.within(secs(20)).await;
    java.release(3).await;
    both_see(&java, &rust, 3).await;
    assert!(rust.delete().await.expect("the server answers"));
}
