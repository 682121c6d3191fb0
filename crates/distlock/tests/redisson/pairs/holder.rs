//! What our holders say of themselves stands beside the lock: Redisson never looks at it, of no kind.

use std::future::IntoFuture;

use distlock::Locks;
use distlock::store::Snapshot;
use distlock_testkit::Pair;
use distlock_testkit::peer::Kind;
use tokio::time::timeout;

use crate::pairs::{HOUR, gone, ms, secs};

const KINDS: [Kind; 6] =
    [Kind::Plain, Kind::Fair, Kind::Fenced, Kind::Spin, Kind::Read, Kind::Write];

async fn open(pair: &Pair) -> Locks {
    let builder = pair.builder().holder_info("billing");
    builder.connect().await.expect("the server answers")
}

/// Ours of this kind, held: what frees it.
async fn hold(locks: &Locks, kind: Kind, name: &str, lease: std::time::Duration) -> Box<dyn Send> {
    macro_rules! held {
        ($request:expr) => {{
            let request = $request.lease(lease).label("ours").into_future();
            let held = timeout(secs(20), request).await.expect("it gets free");
            Box::new(held.expect("the server answers"))
        }};
    }
    match kind {
        Kind::Fair => held!(locks.fair(name).lock()),
        Kind::Fenced => held!(locks.fenced(name).lock()),
        Kind::Spin => held!(locks.spin(name).lock()),
        Kind::Read => held!(locks.rw(name).read()),
        Kind::Write => held!(locks.rw(name).write()),
        _ => held!(locks.mutex(name).lock()),
    }
}

async fn seen(locks: &Locks, kind: Kind, name: &str) -> Snapshot {
    let seen = match kind {
        Kind::Read | Kind::Write => locks.rw(name).inspect().await,
        _ => locks.mutex(name).inspect().await,
    };
    seen.expect("the server answers")
}

/// Each keeps the other out and gets in after it; ours says who it is, Java's says nothing.
pub(super) async fn each_keeps_the_other_out(pair: Pair) {
    let (java, locks) = (pair.java("a"), open(&pair).await);
    for kind in KINDS {
        let name = pair.name(&format!("{kind:?}"));
        // A reader is in nobody's way but a writer's.
        let theirs = if kind == Kind::Read { Kind::Write } else { kind };
        let guard = hold(&locks, kind, &name, HOUR).await;
        assert!(java.try_lock(theirs, &name, ms(0), Some(HOUR)).await.is_none(), "{kind:?}");
        let ours = seen(&locks, kind, &name).await;
        let info = ours.holders[0].info.as_ref().expect("it says who it is");
        assert_eq!((&*info.service, info.label.as_deref()), ("billing", Some("ours")));
        drop(guard);
        // Not before: a writer of Java's that is about to sleep misses that ours leaves, and sleeps for the rest of its lease.
        gone(&pair, &name).await;
        java.lock_for(theirs, &name, HOUR).within(secs(20)).await;
        let held = seen(&locks, kind, &name).await;
        assert_eq!((held.holders.len(), &held.holders[0].info), (1, &None), "{kind:?}");
        java.unlock(theirs, &name).await;
        drop(hold(&locks, kind, &name, HOUR).await);
    }
}

/// Java's `forceUnlock` leaves what was said, which goes by itself; nobody who holds it next is taken for whoever said it.
pub(super) async fn what_a_forced_lock_leaves_goes_by_itself(pair: Pair) {
    let (java, locks) = (pair.java("a"), open(&pair).await);
    for kind in KINDS {
        let name = pair.name(&format!("{kind:?}"));
        // Long enough to be forced out in, on a machine that stands still for seconds.
        let guard = hold(&locks, kind, &name, secs(8)).await;
        assert!(java.force_unlock(kind, &name).await, "{kind:?}");
        java.lock_for(kind, &name, HOUR).within(secs(20)).await;
        let held = seen(&locks, kind, &name).await;
        assert_eq!((held.holders.len(), &held.holders[0].info), (1, &None), "{kind:?}");
        java.unlock(kind, &name).await;
        drop(guard);
    }
}

/// Permits of both kinds are counted as before.
pub(super) async fn permits_are_counted_as_before(pair: Pair) {
    let (java, locks) = (pair.java("a"), open(&pair).await);
    let name = pair.name("s");
    let theirs = java.semaphore(&name);
    assert!(theirs.try_set(3).await);
    let ours = locks.semaphore(&name).acquire(2).label("ours").await.expect("three are left");
    assert_eq!(theirs.available().await, 1);
    assert!(!theirs.try_acquire(2, ms(0)).await);
    theirs.acquire(1).await;
    ours.unlock().await.expect("they were held");
    assert_eq!(theirs.available().await, 2);
    theirs.release(1).await;
    locks.semaphore(&name).delete().await.expect("the server answers");

    let name = pair.name("l");
    let theirs = java.leased_semaphore(&name);
    assert!(theirs.try_set(3).await);
    let semaphore = locks.leased_semaphore(&name);
    let ours = semaphore.acquire(2).lease(HOUR).label("ours").await.expect("three are left");
    let ids = theirs.acquire(1, Some(HOUR)).await.ids;
    let seen = semaphore.inspect().await.expect("the server answers");
    let said: Vec<bool> = seen.holders.iter().map(|holder| holder.info.is_some()).collect();
    assert_eq!(said.iter().filter(|said| **said).count(), 2, "{seen:?}");
    ours.unlock().await.expect("they were held");
    assert_eq!((theirs.available().await, theirs.acquired().await), (2, 1));
    theirs.release(&ids).await;
    semaphore.delete().await.expect("the server answers");
}
