//! A future may be dropped anywhere: nothing is left behind, and nothing is left undone.

mod acquiring;
mod holding;
mod runtimes;

use std::future::IntoFuture;
use std::ops::Deref;
use std::time::Duration;

use distlock::Mutex;
use distlock_testkit::suites::{Site, eventually};
use distlock_testkit::{Flavor, Stopwatch, cancel};
use tokio::runtime::Handle;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two processes on one store, and how many tasks they need when nothing goes on.
struct Scene {
    processes: cancel::Scene,
    idle_tasks: usize,
}

impl Deref for Scene {
    type Target = cancel::Scene;

    fn deref(&self) -> &cancel::Scene {
        &self.processes
    }
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

impl Scene {
    async fn set(site: Site) -> Option<Scene> {
        let mut scene = Scene { processes: cancel::Scene::set(site).await?, idle_tasks: 0 };
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
        let since = Stopwatch::start();
        let next = self.other().lock().wait(Duration::from_secs(15)).lease(HOUR).await;
        let next = next.unwrap_or_else(|error| panic!("{what}: not free again: {error}"));
        let took = since.elapsed();
        // One whom nobody wakes looks again after ten.
        assert!(took < Duration::from_secs(8), "{what}: free after {took:?}");
        next.unlock().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mine = self.mutex().lock().wait(Duration::from_secs(15)).await;
        mine.unwrap_or_else(|error| panic!("{what}: {error}")).unlock().await.unwrap();
        self.assert_clean(what).await;
        eventually(&format!("{what}: no task is left"), || async { alive() <= self.idle_tasks })
            .await;
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

/// Each case on a store in this process, on files and on a server.
macro_rules! cancelled {
    ($($when:ident::$case:ident)*) => {
        $(mod $case {
            use super::{Flavor, Scene, Site, $when::$case};

            #[tokio::test]
            async fn memory() {
                $case(Scene::set(Site::Memory).await.unwrap()).await;
            }

            #[tokio::test]
            async fn file() {
                $case(Scene::set(Site::File).await.unwrap()).await;
            }

            #[tokio::test]
            async fn redis() {
                $case(Scene::set(Site::Server(Flavor::Redis)).await.unwrap()).await;
            }
        })*
    };
}

cancelled! {
    acquiring::an_uncontended_acquisition
    acquiring::an_acquisition_held_up_elsewhere
    acquiring::an_acquisition_held_up_here
    acquiring::an_acquisition_released_in_that_moment
    acquiring::a_re_entry
    acquiring::a_crowd_that_leaves
    holding::an_unlock
    holding::an_extension
    holding::work_under_a_lock
    holding::a_question
}
