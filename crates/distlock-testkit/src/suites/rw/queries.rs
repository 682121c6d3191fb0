//! Looking at it.

use distlock::Owner;
use distlock::store::Mode;

use super::{HOUR, may_write, secs};
use crate::suites::Ground;

/// Redisson: testIsLocked, testIsLockedOtherThread, testReadLockIsLocked, testIsHeldByCurrentThread,
/// testIsHeldByCurrentThreadOtherThread.
pub async fn everybody_sees_which_half_is_locked(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, me) = (here.rw(ground.name("k")), here.owner());
    let stranger = here.owner();
    // By the owner's name in its own process, by the id of its stay in every other.
    let sees = async |stay: &Owner, reads: bool, writes: bool| {
        for (locks, me) in [(&here, &me), (&elsewhere, stay)] {
            let rw = locks.rw(ground.name("k"));
            assert_eq!(rw.is_read_locked().await.expect("the store answers"), reads);
            assert_eq!(rw.is_write_locked().await.expect("the store answers"), writes);
            assert_eq!(rw.is_locked().await.expect("the store answers"), reads || writes);
            assert_eq!(rw.is_held_by(me).await.expect("the store answers"), reads || writes);
            assert!(!rw.is_held_by(&stranger).await.expect("the store answers"));
        }
    };
    sees(&me, false, false).await;
    let reading = mine.read().owner(&me).await.expect("it is free");
    let stay = *reading.stay();
    sees(&stay, true, false).await;
    reading.unlock().await.expect("it was held");
    sees(&stay, false, false).await;
    let writing = mine.write().owner(&me).await.expect("it is free");
    let stay = *writing.stay();
    sees(&stay, false, true).await;
    let reading = mine.read().owner(&me).await.expect("the writer may read");
    sees(&stay, true, true).await;
    writing.unlock().await.expect("it was held");
    sees(&stay, true, false).await;
    reading.unlock().await.expect("it was held");
    sees(&stay, false, false).await;
}

/// A snapshot says who is there, how, and until when.
pub async fn a_snapshot_says_who_and_how(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let (mine, theirs) = (here.rw(ground.name("k")), elsewhere.rw(ground.name("k")));
    assert_eq!(theirs.ttl().await.expect("the store answers"), None);
    let short = mine.read().lease(secs(20)).await.expect("it is free");
    let long = mine.read().lease(HOUR).await.expect("only readers are inside");
    let seen = theirs.inspect().await.expect("the store answers");
    assert_eq!(&*seen.name, mine.name());
    assert_eq!(seen.holders.len(), 2);
    for guard in [&short, &long] {
        assert_eq!(seen.depth_of(guard.stay()), 1);
    }
    assert!(seen.holders.iter().all(|holder| holder.mode == Mode::Read && holder.depth == 1));
    assert!(seen.ttl.expect("it is held") > HOUR - secs(60));
    long.unlock().await.expect("it was held");
    let ttl = theirs.ttl().await.expect("the store answers").expect("it is held");
    assert!(ttl <= secs(20) && ttl > secs(20) - ground.slack(), "{ttl:?}");
    short.unlock().await.expect("it was held");

    let writing = mine.write().lease(secs(20)).await.expect("it is free");
    let seen = theirs.inspect().await.expect("the store answers");
    assert_eq!(seen.holders.len(), 1);
    assert_eq!(seen.holders[0].mode, Mode::Write);
    assert_eq!(seen.holders[0].owner, writing.stay().to_string());
    writing.unlock().await.expect("it was held");
}

/// Redisson: testName. Names with tags, and a prefix before the name.
pub async fn any_name_will_do(ground: Ground) {
    let locks = ground.open().await;
    let name = ground.name("{test}:abc:key");
    let reading = locks.rw(&name).read().await.expect("it is free");
    assert_eq!(reading.name(), name);
    assert!(!may_write(&locks.rw(&name)).await);
    reading.unlock().await.expect("it was held");
    locks.rw(&name).write().await.expect("it is free").unlock().await.expect("it was held");

    let prefixed = ground.builder().prefix(ground.prefix()).connect().await.expect("it opens");
    let reading = prefixed.rw("short").read().await.expect("it is free");
    assert!(!may_write(&locks.rw(ground.name("short"))).await);
    let reading = reading.unlock().await;
    reading.expect("it was held");
    let writing = prefixed.rw("short").write().await.expect("it is free");
    let reading = writing.downgrade().await.expect("it is held");
    assert!(!may_write(&locks.rw(ground.name("short"))).await, "downgraded under another name");
    reading.unlock().await.expect("it was held");
    let empty = locks.rw("").read().await.expect_err("it has no name");
    assert_eq!(empty.kind(), distlock::ErrorKind::InvalidName);
}
