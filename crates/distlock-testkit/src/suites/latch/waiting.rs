//! Who waits goes on when the count is zero.

use distlock::{ErrorKind, Latch, Locks};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{NO_LOOKING, count, count_down, ms, secs};
use crate::cancel::{Cut, poll_times};
use crate::suites::{Ground, eventually};

/// Two processes whose waiters do not look by themselves.
async fn two(ground: &Ground) -> (Locks, Locks) {
    let open = || ground.open_with_watchdog(NO_LOOKING);
    (open().await, open().await)
}

async fn all_go(ground: &Ground, mut waiters: JoinSet<()>) {
    let every = async {
        while let Some(ended) = waiters.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(ground.slack(), every).await.expect("everybody goes on");
}

/// So many who wait at each latch.
fn waiting_at(latches: &[&Latch], each: usize) -> JoinSet<()> {
    let mut waiters = JoinSet::new();
    for latch in latches {
        for _ in 0..each {
            let wait = latch.wait().into_future();
            waiters.spawn(async move { wait.await.expect("it opens") });
        }
    }
    waiters
}

/// Redisson: testAwaitTimeout, testAwaitTimeoutFail.
pub async fn a_timed_wait_says_whether_it_opened(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    mine.init(1).await.expect("the store answers");
    for latch in [&mine, &theirs] {
        let since = Instant::now();
        assert!(!latch.wait_for(ms(300)).await.expect("the store answers"));
        let took = since.elapsed();
        assert!(took >= ms(300) && took < ms(300) + ground.slack(), "waited for {took:?}");
        assert!(!latch.wait_for(ms(0)).await.expect("the store answers"), "one look");
    }
    let waits = mine.clone();
    let waiter = tokio::spawn(async move { waits.wait_for(secs(20)).await });
    tokio::time::sleep(ms(30)).await;
    assert_eq!(count_down(&theirs).await, 0);
    let opened = timeout(ground.slack(), waiter).await.expect("it goes on").expect("no panic");
    assert!(opened.expect("the store answers"));
    assert!(theirs.wait_for(ms(0)).await.expect("the store answers"));
}

/// A wait that must succeed and does not says why.
pub async fn a_wait_timeout_says_the_count(ground: Ground) {
    let locks = ground.open().await;
    let latch = locks.latch(ground.name("l"));
    latch.init(3).await.expect("the store answers");
    let error = latch.wait().wait(ms(40)).await.expect_err("it is not open");
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
    assert!(error.to_string().contains("its count is 3"), "{error}");
    assert_eq!(error.lock_kind().map(|kind| kind.as_str()), Some("latch"));
    latch.delete().await.expect("the store answers");
}

/// R#5349. Redisson: testMultiAwait, and CountDownLatchPubSubTest: everybody who waits goes on.
pub async fn everybody_goes_on_when_it_opens(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    for round in 0..3 {
        mine.init(2).await.expect("the store answers");
        let waiters = waiting_at(&[&mine, &theirs], 5);
        tokio::time::sleep(ms(10 * round)).await;
        assert_eq!(count_down(&mine).await, 1);
        tokio::time::sleep(ms(10)).await;
        assert_eq!(waiters.len(), 10);
        assert_eq!(count_down(if round == 1 { &theirs } else { &mine }).await, 0);
        all_go(&ground, waiters).await;
    }
}

/// §15, 12: a latch that is deleted or reset to zero is open, and whoever waits goes on.
pub async fn everybody_goes_on_when_it_goes_away(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    for way in 0..2 {
        mine.init(2).await.expect("the store answers");
        let waiters = waiting_at(&[&mine, &theirs], 3);
        tokio::time::sleep(ms(40)).await;
        match way {
            0 => assert!(theirs.delete().await.expect("the store answers")),
            _ => assert_eq!(theirs.reset(0).await.expect("the store answers"), 2),
        }
        all_go(&ground, waiters).await;
    }
}

/// Setting it anew lets nobody through.
pub async fn a_reset_keeps_everybody_waiting(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    mine.init(1).await.expect("the store answers");
    let waiters = waiting_at(&[&mine, &theirs], 2);
    tokio::time::sleep(ms(40)).await;
    theirs.reset(2).await.expect("the store answers");
    assert_eq!(count_down(&mine).await, 1);
    tokio::time::sleep(ms(40)).await;
    let mut waiters = waiters;
    assert!(waiters.try_join_next().is_none(), "the count is one");
    assert_eq!(count_down(&mine).await, 0);
    all_go(&ground, waiters).await;
}

/// Dropped after any number of polls, a wait leaves nothing: no subscription, and the count as it was.
pub async fn a_wait_cut_at_any_poll_leaves_nothing(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    for polls in 0..60 {
        mine.init(2).await.expect("the store answers");
        let cut = poll_times(mine.wait().into_future(), polls).await;
        let over = matches!(cut, Cut::Asleep);
        assert!(!matches!(cut, Cut::Done(_)), "it is not open");
        drop(cut);
        assert_eq!(count(&theirs).await, 2);
        if let Some(server) = ground.server() {
            let quiet = || async {
                let heard = server.pubsub_channels().await;
                !heard.iter().any(|channel| channel.contains(ground.prefix()))
            };
            eventually("nobody listens any more", quiet).await;
        }
        assert_eq!(count_down(&theirs).await, 1);
        assert!(theirs.delete().await.expect("the store answers"));
        ground.assert_clean().await;
        if over {
            return;
        }
    }
    panic!("it never ends");
}

/// Closing ends the waits; whoever waits elsewhere goes on waiting.
pub async fn closing_ends_the_waits_here(ground: Ground) {
    let (here, elsewhere) = two(&ground).await;
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    theirs.init(1).await.expect("the store answers");
    let waiter = tokio::spawn(mine.wait().into_future());
    let others = waiting_at(&[&theirs], 2);
    tokio::time::sleep(ms(40)).await;
    timeout(secs(5), here.close()).await.expect("closing is quick");
    let ended = timeout(secs(5), waiter).await.expect("its wait ends").expect("no panic");
    assert_eq!(ended.expect_err("it is closed").kind(), ErrorKind::Closed);
    assert_eq!(count_down(&theirs).await, 0);
    all_go(&ground, others).await;
}
