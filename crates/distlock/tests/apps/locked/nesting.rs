//! Functions that call each other re-enter; functions that run beside each other exclude each other.

use distlock::{Locks, Result, locked};
use distlock_testkit::suites::Section;
use tokio::join;

const SOON: std::time::Duration = std::time::Duration::from_secs(30);

#[locked("ledger", via = locks)]
async fn inner(locks: &Locks) -> Result<usize> {
    let held = locks.mutex("ledger").inspect().await?;
    Ok(held.holders[0].depth as usize)
}

#[locked("ledger", via = locks)]
async fn outer(locks: &Locks) -> Result<usize> {
    inner(locks).await
}

#[locked("ledger", via = locks)]
async fn deeper(locks: &Locks) -> Result<usize> {
    outer(locks).await
}

#[tokio::test]
async fn a_function_called_by_another_re_enters() {
    let locks = Locks::memory();
    assert_eq!(deeper(&locks).await.unwrap(), 3);
    assert_eq!(inner(&locks).await.unwrap(), 1);
    assert!(!locks.mutex("ledger").is_locked().await.unwrap());
}

/// Or a few levels of them would overflow the stack.
#[tokio::test]
async fn a_function_is_not_larger_for_what_it_calls() {
    let locks = Locks::memory();
    assert_eq!(size_of_val(&inner(&locks)), size_of_val(&deeper(&locks)));
    let one = locks.mutex("k").lock().run(async |_| inner(&locks).await);
    let within = locks
        .mutex("k")
        .lock()
        .run(async |_| locks.mutex("k").lock().run(async |_| deeper(&locks).await.map(drop)).await);
    assert!(size_of_val(&within) < 2 * size_of_val(&one), "{}", size_of_val(&within));
}

/// On one line, as some write it: no warning about its braces.
#[locked("k", via = locks)]
#[rustfmt::skip]
async fn on_one_line(locks: &Locks) -> Result<bool> { locks.mutex("k").is_locked().await }

#[tokio::test]
async fn a_function_may_stand_on_one_line() {
    assert!(on_one_line(&Locks::memory()).await.unwrap());
}

/// Not through another store: a lock of the same name there is another lock.
#[locked("ledger", via = locks)]
async fn across(locks: &Locks, others: &Locks) -> Result<usize> {
    inner(others).await
}

#[tokio::test]
async fn a_lock_of_another_store_is_another_lock() {
    assert_eq!(across(&Locks::memory(), &Locks::memory()).await.unwrap(), 1);
}

#[locked("job:{id}", via = locks)]
async fn visit(locks: &Locks, id: u32, section: &Section) -> Result<()> {
    for _ in 0..10 {
        section.visit().await;
    }
    Ok(())
}

#[locked("all", via = locks)]
async fn side_by_side(locks: &Locks, section: &Section) -> Result<()> {
    let (one, other) = join!(visit(locks, 1, section), visit(locks, 1, section));
    one.and(other)
}

#[tokio::test]
async fn functions_that_run_beside_each_other_exclude_each_other() {
    let (locks, section) = (Locks::memory(), Section::new());
    let (one, other) = join!(visit(&locks, 7, &section), visit(&locks, 7, &section));
    one.and(other).unwrap();
    // Also if both are called by one that holds another lock.
    side_by_side(&locks, &section).await.unwrap();
}

/// What is spawned is on its own: it would outlive the hold.
#[locked("ledger", via = locks)]
async fn spawning(locks: &Locks) -> Result<bool> {
    let stranger = locks.clone();
    let task = tokio::spawn(async move { skipping(&stranger).await });
    Ok(task.await.expect("no panic")?.is_some())
}

#[locked("ledger", or_skip, via = locks)]
async fn skipping(locks: &Locks) -> Result<Option<()>> {
    Ok(Some(()))
}

#[tokio::test]
async fn a_spawned_task_does_not_re_enter() {
    let locks = Locks::memory();
    assert!(!spawning(&locks).await.unwrap());
    assert!(skipping(&locks).await.unwrap().is_some());
}

#[locked(["a", "b"], via = locks)]
async fn both(locks: &Locks) -> Result<usize> {
    let held = locks.mutex("a").inspect().await?;
    Ok(held.holders[0].depth as usize)
}

#[locked("a", via = locks)]
async fn one_then_both(locks: &Locks) -> Result<usize> {
    both(locks).await
}

#[tokio::test]
async fn one_of_several_re_enters() {
    assert_eq!(one_then_both(&Locks::memory()).await.unwrap(), 2);
}

#[locked(["a", "b", "c"], via = locks)]
async fn three(locks: &Locks) -> Result<Vec<u32>> {
    let mut depths = Vec::new();
    for name in ["a", "b", "c"] {
        depths.push(locks.mutex(name).inspect().await?.holders[0].depth);
    }
    Ok(depths)
}

#[locked("b", via = locks)]
async fn one_then_three(locks: &Locks) -> Result<Vec<u32>> {
    three(locks).await
}

#[locked("a", via = locks)]
async fn two_then_three(locks: &Locks) -> Result<Vec<u32>> {
    one_then_three(locks).await
}

/// Each of them is held by a function, and an owner, of its own.
#[tokio::test]
async fn several_that_several_functions_hold_are_all_re_entered() {
    let locks = Locks::memory();
    let depths = tokio::time::timeout(SOON, two_then_three(&locks)).await;
    assert_eq!(depths.expect("it does not wait for itself").unwrap(), [2, 2, 1]);
    for name in ["a", "b", "c"] {
        assert!(!locks.mutex(name).is_locked().await.unwrap(), "{name} is left behind");
    }
}

#[locked("r", kind = rw, via = locks)]
async fn writing(locks: &Locks) -> Result<bool> {
    reading(locks).await
}

#[locked("r", kind = rw, read, via = locks)]
async fn reading(locks: &Locks) -> Result<bool> {
    Ok(true)
}

#[tokio::test]
async fn a_writer_may_read() {
    assert!(writing(&Locks::memory()).await.unwrap());
}

#[locked("t", via = locks)]
fn inner_of_thread(locks: &Locks, fail: bool) -> Result<u32> {
    assert!(!fail, "as the test wants it");
    let held = locks.mutex("t").lock().wait(std::time::Duration::ZERO).blocking();
    Ok(held.is_err().into())
}

#[locked("t", via = locks)]
fn outer_of_thread(locks: &Locks, fail: bool) -> Result<u32> {
    inner_of_thread(locks, fail)
}

/// A function that is not async, called by one that is.
#[locked("t", via = locks)]
async fn mixed(locks: &Locks) -> Result<u32> {
    inner_of_thread(locks, false)
}

/// And the other way round, and back again.
#[locked("t", via = locks)]
fn waits_for_async(locks: &Locks) -> Result<u32> {
    distlock::block_on(mixed(locks))
}

#[test]
fn what_a_thread_waits_for_re_enters() {
    let (done, result) = std::sync::mpsc::channel();
    let locks = Locks::memory();
    let nested = locks.clone();
    std::thread::spawn(move || done.send(waits_for_async(&nested)));
    assert_eq!(result.recv_timeout(SOON).expect("it does not wait for itself").unwrap(), 1);
    assert!(!distlock::block_on(locks.mutex("t").is_locked()).unwrap());
}

#[test]
fn threads_re_enter_too() {
    let locks = Locks::memory();
    assert_eq!(outer_of_thread(&locks, false).unwrap(), 1);
    // After a panic nothing is left of it: not the lock, and not the memory of having it.
    let failing = locks.clone();
    let panicked = std::thread::spawn(move || {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            outer_of_thread(&failing, true)
        }));
        assert!(caught.is_err());
        outer_of_thread(&failing, false)
    });
    assert_eq!(panicked.join().unwrap().unwrap(), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(mixed(&locks)).unwrap(), 1);
}
