//! Work under a lock: what it gives, what stops it, and that nothing is left however it ends.
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks, MultiLock, RedLock, Scope, State, locked};
use distlock_testkit::suites::eventually;
use tokio_util::sync::CancellationToken;

const HOUR: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq)]
enum Trouble {
    Own,
    Lock(ErrorKind),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Lock(error.kind())
    }
}

/// What is tested is that it compiles: `?` finds the error type, and a type of the program's own works as well.
#[tokio::test]
async fn the_error_type_need_not_be_named() {
    async fn plain(locks: &Locks) -> distlock::Result<u32> {
        let one = locks.mutex("k").run(async |_| Ok(1)).await?;
        let two = locks.fair("k").lock().wait(SOON).run(async |_| Ok(2)).await?;
        let four = locks.rw("k").write().run(async |scope| scope.ensure().map(|()| 4)).await?;
        let eight = locks.mutex("k").try_lock().run(async |_| Ok(8)).await?;
        let later = locks.mutex("k").run(async |_| Ok(16));
        Ok(one + two + four + eight.unwrap_or_default() + later.await?)
    }
    fn blocking(locks: &Locks) -> distlock::Result<u32> {
        let one = locks.mutex("k").run_blocking(|_| Ok(1))?;
        Ok(one + locks.rw("k").read().run_blocking(|_| Ok(2))?)
    }
    async fn own(locks: &Locks) -> Result<u32, Trouble> {
        let one = locks.mutex("k").run(async |_| Ok::<_, Trouble>(1)).await?;
        let lock = locks.mutex("k").run(async |_| Err(Error::new(ErrorKind::Lost, "made up")));
        assert_eq!(
            Trouble::from(lock.await.map(|()| 0).unwrap_err()),
            Trouble::Lock(ErrorKind::Lost)
        );
        locks.mutex("k").run(async |_| if one == 1 { Err(Trouble::Own) } else { Ok(one) }).await
    }
    async fn boxed(locks: &Locks) -> Result<u32, Box<dyn std::error::Error>> {
        locks.mutex("k").run(async |_| Ok("1".parse()?)).await
    }
    let locks = Locks::memory();
    assert_eq!(plain(&locks).await.unwrap(), 31);
    assert_eq!(own(&locks).await, Err(Trouble::Own));
    assert_eq!(boxed(&locks).await.unwrap(), 1);
    let of_a_thread = locks.clone();
    let done = tokio::task::spawn_blocking(move || blocking(&of_a_thread)).await.unwrap();
    assert_eq!(done.unwrap(), 3);
    assert!(is_free(&locks).await);
}

async fn is_free(locks: &Locks) -> bool {
    locks.list("").await.unwrap().is_empty()
}

/// Every kind that holds something: the scope knows it, and it is free afterwards.
#[tokio::test]
async fn every_kind_runs_and_lets_go() {
    let locks = Locks::memory();
    let nodes = [Locks::memory(), Locks::memory(), Locks::memory()];
    let alive = async |scope: Scope| {
        assert_eq!(scope.state(), State::Held);
        assert!(scope.remaining() > Duration::from_secs(1));
        assert!(!scope.name().is_empty());
        scope.ensure()?;
        Ok::<_, Error>(scope)
    };
    let shared = locks.semaphore("s").with_permits(2);
    let leased = locks.leased_semaphore("l").with_permits(2);
    let scopes = [
        locks.mutex("mutex").run(alive).await.unwrap(),
        locks.fair("fair").run(alive).await.unwrap(),
        locks.fenced("fenced").run(alive).await.unwrap(),
        locks.spin("spin").run(alive).await.unwrap(),
        locks.simple("simple").run(alive).await.unwrap(),
        locks.multi(["m1", "m2"]).run(alive).await.unwrap(),
        RedLock::new("redlock", &nodes).run(alive).await.unwrap(),
        locks.rw("rw").read().run(alive).await.unwrap(),
        locks.rw("rw").write().run(alive).await.unwrap(),
        shared.acquire(1).run(alive).await.unwrap(),
        leased.acquire(2).run(alive).await.unwrap(),
        locks.mutex("try").try_lock().lease(HOUR).run(alive).await.unwrap().unwrap(),
    ];
    for (at, scope) in scopes.iter().enumerate() {
        assert_eq!(scope.token().is_some(), at == 2, "{scope:?}");
        // What is over is not held, and nobody is told that it was lost.
        assert_eq!(scope.ensure().unwrap_err().kind(), ErrorKind::Lost);
    }
    assert!(is_free(&locks).await);
    assert_eq!((shared.available().await.unwrap(), leased.available().await.unwrap()), (2, 2));
}

#[tokio::test]
async fn a_hundred_runs_take_turns() {
    let (locks, inside) = (Locks::memory(), Arc::new(AtomicU32::new(0)));
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (mutex, inside) = (locks.mutex("k"), inside.clone());
        crowd.spawn(mutex.run(async move |_| {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Error>(())
        }));
    }
    while let Some(done) = crowd.join_next().await {
        done.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_busy_lock_is_none_or_an_error_and_the_work_is_not_begun() {
    let locks = Locks::memory();
    let _elsewhere = locks.mutex("k").lock().await.unwrap();
    let never = async |_: Scope| -> Result<(), Error> { panic!("it is not ours") };
    assert_eq!(locks.mutex("k").try_lock().run(never).await.unwrap(), None);
    let short = Duration::from_millis(5);
    let error = locks.mutex("k").lock().wait(short).run(never).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WaitTimeout);
}

#[tokio::test]
async fn a_loss_stops_the_work_and_its_own_error_wins() {
    let locks = Locks::memory();
    let robbed = locks.mutex("k").run(async |scope| {
        locks.mutex("k").force_unlock().await?;
        scope.lost().await; // it hears of it, but is not asked
        pending::<Result<(), Trouble>>().await
    });
    assert_eq!(robbed.await, Err(Trouble::Lock(ErrorKind::Lost)));
    for (own, said) in
        [(Err(Trouble::Own), Err(Trouble::Own)), (Ok(7), Err(Trouble::Lock(ErrorKind::Lost)))]
    {
        let robbed = locks.mutex("k").run(async |_| {
            locks.mutex("k").force_unlock().await?;
            own
        });
        assert_eq!(robbed.await, said);
    }
    // A thread cannot be stopped: it is told at the end, unless it has something to say itself.
    let robbed = |own: Result<u32, Trouble>| {
        let thief = locks.clone();
        let work = move |scope: Scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            std::thread::spawn(move || runtime.block_on(thief.mutex("k").force_unlock()))
                .join()
                .unwrap()?;
            assert!(scope.is_lost() && scope.ensure().is_err());
            own
        };
        let mutex = locks.mutex("k");
        std::thread::spawn(move || mutex.run_blocking(work)).join().unwrap()
    };
    assert_eq!(robbed(Ok(7)), Err(Trouble::Lock(ErrorKind::Lost)));
    assert_eq!(robbed(Err(Trouble::Own)), Err(Trouble::Own));
}

/// Dropped at each poll in turn, or in a panic: the lock is free, and the next one comes in.
#[tokio::test]
async fn a_run_that_is_dropped_or_panics_leaves_nothing() {
    let locks = Locks::memory();
    for polls in 0..6_u32 {
        let mut run = Box::pin(locks.mutex("k").run(async |_| {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            Ok::<_, Error>(())
        }));
        for _ in 0..polls {
            let once = std::future::poll_fn(|cx| std::task::Poll::Ready(run.as_mut().poll(cx)));
            if once.await.is_ready() {
                break;
            }
        }
        drop(run);
        eventually("free", || is_free(&locks)).await;
    }
    let mutex = locks.mutex("k");
    let panics = mutex.run(async |_| -> Result<(), Error> { panic!("in the middle") });
    assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    eventually("free", || is_free(&locks)).await;
    let panics = move || mutex.run_blocking(|_| -> Result<(), Error> { panic!("in the middle") });
    assert!(std::thread::spawn(panics).join().is_err());
    eventually("free", || is_free(&locks)).await;
}

#[locked("k", wait = Duration::ZERO, via = locks)]
async fn attribute(locks: &Locks) -> Result<u32, Error> {
    let inner = locks.mutex("k").lock().wait(Duration::ZERO);
    inner.run(async |scope| locks.mutex("k").hold_count(scope.owner()).await).await
}

#[tokio::test]
async fn runs_and_functions_with_locks_re_enter_each_other_and_nobody_else_does() {
    let locks = Locks::memory();
    let deep = locks.mutex("k").run(async |_| {
        assert!(locks.mutex("k").try_lock().await?.is_none(), "only a run looks around");
        attribute(&locks).await
    });
    assert_eq!(deep.await.unwrap(), 3);
    assert!(is_free(&locks).await);
}

async fn is_told(token: &CancellationToken) {
    tokio::time::timeout(SOON, token.cancelled()).await.expect("the loss cancels it");
}

#[tokio::test]
async fn a_token_is_cancelled_by_a_loss_and_not_by_a_release() {
    let locks = Locks::memory();
    let (kept, lost) = (locks.mutex("a"), locks.mutex("b"));
    let guard = kept.lock().await.unwrap();
    let token = guard.cancellation_token();
    guard.unlock().await.unwrap();
    assert!(!token.is_cancelled());

    let guard = lost.lock().await.unwrap();
    let token = guard.cancellation_token();
    lost.force_unlock().await.unwrap();
    is_told(&token).await;

    let both = MultiLock::new([kept.into(), lost.clone().into()]).lock().await.unwrap();
    let token = both.cancellation_token();
    lost.force_unlock().await.unwrap();
    is_told(&token).await;
    drop(both);

    // The run ends with its loss, whatever becomes of the token: it is looked at from outside.
    let given = OnceLock::new();
    let run = lost.run(async |scope| {
        given.set(scope.cancellation_token()).unwrap();
        lost.force_unlock().await?;
        pending::<Result<(), Error>>().await
    });
    assert_eq!(run.await.unwrap_err().kind(), ErrorKind::Lost);
    is_told(given.get().unwrap()).await;
}

/// What watches for a token is counted by the runtime that it runs on.
#[tokio::test(start_paused = true)]
async fn nothing_watches_for_a_token_whose_guard_is_gone() {
    let env = distlock::env::Virtual::new();
    let locks = Locks::builder().url("memory:tokens").env(env).connect().await.unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    locks.mutex("k").lock().await.unwrap().unlock().await.unwrap();
    let before = tasks();
    let mut guards = Vec::new();
    for at in 0..100 {
        guards.push(locks.mutex(format!("k{at}")).lock().await.unwrap());
    }
    let tokens: Vec<_> = guards.iter().map(|guard| guard.cancellation_token()).collect();
    assert!(tasks() >= before + 100);
    // A leader that asks for each of its jobs: all are told, and one task is enough.
    let watching = tasks();
    let jobs: Vec<_> = (0..100).map(|_| guards[0].cancellation_token()).collect();
    assert_eq!(tasks(), watching);
    jobs[0].cancel(); // is one job's affair
    assert!(!jobs[1].is_cancelled() && !tokens[0].is_cancelled());
    guards.pop().unwrap().leak();
    for (at, guard) in guards.into_iter().enumerate() {
        if at % 2 == 0 { drop(guard) } else { guard.unlock().await.unwrap() }
    }
    eventually("only what was there before", || async { tasks() <= before }).await;
    assert!(tokens.iter().all(|token| !token.is_cancelled()));
}

#[tokio::test]
async fn a_shutdown_ends_every_wait_and_takes_nothing_new() {
    let (locks, shutdown) = (Locks::memory(), CancellationToken::new());
    let mutex = locks.mutex("k");
    let held = mutex.lock().cancel_on(&shutdown).await.unwrap();
    let must = tokio::spawn(mutex.lock().cancel_on(&shutdown).into_future());
    let may = tokio::spawn(mutex.try_lock().wait(HOUR).cancel_on(&shutdown).into_future());
    let all = locks.multi(["k", "other"]);
    let all = tokio::spawn(all.lock().cancel_on(&shutdown).into_future());
    tokio::task::yield_now().await;
    shutdown.cancel();
    assert_eq!(must.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(may.await.unwrap().unwrap().is_none());
    assert_eq!(all.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    // What is had stays until it is let go of.
    assert_eq!(held.state(), State::Held);
    held.unlock().await.unwrap();
    let late = mutex.lock().cancel_on(&shutdown).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Cancelled);
    // Somebody may just have been asking for one of those who left.
    eventually("free", || is_free(&locks)).await;
}
