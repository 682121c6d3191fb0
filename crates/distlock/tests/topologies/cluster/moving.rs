//! Slots that move from one server to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use distlock::{Error, ErrorKind, Locks};
use distlock_testkit::suites::{Section, eventually};
use distlock_testkit::{Cluster, Flavor, Stopwatch};

use crate::cluster::{LONG, SOON, WAYS, waiters_follow, waiting};

/// What a step can do without: it is asked for again for three seconds.
const STALL: Duration = Duration::from_secs(1);

async fn nothing() {}

/// A client with an old map is told, and goes on with the new one.
#[tokio::test]
async fn a_slot_that_has_moved_is_followed() {
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    let (here, elsewhere) = {
        let connect = async || Locks::connect(&cluster.url("auto")).await.expect("a cluster");
        (connect().await, connect().await)
    };
    // So that both have a map, and connections.
    for locks in [&here, &elsewhere] {
        locks.mutex("k").lock().await.expect("free").unlock().await.expect("held");
    }
    let guard = here.mutex("k").lock().lease(LONG).await.expect("free");
    let before = cluster.primary_of("k").await.port();
    cluster.move_slot("k", nothing).await;
    assert_ne!(cluster.primary_of("k").await.port(), before);
    assert!(elsewhere.mutex("k").try_lock().await.expect("followed").is_none());
    guard.extend(2 * LONG).await.expect("followed");
    assert_eq!(elsewhere.list("").await.expect("followed").len(), 1);
    guard.unlock().await.expect("followed");
    let guard = elsewhere.mutex("k").try_lock().await.expect("followed").expect("free");
    guard.unlock().await.expect("held");
    cluster.assert_clean("").await;
}

/// While a slot is open, what is there is served by the old server and what is not by the new one, which does not know our
/// scripts yet.
#[tokio::test]
async fn an_open_slot_is_served_by_both() {
    for flavor in Flavor::installed() {
        let cluster = Cluster::builder(flavor).patient().start().await;
        let locks = Locks::connect(&cluster.url("auto")).await.expect("a cluster");
        let held = locks.mutex("{t}held").lock().lease(LONG).await.expect("free");
        let fair = locks.fair("{t}fair").lock().lease(LONG).await.expect("free");
        let during = || async {
            held.extend(2 * LONG).await.expect("it is still here");
            assert!(locks.mutex("{t}held").is_locked().await.expect("an answer"));
            let new = locks.mutex("{t}new").lock().lease(LONG).await.expect("free");
            assert!(locks.mutex("{t}new").try_lock().await.expect("an answer").is_none());
            let there = cluster.other_primary("{t}").await;
            assert!(!there.keys("{t}new").await.is_empty(), "it was taken where the slot goes");
            new.unlock().await.expect("held");
        };
        cluster.move_slot("{t}", during).await;
        held.unlock().await.expect("held");
        fair.unlock().await.expect("held");
        locks.fair("{t}fair").lock().await.expect("free").unlock().await.expect("held");
        cluster.assert_clean("").await;
    }
}

/// A step on several keys, some of which are here and some there, cannot be done before the move is over. It is asked for
/// again until it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_done_while_a_slot_moves_is_done_after() {
    let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
    let locks = Locks::connect(&cluster.url("auto")).await.expect("a cluster");
    let guard = locks.fair("k").lock().lease(LONG).await.expect("free");
    let server = cluster.primary_of("k").await;
    let refused = || async { server.info_field("errorstat_TRYAGAIN").await.is_some() };
    let (released, watch) = (Arc::new(AtomicBool::new(false)), Stopwatch::start());
    let done = released.clone();
    let mut release = None;
    cluster
        .move_slot("k", || async {
            release = Some(tokio::spawn(async move {
                let unlocked = guard.unlock().await;
                done.store(unlocked.is_ok(), Ordering::SeqCst);
                unlocked
            }));
            // The lock is there and its queue is not: a part of what the release names is missing.
            eventually("the server cannot do it now", refused).await;
            assert!(!released.load(Ordering::SeqCst));
        })
        .await;
    let release = release.expect("begun");
    let unlocked = tokio::time::timeout(SOON, release).await.expect("in time");
    // If the move takes seconds its holder is told that it is still on its way.
    unlocked.expect("no panic").unwrap_or_else(|error| assert_not_now(&error, &watch));
    let free = || async { locks.fair("k").is_locked().await.is_ok_and(|locked| !locked) };
    eventually("it is done after", free).await;
    cluster.assert_clean("").await;
}

/// A slot that is open for longer than a step may take, because the machine stood still: nothing is lost, and it can be asked for
/// again.
fn assert_not_now(error: &Error, watch: &Stopwatch) {
    let not_now = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
    assert!(not_now && watch.stalled() > STALL, "{error}");
}

/// Takes a lock, again if the slot was open for too long, visits the section and lets go.
macro_rules! visit {
    ($lock:expr, $section:expr, $watch:expr) => {{
        let guard = loop {
            match $lock.lock().lease(LONG).await {
                Ok(guard) => break guard,
                Err(error) => assert_not_now(&error, &$watch),
            }
        };
        $section.visit().await;
        guard.unlock().await.unwrap_or_else(|error| assert_not_now(&error, &$watch));
    }};
}

/// The slot of a lock goes to and fro while everybody wants the lock: never two inside, nobody hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    for way in WAYS {
        moves_under_load(Flavor::Redis, way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load_elsewhere() {
    for flavor in Flavor::installed().into_iter().filter(|flavor| *flavor != Flavor::Redis) {
        moves_under_load(flavor, "auto").await;
    }
}

async fn moves_under_load(flavor: Flavor, way: &str) {
    const MOVES: usize = 6;
    let cluster = Arc::new(Cluster::builder(flavor).patient().start().await);
    let section = Section::new();
    let stop = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for at in 0..9 {
        let locks = Locks::connect(&cluster.url(way)).await.expect("a cluster");
        let (section, stop, inside) = (section.clone(), stop.clone(), inside.clone());
        let watch = Stopwatch::start();
        tasks.push(tokio::spawn(async move {
            let mut entries = 0;
            while !stop.load(Ordering::SeqCst) {
                // One key; three keys; two keys.
                match at % 3 {
                    0 => visit!(locks.mutex("{t}k"), section, watch),
                    1 => visit!(locks.fair("{t}k"), section, watch),
                    _ => visit!(locks.fenced("{t}k"), section, watch),
                }
                entries += 1;
                inside.fetch_add(1, Ordering::SeqCst);
            }
            entries
        }));
    }
    let some_more = async || {
        let goal = inside.load(Ordering::SeqCst) + 20;
        eventually("the lock goes round", || async { inside.load(Ordering::SeqCst) >= goal }).await;
    };
    for _ in 0..MOVES {
        some_more().await;
        let pause = || tokio::time::sleep(Duration::from_millis(20)); // an open slot, under load
        let (since, before) = (Instant::now(), inside.load(Ordering::SeqCst));
        cluster.move_slot("{t}k", pause).await;
        let moved = since.elapsed();
        let during = inside.load(Ordering::SeqCst) - before;
        let next = || async { inside.load(Ordering::SeqCst) > before + during };
        eventually("somebody gets in", next).await;
        let after = since.elapsed() - moved;
        println!("{way}: moved in {moved:?}, {during} got in meanwhile, the next {after:?} after");
    }
    some_more().await;
    stop.store(true, Ordering::SeqCst);
    let mut entries = 0;
    for task in tasks {
        entries += tokio::time::timeout(SOON, task).await.expect("hangs").expect("no panic");
    }
    assert_eq!(section.entries(), entries);
    cluster.assert_clean("").await;
}

/// A waiter whose slot moves away is subscribed where it went, and is woken there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_moves_with_its_slot() {
    for way in WAYS {
        let cluster = Cluster::builder(Flavor::Redis).patient().start().await;
        let change = async || {
            cluster.move_slot("{t}", nothing).await;
            cluster.primary_of("{t}").await
        };
        waiters_follow(&cluster, way, change).await;
    }
}

/// A slot that goes and comes back looks as if nothing had happened, but the server has dropped its sharded subscriptions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_when_its_slot_comes_back() {
    for way in WAYS {
        let cluster = Cluster::builder(Flavor::Redis).primaries(2).patient().start().await;
        for _ in 0..3 {
            let locks = Locks::connect(&cluster.url(way)).await.expect("a cluster");
            let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
            let waiter = waiting(&cluster.url(way), "k").await;
            let home = cluster.primary_of("k").await;
            cluster.move_slot("k", nothing).await;
            cluster.move_slot("k", nothing).await;
            assert_eq!(cluster.primary_of("k").await.port(), home.port());
            guard.unlock().await.expect("held");
            waiter.enters().await;
        }
        cluster.assert_clean("").await;
    }
}

/// Valkey 9 can move a slot in one step, in which it is open to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_at_once_is_followed() {
    if Flavor::Valkey.program().is_none() {
        return eprintln!("SKIPPED: no server for {:?}", Flavor::Valkey);
    }
    for way in WAYS {
        let cluster = Cluster::builder(Flavor::Valkey).patient().start().await;
        let locks = Locks::connect(&cluster.url(way)).await.expect("a cluster");
        let mutex = locks.mutex("{t}m").lock().lease(LONG).await.expect("free");
        let fair = locks.fair("{t}f").lock().lease(LONG).await.expect("free");
        let waiter = waiting(&cluster.url(way), "{t}m").await;
        let (from, to) = (cluster.primary_of("{t}").await, cluster.other_primary("{t}").await);
        let slot = cluster.slot_of("{t}").await.to_string();
        let id: String = to.ask(&["CLUSTER", "MYID"]).await;
        from.cli(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &slot, &slot, "NODE", &id]).await;
        eventually("the waiter is subscribed where the slot is now", || async {
            to.pubsub_channels().await.iter().any(|name| name.contains("{t}"))
        })
        .await;
        fair.unlock().await.expect("held");
        mutex.unlock().await.expect("held");
        waiter.enters().await;
        cluster.assert_clean("").await;
    }
}
