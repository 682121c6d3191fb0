//! A program of plain threads: nothing here has a runtime.
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks, MultiLock, Profiles, RedLock, block_on, locked};
use distlock_testkit::{Flavor, Server};

const SOON: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

/// On each store.
fn everywhere(test: impl Fn(&str)) {
    test("memory:blocking");
    let server = Server::builder(Flavor::Redis).start_blocking();
    let files = format!("file:{}", server.dir().join("locks").display());
    test(&files);
    test(&server.url());
}

#[test]
fn threads_count_exactly_and_nothing_is_left() {
    everywhere(|url| {
        // Not atomically: the lock is what keeps it right.
        let number = AtomicU32::new(0);
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let locks = Locks::connect_blocking(url).unwrap();
                    for _ in 0..50 {
                        let guard = locks.mutex("count").lock().wait(SOON).blocking().unwrap();
                        let before = number.load(Ordering::SeqCst);
                        thread::yield_now();
                        number.store(before + 1, Ordering::SeqCst);
                        guard.unlock_blocking().unwrap();
                    }
                    block_on(locks.close());
                });
            }
        });
        assert_eq!(number.into_inner(), 200, "{url}");
        let locks = Locks::connect_blocking(url).unwrap();
        // The tests beside this one have locks of their own in the same table.
        assert!(block_on(locks.list("count")).unwrap().is_empty(), "{url}");
    });
}

#[test]
fn tries_questions_and_the_operators_tools() {
    everywhere(|url| {
        let locks = Locks::builder().url(url).watchdog(SOON).connect_blocking().unwrap();
        let mutex = locks.mutex("k");
        assert!(!block_on(mutex.is_locked()).unwrap());
        let guard = mutex.try_lock().blocking().unwrap().unwrap();
        assert!(mutex.try_lock().wait(SHORT).blocking().unwrap().is_none());
        let late = mutex.lock().wait(SHORT).blocking().unwrap_err();
        assert_eq!(late.kind(), ErrorKind::WaitTimeout);
        assert!(block_on(mutex.is_held_by(guard.owner())).unwrap());
        assert_eq!(block_on(mutex.hold_count(guard.owner())).unwrap(), 1);
        assert!(block_on(mutex.ttl()).unwrap().unwrap() <= SOON);
        assert_eq!(block_on(mutex.holder()).unwrap().unwrap().owner, guard.stay().to_string());
        block_on(guard.extend(2 * SOON)).unwrap();
        let inner = mutex.lock().owner(guard.owner()).blocking().unwrap();
        inner.unlock_blocking().unwrap();
        // A thread that waits for the loss.
        thread::scope(|threads| {
            let lost = threads.spawn(|| block_on(guard.lost()));
            assert!(block_on(mutex.force_unlock()).unwrap());
            lost.join().unwrap();
        });
        assert_eq!(guard.unlock_blocking().unwrap_err().kind(), ErrorKind::Lost);
        let leased = mutex.lock().lease(SHORT).blocking().unwrap();
        block_on(leased.lost());
        let both = locks.multi(["a", "b"]).lock().wait(SOON).blocking().unwrap();
        both.unlock_blocking().unwrap();
        let spun = locks.spin("s").lock().wait(SOON).blocking().unwrap();
        spun.unlock_blocking().unwrap();
        block_on(locks.close());
        assert_eq!(mutex.lock().blocking().unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn the_other_kinds() {
    everywhere(|url| {
        let locks = Locks::connect_blocking(url).unwrap();
        let fair = locks.fair("fair").lock().wait(SOON).blocking().unwrap();
        let fenced = locks.fenced("fenced").lock().wait(SOON).blocking().unwrap();
        block_on(locks.fence_gate("fenced").admit(fenced.token())).unwrap();
        let simple = locks.simple("simple").lock().wait(SOON).blocking().unwrap();
        let writing = locks.rw("rw").write().wait(SOON).blocking().unwrap();
        let reading = writing.downgrade_blocking().unwrap();
        let second = locks.rw("rw").try_read().blocking().unwrap().unwrap();
        let seats = locks.semaphore("seats");
        assert!(block_on(seats.init(3)).unwrap());
        let two = seats.acquire(2).wait(SOON).blocking().unwrap();
        assert_eq!(block_on(seats.available()).unwrap(), 1);
        let leased = locks.leased_semaphore("leased").with_permits(2);
        let one = leased.try_acquire(1).blocking().unwrap().unwrap();
        for guard in [two, one] {
            guard.unlock_blocking().unwrap();
        }
        for guard in [reading, second] {
            guard.unlock_blocking().unwrap();
        }
        fenced.unlock_blocking().unwrap();
        for guard in [fair, simple] {
            guard.unlock_blocking().unwrap();
        }
        let latch = locks.latch("latch");
        block_on(latch.init(2)).unwrap();
        thread::scope(|threads| {
            let open = threads.spawn(|| block_on(latch.wait()));
            for _ in 0..2 {
                block_on(latch.count_down()).unwrap();
            }
            open.join().unwrap().unwrap();
        });
        block_on(seats.delete()).unwrap();
        block_on(locks.fence_gate("fenced").forget()).unwrap();
        block_on(locks.close());
    });
}

#[test]
fn majorities_and_several_stores() {
    let nodes: Vec<Locks> =
        (0..3).map(|at| Locks::connect_blocking(&format!("memory:b{at}")).unwrap()).collect();
    let guard = RedLock::new("k", &nodes).lock().wait(SOON).blocking().unwrap();
    assert!(nodes[0].mutex("k").try_lock().blocking().unwrap().is_none());
    guard.unlock_blocking().unwrap();
    let all = MultiLock::new(nodes.iter().map(|node| node.mutex("k").into()));
    let left = all.run_blocking(|scope| {
        scope.ensure()?;
        Ok::<_, Error>(scope.remaining())
    });
    assert!(left.unwrap() > SHORT);
}

#[locked("order:{number}", wait = "30s")]
fn ship(number: u32) -> Result<u32, Error> {
    inner(number)
}

#[locked("order:{number}", wait = "30s")]
fn inner(number: u32) -> Result<u32, Error> {
    Ok(number + 1)
}

#[test]
fn profiles_and_functions_with_locks() {
    let profiles =
        Profiles::parse("default = \"main\"\n[profile.main]\nurl = \"memory:profiles\"").unwrap();
    let locks = profiles.locks_blocking("main").unwrap();
    profiles.install().unwrap();
    assert_eq!(ship(41).unwrap(), 42);
    assert!(block_on(locks.list("")).unwrap().is_empty());
}

/// As a channel or a lock of the standard library does, which parks the thread and so takes the call that was meant for `block_on`.
#[test]
fn work_that_parks_the_thread_takes_no_wake_up_away() {
    let (done, end) = mpsc::channel();
    thread::spawn(move || {
        let mut polls = 0;
        block_on(poll_fn(|cx| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            thread::park();
            Poll::Pending
        }));
        done.send(polls).unwrap();
    });
    assert_eq!(end.recv_timeout(SOON), Ok(2), "it was woken while it was polled");
}
