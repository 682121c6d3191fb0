//! The same owner again.

use distlock::{ErrorKind, Owner};

use super::{HOUR, may_read, may_write, ms, secs};
use crate::suites::Ground;

/// Redisson: testHoldCount.
pub async fn holds_are_counted_in_each_half(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let rw = here.rw(ground.name("k"));
    let (me, other) = (here.owner(), here.owner());
    // By the owner's name in its own process, by the id of its stay in every other.
    let reads = async |stay: &Owner, expected| {
        for (locks, me) in [(&here, &me), (&elsewhere, stay)] {
            let rw = locks.rw(ground.name("k"));
            assert_eq!(rw.read_hold_count(me).await.expect("the store answers"), expected);
            assert_eq!(rw.read_hold_count(&other).await.expect("the store answers"), 0);
            assert_eq!(rw.write_hold_count(me).await.expect("the store answers"), 0);
        }
    };
    reads(&me, 0).await;
    let outer = rw.read().owner(&me).await.expect("it is free");
    let stay = *outer.stay();
    reads(&stay, 1).await;
    let inner = rw.read().owner(&me).await.expect("it is mine");
    reads(&stay, 2).await;
    outer.unlock().await.expect("it was held");
    reads(&stay, 1).await;
    inner.unlock().await.expect("it was held");
    reads(&stay, 0).await;

    let writes = async |stay: &Owner, expected| {
        for (locks, me) in [(&here, &me), (&elsewhere, stay)] {
            let rw = locks.rw(ground.name("k"));
            assert_eq!(rw.write_hold_count(me).await.expect("the store answers"), expected);
            assert_eq!(rw.write_hold_count(&other).await.expect("the store answers"), 0);
            assert_eq!(rw.read_hold_count(me).await.expect("the store answers"), 0);
        }
    };
    let outer = rw.write().owner(&me).await.expect("it is free");
    let stay = *outer.stay();
    writes(&stay, 1).await;
    let inner = rw.write().owner(&me).await.expect("it is mine");
    writes(&stay, 2).await;
    outer.unlock().await.expect("it was held");
    writes(&stay, 1).await;
    inner.unlock().await.expect("it was held");
    writes(&stay, 0).await;
}

/// Redisson: testReentrancy.
pub async fn the_last_level_frees_it(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let outer = mine.write().owner(&me).await.expect("it is free");
    let inner = mine.try_write().owner(&me).await.expect("the store answers").expect("it is mine");
    inner.unlock().await.expect("it was held");
    assert!(!may_write(&theirs).await && !may_read(&theirs).await);
    outer.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await);

    let outer = mine.read().owner(&me).await.expect("it is free");
    let inner = mine.try_read().owner(&me).await.expect("the store answers").expect("it is mine");
    outer.unlock().await.expect("it was held");
    assert!(!may_write(&theirs).await);
    inner.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await);
}

/// Redisson: testWR, testWriteReadReentrancy. A writer may read, go on reading when it writes no more, and lets other readers
/// in only then.
pub async fn a_writer_may_read_and_go_on_reading(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let writing = mine.write().owner(&me).await.expect("it is free");
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    assert!(!may_read(&theirs).await && !may_read(&mine).await);
    writing.unlock().await.expect("it was held");
    assert!(may_read(&theirs).await);
    assert!(!may_write(&theirs).await && !may_write(&mine).await);
    reading.unlock().await.expect("it was held");
    assert!(may_write(&theirs).await);

    // Or it reads no more and writes on.
    let writing = mine.write().owner(&me).await.expect("it is free");
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    reading.unlock().await.expect("it was held");
    assert!(!may_read(&theirs).await);
    assert!(!writing.is_lost());
    writing.unlock().await.expect("it was held");
}

/// Who reads cannot write before it has let go of its read, be it the only one.
pub async fn a_reader_cannot_write_before_it_lets_go(ground: Ground) {
    let locks = ground.open().await;
    let rw = locks.rw(ground.name("k"));
    let me = locks.owner();
    let reading = rw.read().owner(&me).await.expect("it is free");
    assert!(rw.try_write().owner(&me).await.expect("the store answers").is_none());
    let late = rw.write().owner(&me).wait(ms(50)).await.expect_err("it reads");
    assert_eq!(late.kind(), ErrorKind::WaitTimeout);
    assert!(!reading.is_lost());
    reading.unlock().await.expect("it was held");
    let writing = rw.try_write().owner(&me).await.expect("the store answers");
    writing.expect("it is free").unlock().await.expect("it was held");
}

/// Levels of one owner share one life, that of the longest lease, in whatever order they end.
pub async fn a_level_less_never_shortens_the_rest(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    for first in [true, false] {
        let me = here.owner();
        let short = mine.read().owner(&me).lease(secs(3)).await.expect("it is free");
        let long = mine.read().owner(&me).lease(HOUR).await.expect("it is mine");
        let (gone, stays) = if first { (short, long) } else { (long, short) };
        gone.unlock().await.expect("it was held");
        tokio::time::sleep(secs(3) + ms(200)).await;
        assert!(!stays.is_lost());
        assert!(!may_write(&theirs).await, "the store knows a shorter lease than the guard");
        stays.unlock().await.expect("it was held");
        assert!(may_write(&theirs).await);
    }
}

/// An inner lease that is shorter than the outer one changes nothing, in either half.
pub async fn a_reentry_never_shortens_the_outer_hold(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let me = here.owner();
    let long = async || theirs.ttl().await.expect("the store answers").expect("it is held");
    let outer = mine.read().owner(&me).lease(HOUR).await.expect("it is free");
    let inner = mine.read().owner(&me).lease(secs(5)).await.expect("it is mine");
    assert!(long().await > HOUR - secs(60));
    inner.unlock().await.expect("it was held");
    assert!(long().await > HOUR - secs(60));
    outer.unlock().await.expect("it was held");

    let outer = mine.write().owner(&me).lease(HOUR).await.expect("it is free");
    let inner = mine.write().owner(&me).lease(secs(5)).await.expect("it is mine");
    let reading = mine.read().owner(&me).lease(secs(5)).await.expect("the writer may read");
    assert!(long().await > HOUR - secs(60) && long().await <= HOUR);
    reading.unlock().await.expect("it was held");
    assert!(long().await > HOUR - secs(60));
    inner.unlock().await.expect("it was held");
    assert!(long().await > HOUR - secs(60));
    outer.unlock().await.expect("it was held");
}

/// Redisson: testUnlockFail. What somebody holds is nobody else's to free.
pub async fn a_stranger_cannot_unlock(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let stranger = elsewhere.owner();
    let not_held = |refused: distlock::Result<()>| {
        assert_eq!(refused.expect_err("it is not theirs").kind(), ErrorKind::NotHeld);
    };
    let reading = mine.read().await.expect("it is free");
    not_held(theirs.unlock_read(&stranger).await);
    not_held(theirs.unlock_write(reading.owner()).await);
    not_held(mine.unlock_read(reading.owner()).await); // there is a guard for that
    reading.unlock().await.expect("it was held");

    let writing = mine.write().await.expect("it is free");
    not_held(theirs.unlock_write(&stranger).await);
    not_held(theirs.unlock_read(writing.owner()).await);
    not_held(mine.unlock_write(writing.owner()).await);
    writing.unlock().await.expect("it was held");
}

/// What a leaked guard left, anybody can free who knows its owner.
pub async fn what_was_leaked_can_be_freed_by_its_owner(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    let owner = mine.read().await.expect("it is free").leak();
    assert!(!may_write(&theirs).await);
    theirs.unlock_read(&owner).await.expect("that owner reads");
    let owner = mine.write().await.expect("it is free").leak();
    assert!(!may_read(&theirs).await);
    theirs.unlock_write(&owner).await.expect("that owner writes");
    assert!(may_write(&mine).await);
}
