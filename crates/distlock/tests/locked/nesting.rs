//! Functions that call each other re-enter; functions that run beside each other exclude each other.

use distlock::{Locks, Result, locked};
use distlock_testkit::suites::Section;
use tokio::join;

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
