//! The count.

use distlock::ErrorKind;

use super::{count, count_down, ms};
use crate::cancel::{Cut, poll_times};
use crate::suites::{Ground, eventually};

/// Redisson: testTrySetCount, testCount.
pub async fn the_count_is_set_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    assert_eq!(count(&mine).await, 0);
    assert!(mine.init(3).await.expect("the store answers"));
    assert!(!theirs.init(8).await.expect("the store answers"));
    assert_eq!((count(&mine).await, count(&theirs).await), (3, 3));
    assert_eq!(mine.inspect().await.expect("the store answers").count, Some(3));
    assert_eq!((count_down(&theirs).await, count_down(&mine).await), (2, 1));
    assert!(!theirs.init(8).await.expect("it is not open yet"));
    assert_eq!((count_down(&mine).await, count(&theirs).await), (0, 0));
    assert_eq!(mine.inspect().await.expect("the store answers").count, None);
    assert!(theirs.init(1).await.expect("it is open"), "it can be set again");
    assert_eq!(count_down(&mine).await, 0);
}

/// Redisson: testCountDown.
pub async fn the_count_stays_at_zero(ground: Ground) {
    let locks = ground.open().await;
    let latch = locks.latch(ground.name("l"));
    for _ in 0..2 {
        assert_eq!(count_down(&latch).await, 0, "nobody has set it");
        latch.wait().await.expect("it is open");
    }
    latch.init(1).await.expect("the store answers");
    for _ in 0..3 {
        assert_eq!(count_down(&latch).await, 0);
        assert_eq!(count(&latch).await, 0);
        latch.wait().await.expect("it is open");
    }
    assert!(latch.init(0).await.expect("nothing is there"), "a latch of zero is no latch");
    latch.wait().await.expect("it is open");
    assert!(latch.init(2).await.expect("nothing is there"));
    assert!(latch.delete().await.expect("the store answers"));
}

/// Redisson: testDelete, testDeleteFailed.
pub async fn deleting_says_whether_there_was_one(ground: Ground) {
    let locks = ground.open().await;
    let latch = locks.latch(ground.name("l"));
    assert!(!latch.delete().await.expect("the store answers"));
    latch.init(1).await.expect("the store answers");
    assert!(latch.delete().await.expect("the store answers"));
    assert!(!latch.delete().await.expect("the store answers"));
    assert_eq!(count(&latch).await, 0);
}

/// A latch that is reset says what it was.
pub async fn a_latch_can_be_reset(ground: Ground) {
    let locks = ground.open().await;
    let latch = locks.latch(ground.name("l"));
    assert_eq!(latch.reset(4).await.expect("the store answers"), 0);
    assert_eq!(count_down(&latch).await, 3);
    assert_eq!(latch.reset(9).await.expect("the store answers"), 3);
    assert_eq!((count(&latch).await, count_down(&latch).await), (9, 8));
    assert_eq!(latch.reset(0).await.expect("the store answers"), 8);
    latch.wait().await.expect("it is open");
}

/// A count-down that was begun is carried through, once, wherever its caller leaves.
pub async fn a_count_down_cut_at_any_poll_counts_once(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.latch(ground.name("l")), elsewhere.latch(ground.name("l")));
    for polls in 0..60 {
        mine.init(5).await.expect("the store answers");
        let cut = poll_times(mine.count_down(), polls).await;
        let over = matches!(cut, Cut::Done(_));
        let expected = if polls == 0 { 5 } else { 4 };
        eventually("it is counted", || async { count(&theirs).await == expected }).await;
        tokio::time::sleep(ms(3)).await;
        assert_eq!(count(&theirs).await, expected, "after {polls} polls");
        theirs.delete().await.expect("the store answers");
        ground.assert_clean().await;
        if over {
            return;
        }
    }
    panic!("it never ends");
}

/// Something else under the name is not touched.
pub async fn a_name_in_other_use_is_a_conflict(ground: Ground) {
    let locks = ground.open().await;
    let (latch, mutex) = (locks.latch(ground.name("k")), locks.mutex(ground.name("k")));
    let guard = mutex.lock().await.expect("it is free");
    let errors = [
        latch.wait().await.expect_err("a mutex is there"),
        latch.wait_for(ms(50)).await.map(drop).expect_err("a mutex is there"),
        latch.init(1).await.map(drop).expect_err("a mutex is there"),
        latch.count_down().await.map(drop).expect_err("a mutex is there"),
        latch.count().await.map(drop).expect_err("a mutex is there"),
        latch.reset(1).await.map(drop).expect_err("a mutex is there"),
        latch.delete().await.map(drop).expect_err("a mutex is there"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(error.lock_kind().map(|kind| kind.as_str()), Some("latch"));
    }
    guard.unlock().await.expect("it was held");
}
