//! What a server, its network and its clients can suffer; each of these has a server of its own.

use std::future::IntoFuture;

use distlock::{ErrorKind, Locks, PermitId, State};
use tokio::time::{Instant, timeout};

use super::{HOUR, counts, done, ms, secs};
use crate::proxy::{Match, Proxy};
use crate::suites::eventually;
use crate::suites::server::{open, step};
use crate::suites::times::STEADY;
use crate::{Server, Stopwatch, assert_clean, worker};

crate::suites::permits::kept_by! {
    LeasedSemaphore, faults on Server:
    a_lost_message_hangs_nobody
    a_lost_subscription_wakes_everybody
    a_lost_reply_counts_once
    a_caller_who_leaves_after_a_lost_reply_has_nothing
    an_uncontended_permit_costs_two_commands
    a_server_that_is_gone_is_an_outage
}

/// R#4462: the permits of a process that was killed come back within the watchdog's timeout.
pub async fn the_permits_of_a_killed_process_come_back(server: Server) {
    let locks = open(&server.url(), 30).await;
    let semaphore = locks.leased_semaphore("dead");
    semaphore.init(3).await.expect("the server answers");
    let mut holder = worker("worker").start().await;
    holder.wait_for("ready").await;
    holder.send(&format!("connect {} {}", server.url(), STEADY.as_millis()));
    holder.send("leases dead 2");
    let line = holder.wait_for("taken ").await;
    let ids: Vec<PermitId> = line.split(' ').skip(1).map(|id| id.parse().expect("an id")).collect();
    assert_eq!(ids.len(), 2);
    // Renewed while it lives.
    tokio::time::sleep(STEADY * 7 / 6).await;
    assert_eq!(counts(&semaphore).await, (1, 2));
    let waiter = tokio::spawn(semaphore.acquire(3).into_future());
    tokio::time::sleep(ms(50)).await;
    let since = Stopwatch::start();
    holder.kill();
    let all = timeout(secs(30), waiter).await.expect("they come back").expect("no panic");
    assert!(since.elapsed() < STEADY + secs(4), "after {:?}", since.elapsed());
    assert_eq!(semaphore.release(&ids).await.expect_err("expired").kind(), ErrorKind::NotHeld);
    all.expect("they come back").release().await.expect("they were held");
    done(&semaphore).await;
    assert_clean(&server, "dead").await;
}

/// An extension whose answer is lost holds, and is believed in.
pub async fn an_extension_whose_answer_is_lost_counts(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    for (round, reset) in [false, true].into_iter().enumerate() {
        let name = format!("lost-{round}");
        let (mine, theirs) = (locks.leased_semaphore(&name), beside.leased_semaphore(&name));
        // The server knows the scripts: what is lost is a step.
        let first = theirs.clone().with_permits(5).acquire(1).await.expect("left");
        first.extend(HOUR).await.expect("held");
        first.release().await.expect("held");

        let two = mine.acquire(2).await.expect("five are left");
        let struck = match reset {
            true => proxy.reset_instead_of_replies_to(step(&name), 1),
            false => proxy.swallow_replies_to(step(&name), 1),
        };
        two.extend(HOUR).await.expect("they are held");
        assert_eq!((struck.hits(), counts(&theirs).await), (1, (3, 2)));
        for id in two.ids() {
            let left = theirs.remaining(id).await.expect("the server answers");
            assert!(left.expect("it is out") > secs(3000));
        }
        eventually("believed in again", || async { two.state() == State::Held }).await;
        two.release().await.expect("they were held");
        assert_eq!(counts(&theirs).await, (5, 0));
        done(&theirs).await;
    }
    assert_clean(&server, "lost-").await;
}

/// A list whose answer is lost was released once.
pub async fn a_list_whose_answer_is_lost_is_released_once(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.leased_semaphore("left"), beside.leased_semaphore("left"));
    let guard = theirs.clone().with_permits(3).acquire(2).lease(HOUR).await.expect("left");
    let ids = guard.ids();
    guard.leak();
    let unknown = mine.release(&[PermitId::from_bytes([1; 16])]).await; // scripts are loaded
    assert_eq!(unknown.expect_err("nobody has it").kind(), ErrorKind::NotHeld);
    let struck = proxy.swallow_replies_to(step("left"), 1);
    let error = mine.release(&ids).await.expect_err("nobody knows");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!((struck.hits(), counts(&theirs).await), (1, (3, 0)));
    assert_eq!(mine.release(&ids).await.expect_err("gone").kind(), ErrorKind::NotHeld);
    assert_eq!(counts(&theirs).await, (3, 0));
    done(&theirs).await;
    assert_clean(&server, "left").await;
}

/// Redisson's layout. Redisson: testGetInClusterNameMapper, a name that is mapped is mapped for every key.
pub async fn a_prefix_is_part_of_every_key(server: Server) {
    let locks = Locks::builder().url(server.url()).prefix("app:").connect().await;
    let semaphore = locks.expect("the server answers").leased_semaphore("cheap").with_permits(2);
    let one = semaphore.acquire(1).await.expect("left");
    assert_eq!(server.keys("*").await, ["app:cheap", "{app:cheap}:timeout"]);
    one.release().await.expect("it was held");
    done(&semaphore).await;
}

/// An answer that comes after its lease has ended is no answer; and what is then asked for again is not taken back by the
/// first one's clearing up.
pub async fn an_answer_that_is_late_gives_nothing_away(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let (locks, beside) = (open(&proxy.url(), 30).await, open(&server.url(), 30).await);
    let (mine, theirs) = (locks.leased_semaphore("late"), beside.leased_semaphore("late"));
    theirs.init(1).await.expect("the server answers");
    mine.acquire(1).await.expect("left").release().await.expect("held");
    // An answer may take no longer, or it counts as lost; so a lease that ends before is short, and a machine that stands still
    // may miss its end. Then it was no trial.
    let (mut trials, mut trial) = (0..5, None);
    while trial.is_none() && trials.next().is_some() {
        proxy.heal().await;
        proxy.latency(ms(700));
        // Clearing up gets lost, and is sent again when the permit has been acquired anew.
        let clearing_up = proxy.drop_requests_to(step("late").and(Match::token("hold")), 1);
        let caller = tokio::spawn(mine.acquire(1).lease(ms(600)).into_future());
        tokio::time::sleep(ms(200)).await;
        proxy.latency(ms(0));
        let guard = timeout(secs(20), caller).await.expect("it gets in").expect("no panic");
        let guard = guard.expect("one is left");
        match guard.extend(HOUR).await {
            Ok(()) => trial = Some((guard, clearing_up)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Lost),
        }
    }
    let (guard, clearing_up) = trial.expect("one of five is in time");
    let end = Instant::now() + secs(3);
    while Instant::now() < end {
        tokio::time::sleep(ms(20)).await;
        assert_eq!(counts(&theirs).await, (0, 1), "a guard without its permit: {clearing_up:?}");
    }
    guard.release().await.expect("it was held");
    assert_eq!(counts(&theirs).await, (1, 0));
    done(&theirs).await;
    assert_clean(&server, "late").await;
}
