//! Renewals: who is asked about, and what an answer in the worst moment does.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};

use super::*;
use crate::engine::State;

async fn until(what: &str, so: impl Fn() -> bool) {
    let so = async {
        while !so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), so).await.expect(what);
}

/// A fixed lease is not renewed, so no renewal would find that another server does not have it.
#[tokio::test(start_paused = true)]
async fn after_a_failover_fixed_leases_are_asked_about_until_there_is_an_answer() {
    let scene = Scene::new("failover").await;
    for gone in [false, true] {
        let guard = scene.locks.mutex("k").lock().lease(HOUR).await.unwrap();
        scene.store.whims.deaf.store(2, Ordering::Relaxed);
        scene.store.whims.term.fetch_add(1, Ordering::Relaxed);
        until("it is asked about", || guard.state() == State::Suspect).await;
        if gone {
            assert!(scene.other.mutex("k").force_unlock().await.unwrap());
            timeout(LONG, guard.lost()).await.expect("it is told, and not when the lease ends");
        } else {
            until("it is asked about again", || guard.state() == State::Held).await;
            assert!(guard.remaining() <= HOUR, "nobody wanted more");
        }
    }
}

/// The same if it cannot be asked about at once.
#[tokio::test(start_paused = true)]
async fn after_a_failover_a_step_under_way_keeps_no_fixed_lease_from_being_asked_about() {
    let scene = Scene::new("failover, busy").await;
    let guard = scene.locks.mutex("k").lock().lease(HOUR).await.unwrap();
    scene.store.whims.answers_late.store(true, Ordering::Relaxed);
    let mut extending = pin!(guard.extend(HOUR * 2));
    assert!(extending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    scene.store.whims.term.fetch_add(1, Ordering::Relaxed);
    sleep(Duration::from_secs(5)).await; // long enough to be noticed
    assert!(scene.other.mutex("k").force_unlock().await.unwrap());
    scene.store.whims.answers_late.store(false, Ordering::Relaxed);
    scene.store.gate.add_permits(1);
    extending.await.unwrap(); // says the server of before
    timeout(LONG, guard.lost()).await.expect("it is told, and not when the lease ends");
}

/// Stands still where a hold is lost until it is let.
#[derive(Debug)]
struct Staring {
    sees: mpsc::Sender<()>,
    lets: Mutex<mpsc::Receiver<()>>,
}

impl Observer for Staring {
    fn observe(&self, _: Subject<'_>, event: Event) {
        if event == Event::Lost {
            self.sees.send(()).unwrap();
            let _ = self.lets.lock().unwrap().recv();
        }
    }
}

/// The answer to a renewal comes when the loss is told and the seat is not vacant yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_renewed_in_the_moment_of_its_loss_is_let_go() {
    let ((sees, seen), (lets, let_go)) = (mpsc::channel(), mpsc::channel());
    let staring = Arc::new(Staring { sees, lets: Mutex::new(let_go) });
    let scene = Scene::seen_by("moment", staring).await;
    let lease = Duration::from_millis(500);
    let guard = scene.locks.mutex("k").lock().lease(lease).await.unwrap();
    scene.store.whims.answers_late.store(true, Ordering::Relaxed);
    let extending = tokio::spawn(async move {
        let extended = guard.extend(HOUR).await;
        (guard, extended)
    });
    tokio::task::spawn_blocking(move || seen.recv().unwrap()).await.unwrap();
    scene.store.gate.add_permits(1);
    let (_guard, extended) = extending.await.unwrap();
    lets.send(()).unwrap();
    assert_eq!(extended.unwrap_err().kind(), ErrorKind::Lost);
    timeout(LONG, async {
        while scene.is_locked().await {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("nobody has it");
}

/// Timers are late by milliseconds, and so short a lease has few to spare.
#[tokio::test(start_paused = true)]
async fn a_lease_of_few_milliseconds_is_held_at_first() {
    let scene = Scene::new("short").await;
    let guard = scene.locks.mutex("k").lock().lease(Duration::from_millis(3)).await.unwrap();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.state(), State::Held);
    timeout(LONG, guard.lost()).await.expect("it ends");
}

/// An extension that waits for its turn has a timer, which must not be the runtime's that it began on.
#[test]
fn an_extension_outlives_the_runtime_it_began_on() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begin = runtime();
    let env = crate::env::System;
    let inner = MemoryStore::named("outlives", Arc::new(env));
    let (mood, gate) = (Mutex::new(Mood::Late), Semaphore::new(0));
    let (at_the_gate, whims) = (AtomicUsize::new(0), Whims::default());
    let store = Arc::new(Moody { inner, mood, whims, gate, at_the_gate });
    let locks = Locks::builder().store(store.clone()).connect();
    let locks = begin.block_on(locks).unwrap();
    let guard = begin.block_on(locks.mutex("k").lock().into_future()).unwrap();
    let (mut first, mut second) = (pin!(guard.extend(HOUR)), pin!(guard.extend(HOUR)));
    let mut poll_both = || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
    };
    begin.block_on(async { poll_both() });
    drop(begin);
    let end = runtime();
    end.block_on(async { poll_both() });
    store.gate.add_permits(2);
    end.block_on(async { first.await.and(second.await) }).unwrap();
}

#[derive(Debug)]
struct Thread(mpsc::Sender<Option<String>>);

impl Observer for Thread {
    fn observe(&self, _: Subject<'_>, event: Event) {
        if event == Event::Renewed {
            let _ = self.0.send(std::thread::current().name().map(str::to_owned));
        }
    }
}

/// On its own thread nothing that users or the library do can hold a renewal up; and a disk that does not answer cannot keep
/// the watchdog from saying that something is lost.
#[test]
fn the_watchdog_renews_on_its_own_thread_unless_that_could_block_it() {
    let dir = std::env::temp_dir().join(format!("distlock-renewals-{}", std::process::id()));
    let file = format!("file:{}", dir.display());
    for (url, expected) in [("memory:", "distlock-watchdog"), (&*file, "distlock")] {
        let (told, heard) = mpsc::channel();
        let locks = Locks::builder().url(url).observer(Arc::new(Thread(told)));
        let locks = locks.watchdog(Duration::from_millis(100)).connect_blocking().unwrap();
        let guard = locks.mutex("k").lock().blocking().unwrap();
        let thread = heard.recv_timeout(LONG).expect("it is renewed");
        assert_eq!(thread.as_deref(), Some(expected), "{url}");
        drop(guard);
        crate::block_on(locks.close());
    }
    let _ = std::fs::remove_dir_all(dir);
}

/// A program that ends right after the drop of its last `Locks` must have closed its store by then: a store of files removes what is its own.
#[tokio::test(start_paused = true)]
async fn the_waiting_watchdog_does_not_keep_the_store_open() {
    let Scene { store, locks, other } = Scene::new("closed").await;
    let guard = locks.mutex("k").lock().await.unwrap();
    sleep(LONG / 2).await; // it has renewed, and waits
    guard.unlock().await.unwrap();
    drop((locks, other));
    assert_eq!(Arc::strong_count(&store), 1);
}
