//! What a job calls re-enters the schedule's lock, as under `run`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use distlock::{Error, Locks, Result, Tick, locked};

use crate::schedule::fleet::Fleet;

/// How deep it is in.
#[locked("job", wait = Duration::ZERO, via = locks)]
async fn within(locks: &Locks, tick: &Tick) -> Result<u32> {
    locks.mutex("job").hold_count(tick.scope().owner()).await
}

#[locked("job", or_skip, via = locks)]
async fn or_not(locks: &Locks, tick: &Tick) -> Result<Option<u32>> {
    within(locks, tick).await.map(Some)
}

#[locked("job", wait = Duration::ZERO, via = locks)]
fn on_a_thread(locks: &Locks) -> Result<u32> {
    Ok(7)
}

#[locked("job", or_skip, via = locks)]
fn or_not_on_a_thread(locks: &Locks) -> Result<Option<u32>> {
    on_a_thread(locks).map(Some)
}

/// So soon that nobody waits for long. Only said when the schedule is run: one that is over by then is left out.
fn soon() -> impl Iterator<Item = SystemTime> + Send + 'static {
    std::iter::once_with(|| SystemTime::now() + Duration::from_millis(50))
}

#[tokio::test(start_paused = true)]
async fn a_job_re_enters_the_lock_of_its_schedule() {
    let fleet = Fleet::new(2);
    let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
    let runs = AtomicU32::new(0);
    let job = async |tick: Tick| {
        assert_eq!(within(&locks, &tick).await.unwrap(), 2);
        assert_eq!(or_not(&locks, &tick).await.unwrap(), Some(3));
        let run = locks.mutex("job").lock().wait(Duration::ZERO);
        run.run(async |_| Ok::<_, Error>(())).await.unwrap();
        // Who does not look around is kept out as ever.
        assert!(locks.mutex("job").try_lock().await.unwrap().is_none());
        runs.fetch_add(1, Ordering::SeqCst);
    };
    locks.schedule("job").times(fleet.ticks.clone()).run(job).await.unwrap();
    assert_eq!(runs.into_inner(), 2);
    assert!(!locks.mutex("job").is_locked().await.unwrap());
}

/// What it does before it is a future is done under the lock as well.
#[tokio::test]
async fn the_call_of_a_job_is_a_part_of_it() {
    let locks = Locks::memory();
    let mut called = None;
    let job = |_| {
        called = Some(on_a_thread(&locks));
        async {}
    };
    locks.schedule("job").times(soon()).run(job).await.unwrap();
    assert_eq!(called.expect("it has run").unwrap(), 7);
}

#[test]
fn a_job_on_a_thread_re_enters_the_lock_of_its_schedule() {
    let locks = Locks::memory();
    let mut runs = 0;
    let job = |tick: Tick| {
        assert_eq!(on_a_thread(&locks).unwrap(), 7);
        assert_eq!(or_not_on_a_thread(&locks).unwrap(), Some(7));
        assert_eq!(distlock::block_on(within(&locks, &tick)).unwrap(), 2);
        runs += 1;
    };
    locks.schedule("job").times(soon()).run_blocking(job).unwrap();
    assert_eq!(runs, 1);
    // Nothing of it is left on the thread: not the lock, and not the memory of having it.
    assert!(!distlock::block_on(locks.mutex("job").is_locked()).unwrap());
    let _elsewhere = locks.mutex("job").lock().blocking().unwrap();
    assert_eq!(or_not_on_a_thread(&locks).unwrap(), None);
}
