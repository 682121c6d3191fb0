//! Who may be inside with whom.

use std::future::IntoFuture;

use distlock::ErrorKind;
use tokio::time::Instant;

use super::{may_read, may_write, ms, secs};
use crate::cancel::poll_once;
use crate::suites::Ground;

/// Redisson: testLockUnlock, for both halves.
pub async fn each_half_can_be_taken_and_released_twice(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    for _ in 0..2 {
        rw.read().await.expect("it is free").unlock().await.expect("it was held");
        rw.write().await.expect("it is free").unlock().await.expect("it was held");
    }
}

/// Redisson: testMultiRead. Any number of readers are inside together, of one process or of several, and no writer.
pub async fn readers_are_inside_together(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let mut guards = Vec::new();
    for locks in [&here, &here, &elsewhere] {
        guards.push(locks.rw(&name).read().await.expect("only readers are inside"));
        guards
            .push(locks.rw(&name).try_read().await.expect("the store answers").expect("as above"));
    }
    assert_eq!(here.rw(&name).inspect().await.expect("the store answers").holders.len(), 6);
    for guard in guards {
        for locks in [&here, &elsewhere] {
            assert!(!may_write(&locks.rw(&name)).await);
        }
        guard.unlock().await.expect("it was held");
    }
    assert!(may_write(&elsewhere.rw(&name)).await);
}

/// Redisson: testWriteLock. A writer is alone.
pub async fn a_writer_is_alone(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for writer in [&here, &elsewhere] {
        let guard = writer.rw(&name).write().await.expect("it is free");
        for locks in [&here, &elsewhere] {
            assert!(!may_read(&locks.rw(&name)).await);
            assert!(!may_write(&locks.rw(&name)).await);
        }
        guard.unlock().await.expect("it was held");
        assert!(may_read(&elsewhere.rw(&name)).await);
    }
}

/// Locks with other names do not mind each other.
pub async fn other_names_are_other_locks(ground: Ground) {
    let locks = ground.open().await;
    let guard = locks.rw(ground.name("a")).write().await.expect("it is free");
    assert!(may_write(&locks.rw(ground.name("b"))).await);
    guard.unlock().await.expect("it was held");
}

/// Redisson: testTryLockWait, for both halves. `must` says what was in the way, `may` says nothing.
pub async fn a_wait_that_runs_out_gives_nothing(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let reading = theirs.read().await.expect("it is free");
    let since = Instant::now();
    assert!(mine.try_write().wait(ms(300)).await.expect("the store answers").is_none());
    let took = since.elapsed();
    assert!(took >= ms(300) && took < ms(300) + ground.slack(), "{took:?}");
    let late = mine.write().wait(ms(50)).await.expect_err("it is read");
    assert_eq!(late.kind(), ErrorKind::WaitTimeout);
    assert!(late.to_string().contains(&reading.stay().to_string()), "{late}");
    reading.unlock().await.expect("it was held");

    let writing = theirs.write().await.expect("it is free");
    let since = Instant::now();
    assert!(mine.try_read().wait(ms(300)).await.expect("the store answers").is_none());
    let took = since.elapsed();
    assert!(took >= ms(300) && took < ms(300) + ground.slack(), "{took:?}");
    let late = mine.read().wait(ms(50)).await.expect_err("it is written");
    assert_eq!(late.kind(), ErrorKind::WaitTimeout);
    assert!(late.to_string().contains(&writing.stay().to_string()), "{late}");
    writing.unlock().await.expect("it was held");
}

/// Whoever waits gets in when those inside let go, wherever both are.
pub async fn whoever_waits_gets_in_when_the_others_let_go(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for (inside, waits) in [(&here, &here), (&here, &elsewhere), (&elsewhere, &here)] {
        let (inside, waits) = (inside.rw(&name), waits.rw(&name));
        let reading = [
            inside.read().await.expect("it is free"),
            inside.read().await.expect("only readers are inside"),
        ];
        let mut writer = waits.write().into_future();
        poll_once(&mut writer).await;
        for guard in reading {
            guard.unlock().await.expect("it was held");
        }
        let writing = tokio::time::timeout(secs(10), writer).await.expect("it gets free");
        let writing = writing.expect("it gets free");

        let mut reader = inside.read().into_future();
        poll_once(&mut reader).await;
        let mut writer = inside.write().into_future();
        poll_once(&mut writer).await;
        writing.unlock().await.expect("it was held");
        let both = async {
            let read = async { reader.await.expect("it gets free").unlock().await };
            let written = async { writer.await.expect("it gets free").unlock().await };
            tokio::join!(read, written)
        };
        let (read, written) = tokio::time::timeout(secs(10), both).await.expect("both get in");
        read.expect("it was held");
        written.expect("it was held");
    }
}

/// A guard that was dropped a moment ago is not in the way of the next attempt, whichever half either is.
pub async fn dropping_and_trying_again_succeeds(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    for _ in 0..20 {
        drop(rw.read().await.expect("it is free"));
        assert!(may_write(&rw).await, "its own read is in the way");
        drop(rw.write().await.expect("it is free"));
        assert!(may_read(&rw).await, "its own write is in the way");
        drop(rw.write().await.expect("it is free"));
        assert!(may_write(&rw).await, "its own write is in the way");
    }
}

/// A program without a runtime of its own can read and write, too.
pub async fn threads_can_read_and_write(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    let work = move || {
        let writing = rw.write().blocking().expect("it is free");
        assert!(rw.try_read().blocking().expect("the store answers").is_none());
        let reading = writing.downgrade_blocking().expect("it is held");
        let beside = rw.read().blocking().expect("only readers are inside");
        reading.unlock_blocking().expect("it was held");
        beside.unlock_blocking().expect("it was held");
    };
    // In virtual time nothing moves while the only thread is blocked.
    if ground.site() != crate::suites::Site::Virtual {
        tokio::task::spawn_blocking(work).await.expect("no panic");
    }
}
