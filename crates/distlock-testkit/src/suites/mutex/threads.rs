//! Without a runtime. These promises are no async functions.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use distlock::{ErrorKind, Locks, Owner};

use super::{HOUR, ms, secs};
use crate::suites::{Ground, Section, Site};

/// Has the store at `site` keep a promise to threads.
pub fn stand(site: Site, promise: fn(&Ground)) {
    let Some(ground) = Ground::at(site) else { return };
    promise(&ground);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(ground.assert_clean());
}

fn open(ground: &Ground) -> Locks {
    ground.builder().connect_blocking().expect("the store can be opened")
}

/// Everything there is works without a runtime.
pub fn a_program_without_a_runtime_can_lock(ground: &Ground) {
    let (here, elsewhere) = (open(ground), open(ground));
    let name = ground.name("k");
    for _ in 0..3 {
        let guard = here.mutex(&name).lock().blocking().expect("it is free");
        assert!(elsewhere.mutex(&name).try_lock().blocking().expect("the store answers").is_none());
        let since = Instant::now();
        let refused = elsewhere.mutex(&name).lock().wait(ms(50)).blocking();
        assert_eq!(refused.expect_err("it is held").kind(), ErrorKind::WaitTimeout);
        assert!(since.elapsed() >= ms(50));
        guard.unlock_blocking().expect("it was held");
        let next = elsewhere.mutex(&name).try_lock().lease(HOUR).blocking();
        next.expect("the store answers").expect("it is free").unlock_blocking().expect("held");
    }
}

/// A guard may be dropped where there is no runtime.
pub fn a_guard_dropped_by_a_plain_thread_releases(ground: &Ground) {
    let (here, elsewhere) = (open(ground), open(ground));
    let name = ground.name("k");
    for _ in 0..10 {
        let guard = here.mutex(&name).lock().lease(HOUR).blocking().expect("it is free");
        drop(guard);
        let next = elsewhere.mutex(&name).lock().wait(secs(10)).blocking().expect("it gets free");
        thread::spawn(move || drop(next)).join().expect("no panic");
        let again = here.mutex(&name).lock().wait(secs(10)).blocking().expect("it gets free");
        again.unlock_blocking().expect("it was held");
    }
}

/// A thread re-enters as itself; another thread is another owner.
pub fn a_thread_is_an_owner(ground: &Ground) {
    let locks = open(ground);
    let mutex = locks.mutex(ground.name("k"));
    let me = Owner::current_thread();
    let outer = mutex.lock().owner(&me).blocking().expect("it is free");
    let inner = mutex.lock().owner(&Owner::current_thread()).blocking().expect("it is mine");
    let other = thread::spawn({
        let mutex = mutex.clone();
        move || mutex.try_lock().owner(&Owner::current_thread()).blocking()
    });
    assert!(other.join().expect("no panic").expect("the store answers").is_none());
    outer.unlock_blocking().expect("it was held");
    assert!(mutex.try_lock().blocking().expect("the store answers").is_none());
    inner.unlock_blocking().expect("it was held");
    assert!(mutex.try_lock().blocking().expect("the store answers").is_some());
}

/// Threads of several processes exclude each other.
pub fn threads_never_meet(ground: &Ground) {
    let section = Section::new();
    let rounds = ground.crowd(60);
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (locks, name) = (open(ground), ground.name("k"));
            let section = Arc::clone(&section);
            thread::spawn(move || {
                for round in 0..rounds {
                    let guard = locks.mutex(&name).lock().blocking().expect("it gets free");
                    section.enter();
                    thread::yield_now();
                    section.leave();
                    match (number + round) % 2 {
                        0 => drop(guard),
                        _ => guard.unlock_blocking().expect("it was held"),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(section.entries(), 8 * rounds as u64);
}
