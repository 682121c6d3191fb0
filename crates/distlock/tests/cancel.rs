//! A future may be dropped anywhere: nothing is left behind, and nothing is left undone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::{IntoFuture, pending};
use std::sync::Arc;
use std::time::Duration;

use distlock::{Locks, Mutex};
use distlock_testkit::Flavor;
use distlock_testkit::cancel::{poll_times, sweep, sweep_time};
use distlock_testkit::suites::{Ground, Recorder, Site, eventually};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

const HOUR: Duration = Duration::from_secs(3600);

/// Long enough that nothing here ends because a lease does: what is free again was released.
const WATCHDOG: Duration = Duration::from_secs(600);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two processes on one store, and how many tasks they need when nothing goes on.
struct Scene {
    ground: Ground,
    here: Locks,
    elsewhere: Locks,
    seen: Arc<Recorder>,
    name: String,
    idle_tasks: usize,
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

impl Scene {
    async fn set(site: Site) -> Option<Scene> {
        let ground = Ground::at(site)?;
        let seen = Recorder::new();
        let builder = ground.builder().watchdog(WATCHDOG).observer(seen.clone());
        let (here, elsewhere) = (builder.connect().await.unwrap(), ground.open().await);
        let name = ground.name("k");
        let mut scene = Scene { ground, here, elsewhere, seen, name, idle_tasks: 0 };
        // Connections are made when they are first needed and stay: let both processes have all of theirs.
        for (holder, waiter) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
            let pair = [scene.mutex(), scene.other()];
            let guard = pair[holder].lock().await.unwrap();
            let wait = tokio::spawn(pair[waiter].lock().into_future());
            tokio::time::sleep(ms(30)).await;
            guard.unlock().await.unwrap();
            wait.await.unwrap().unwrap().unlock().await.unwrap();
        }
        scene.ground.assert_clean().await;
        scene.idle_tasks = settled_tasks().await;
        Some(scene)
    }

    fn mutex(&self) -> Mutex {
        self.here.mutex(&self.name)
    }

    fn other(&self) -> Mutex {
        self.elsewhere.mutex(&self.name)
    }

    /// Nobody waits for it any more although it is still held: no subscription and no task is left.
    async fn assert_nobody_waits(&self) {
        eventually("nobody waits any more", || async {
            let heard = match self.ground.server() {
                Some(server) => server.pubsub_channels().await,
                None => Vec::new(),
            };
            alive() <= self.idle_tasks && !heard.iter().any(|to| to.contains(&self.name))
        })
        .await;
    }

    /// Nobody holds it, so it must be had at once, by both, and nothing may be left.
    async fn assert_nothing_left(&self, what: &str) {
        let since = Instant::now();
        let next = self.other().lock().wait(Duration::from_secs(5)).lease(HOUR).await;
        let next = next.unwrap_or_else(|error| panic!("{what}: not free again: {error}"));
        assert!(
            since.elapsed() < Duration::from_secs(4),
            "{what}: free after {:?}",
            since.elapsed()
        );
        next.unlock().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mine = self.mutex().lock().wait(Duration::from_secs(5)).await;
        mine.unwrap_or_else(|error| panic!("{what}: {error}")).unlock().await.unwrap();
        self.ground.assert_clean().await;
        eventually(&format!("{what}: no task is left"), || async { alive() <= self.idle_tasks })
            .await;
        assert_eq!(self.seen.count(&self.name, "lost"), 0, "{what}");
    }

    /// For a sweep.
    fn nothing_left(&self) -> impl AsyncFnMut(&str) {
        async |what: &str| self.assert_nothing_left(what).await
    }
}

/// How many tasks there are when none has come or gone for a while.
async fn settled_tasks() -> usize {
    let (mut tasks, mut since) = (alive(), Instant::now());
    while since.elapsed() < ms(100) {
        tokio::time::sleep(ms(5)).await;
        if alive() != tasks {
            (tasks, since) = (alive(), Instant::now());
        }
    }
    tasks
}

async fn an_uncontended_acquisition(scene: Scene) {
    let prepare = async || (scene.mutex().lock().into_future(), ());
    sweep("lock", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().try_lock().into_future(), ());
    sweep("try_lock", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().lock().lease(HOUR).into_future(), ());
    sweep_time("lock with a lease", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mutex().try_lock().into_future(), ());
    sweep_time("try_lock", scene.nothing_left(), prepare, async |()| ()).await;
}

async fn an_acquisition_held_up_elsewhere(scene: Scene) {
    let check = async |held: distlock::Guard| {
        scene.assert_nobody_waits().await;
        held.unlock().await.unwrap();
    };
    let prepare = async || {
        let held = scene.other().lock().lease(HOUR).await.unwrap();
        (scene.mutex().lock().into_future(), held)
    };
    sweep("lock", scene.nothing_left(), prepare, check).await;
    let prepare = async || {
        let held = scene.other().lock().lease(HOUR).await.unwrap();
        (scene.mutex().lock().wait(HOUR).into_future(), held)
    };
    sweep_time("lock", scene.nothing_left(), prepare, check).await;
}

async fn an_acquisition_held_up_here(scene: Scene) {
    let check = async |held: distlock::Guard| {
        scene.assert_nobody_waits().await;
        held.unlock().await.unwrap();
    };
    let prepare = async || {
        let held = scene.mutex().lock().lease(HOUR).await.unwrap();
        (scene.mutex().lock().into_future(), held)
    };
    sweep("lock", scene.nothing_left(), prepare, check).await;
    let prepare = async || {
        let held = scene.mutex().lock().lease(HOUR).await.unwrap();
        (scene.mutex().lock().wait(HOUR).into_future(), held)
    };
    sweep_time("lock", scene.nothing_left(), prepare, check).await;
}

/// The waiter leaves while the holder does.
async fn an_acquisition_released_in_that_moment(scene: Scene) {
    for holder in [scene.other(), scene.mutex()] {
        let prepare = async || {
            let held = holder.lock().lease(HOUR).await.unwrap();
            let mut waiting = scene.mutex().lock().into_future();
            // On its way to the lock, or in the queue for it.
            let early = timeout(ms(20), &mut waiting).await;
            assert!(early.is_err());
            let release = tokio::spawn(held.unlock());
            (waiting, release)
        };
        let check = async |release: tokio::task::JoinHandle<distlock::Result<()>>| {
            release.await.unwrap().unwrap();
        };
        sweep("lock", scene.nothing_left(), prepare, check).await;
        sweep_time("lock", scene.nothing_left(), prepare, check).await;
    }
}

async fn a_re_entry(scene: Scene) {
    let prepare = async || {
        let me = scene.here.owner();
        let outer = scene.mutex().lock().owner(&me).lease(HOUR).await.unwrap();
        (scene.mutex().lock().owner(&me).lease(HOUR).into_future(), outer)
    };
    let check = async |outer: distlock::Guard| {
        let me = *outer.owner();
        let one = || async { scene.mutex().hold_count(&me).await.unwrap() == 1 };
        eventually("the re-entry is taken back", one).await;
        assert!(!outer.is_lost());
        assert!(scene.other().try_lock().await.unwrap().is_none(), "the outer hold stays");
        outer.unlock().await.unwrap();
    };
    sweep("re-entry", scene.nothing_left(), prepare, check).await;
    sweep_time("re-entry", scene.nothing_left(), prepare, check).await;
}

async fn an_unlock(scene: Scene) {
    let prepare = async || {
        let held = scene.mutex().lock().lease(HOUR).await.unwrap();
        (held.unlock(), ())
    };
    sweep("unlock", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("unlock", scene.nothing_left(), prepare, async |()| ()).await;
    // With somebody waiting for it elsewhere and here.
    for waiter in [scene.other(), scene.mutex()] {
        let prepare = async || {
            let held = scene.mutex().lock().lease(HOUR).await.unwrap();
            let mut waiting = waiter.lock().into_future();
            assert!(timeout(ms(20), &mut waiting).await.is_err());
            (held.unlock(), tokio::spawn(waiting))
        };
        let check = async |waiting: tokio::task::JoinHandle<distlock::Result<distlock::Guard>>| {
            let served = timeout(Duration::from_secs(5), waiting).await.expect("it is served");
            served.unwrap().unwrap().unlock().await.unwrap();
        };
        sweep("unlock with a waiter", scene.nothing_left(), prepare, check).await;
    }
}

async fn an_extension(scene: Scene) {
    let prepare = async || {
        let held = Arc::new(scene.mutex().lock().lease(Duration::from_secs(60)).await.unwrap());
        let extending = held.clone();
        let work = async move {
            extending.extend(HOUR).await.unwrap();
        };
        (work, held)
    };
    let check = async |held: Arc<distlock::Guard>| {
        assert!(!held.is_lost());
        // The step that was on its way has arrived or not; the guard knows no more than that.
        let held = Arc::into_inner(held).expect("nobody else has it");
        held.unlock().await.unwrap();
    };
    sweep("extend", scene.nothing_left(), prepare, check).await;
    sweep_time("extend", scene.nothing_left(), prepare, check).await;
}

async fn work_under_a_lock(scene: Scene) {
    let prepare = async || {
        let held = Arc::new(scene.mutex().lock().lease(HOUR).await.unwrap());
        let holding = held.clone();
        let work = async move {
            let work = async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            };
            holding.while_held(work).await.unwrap();
            timeout(ms(20), holding.while_held(pending::<()>())).await.unwrap_err();
        };
        (work, held)
    };
    let check = async |held: Arc<distlock::Guard>| {
        assert!(!held.is_lost(), "the guard stays as it is");
        assert!(scene.other().try_lock().await.unwrap().is_none());
        Arc::into_inner(held).expect("nobody else has it").unlock().await.unwrap();
    };
    sweep("while_held", scene.nothing_left(), prepare, check).await;
}

async fn a_question(scene: Scene) {
    let prepare = async || {
        let mutex = scene.mutex();
        let work = async move {
            mutex.inspect().await.unwrap();
            mutex.force_unlock().await.unwrap();
        };
        (work, ())
    };
    sweep("inspect and force", scene.nothing_left(), prepare, async |()| ()).await;
}

/// Many waiters, all dropped in one moment.
async fn a_crowd_that_leaves(scene: Scene) {
    for holder in [scene.other(), scene.mutex()] {
        let held = holder.lock().lease(HOUR).await.unwrap();
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..50 {
            crowd.spawn(scene.mutex().lock().into_future());
        }
        tokio::time::sleep(ms(30)).await;
        crowd.abort_all();
        while crowd.join_next().await.is_some() {}
        scene.assert_nobody_waits().await;
        held.unlock().await.unwrap();
        scene.assert_nothing_left("a crowd that left").await;
    }
}

/// Each case on a store in this process, on files and on a server.
macro_rules! cancelled {
    ($($case:ident)*) => {
        $(mod $case {
            use super::*;

            #[tokio::test]
            async fn memory() {
                super::$case(Scene::set(Site::Memory).await.unwrap()).await;
            }

            #[tokio::test]
            async fn file() {
                super::$case(Scene::set(Site::File).await.unwrap()).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$case(Scene::set(Site::Server(Flavor::Redis)).await.unwrap()).await;
            }
        })*
    };
}

cancelled! {
    an_uncontended_acquisition
    an_acquisition_held_up_elsewhere
    an_acquisition_held_up_here
    an_acquisition_released_in_that_moment
    a_re_entry
    an_unlock
    an_extension
    work_under_a_lock
    a_question
    a_crowd_that_leaves
}

/// Redisson: testLockIsNotRenewedAfterInterruptedTryLock.
#[tokio::test]
async fn what_was_cancelled_is_not_renewed() {
    for site in [Site::Memory, Site::Server(Flavor::Redis)] {
        let ground = Ground::at(site).unwrap();
        let seen = Recorder::new();
        let builder = ground.builder().watchdog(ms(300)).observer(seen.clone());
        let locks = builder.connect().await.unwrap();
        for polls in 0..8 {
            let name = ground.name(&format!("k{polls}"));
            drop(poll_times(locks.mutex(&name).try_lock().into_future(), polls).await);
            let free = || async { !locks.mutex(&name).is_locked().await.unwrap() };
            eventually("it falls back by itself", free).await;
            let renewed = seen.count(&name, "renewed");
            tokio::time::sleep(ms(250)).await;
            assert_eq!(seen.count(&name, "renewed"), renewed, "{polls} polls");
            assert!(free().await);
        }
    }
}

/// A runtime that is shut down takes its guards and waiters with it; the locks go on.
fn a_runtime_shuts_down(site: Site) {
    let Some(ground) = Ground::at(site) else { return };
    let build = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let survivor = build();
    for round in 0..6 {
        let locks = ground.builder().watchdog(WATCHDOG).connect_blocking().unwrap();
        let (held, contended) = (ground.name("held"), ground.name("contended"));
        let elsewhere = survivor.block_on(ground.open());
        let doomed = build();
        let theirs = survivor.block_on(elsewhere.mutex(&contended).lock().into_future()).unwrap();
        for name in [&held, &held, &contended, &contended] {
            let mutex = locks.mutex(name);
            doomed.spawn(async move {
                let _guard = mutex.lock().await;
                pending::<()>().await
            });
        }
        // A waiter on the surviving runtime, behind the driver that runs on the doomed one.
        survivor.block_on(async { tokio::time::sleep(ms(10 * round)).await });
        let waiter = survivor.spawn(locks.mutex(&contended).lock().into_future());
        survivor.block_on(async { tokio::time::sleep(ms(10 * round)).await });
        match round % 2 {
            0 => drop(doomed),
            _ => doomed.shutdown_background(),
        }
        survivor.block_on(async {
            let wait = Duration::from_secs(5);
            let next = elsewhere.mutex(&held).lock().wait(wait).await;
            let next = next.unwrap_or_else(|error| panic!("round {round}: {error}"));
            next.unlock().await.unwrap();
            let again = locks.mutex(&held).lock().wait(wait).await;
            again.unwrap_or_else(|error| panic!("round {round}: {error}")).unlock().await.unwrap();
            theirs.unlock().await.unwrap();
            let served = timeout(wait, waiter).await;
            let served = served.unwrap_or_else(|_| panic!("round {round}: the survivor starves"));
            served.unwrap().unwrap().unlock().await.unwrap();
            ground.assert_clean().await;
        });
    }
}

#[test]
fn a_runtime_shuts_down_over_memory() {
    a_runtime_shuts_down(Site::Memory);
}

#[test]
fn a_runtime_shuts_down_over_files() {
    a_runtime_shuts_down(Site::File);
}

#[test]
fn a_runtime_shuts_down_over_redis() {
    a_runtime_shuts_down(Site::Server(Flavor::Redis));
}
