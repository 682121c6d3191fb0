//! A future may be dropped anywhere: no half of the lock is left held, and no reader is left behind a writer that is gone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::IntoFuture;
use std::ops::Deref;
use std::time::Duration;

use distlock::{ReadGuard, Rw, WriteGuard};
use distlock_testkit::cancel::{in_vain, sweep, sweep_time};
use distlock_testkit::suites::{Site, eventually};
use distlock_testkit::{Flavor, Stopwatch, cancel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two processes on one store, and both halves of a lock.
struct Scene(cancel::Scene);

impl Deref for Scene {
    type Target = cancel::Scene;

    fn deref(&self) -> &cancel::Scene {
        &self.0
    }
}

impl Scene {
    fn mine(&self) -> Rw {
        self.here.rw(&self.name)
    }

    fn theirs(&self) -> Rw {
        self.elsewhere.rw(&self.name)
    }

    /// New readers come in: nobody waits to write. Sooner than a writer that is gone would be forgotten.
    async fn assert_nobody_waits_to_write(&self) {
        let since = Stopwatch::start();
        let comes_in = || async { self.theirs().try_read().await.unwrap().is_some() };
        eventually("a new reader comes in", comes_in).await;
        assert!(since.elapsed() < ms(1800), "in after {:?}", since.elapsed());
    }

    /// Nobody holds it, so both halves must be had at once, by both processes, and nothing may be left.
    async fn assert_nothing_left(&self, what: &str) {
        let since = Stopwatch::start();
        for rw in [self.theirs(), self.mine()] {
            let next = rw.write().wait(Duration::from_secs(15)).lease(HOUR).await;
            let next = next.unwrap_or_else(|error| panic!("{what}: not free again: {error}"));
            next.unlock().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let next = rw.read().wait(Duration::from_secs(15)).lease(HOUR).await;
            let next = next.unwrap_or_else(|error| panic!("{what}: not free again: {error}"));
            next.unlock().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        assert!(since.elapsed() < ms(1800), "{what}: free after {:?}", since.elapsed());
        self.assert_clean(what).await;
    }

    /// For a sweep.
    fn nothing_left(&self) -> impl AsyncFnMut(&str) {
        async |what: &str| self.assert_nothing_left(what).await
    }
}

async fn an_uncontended_acquisition(scene: Scene) {
    let prepare = async || (scene.mine().read().into_future(), ());
    sweep("read", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("read", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mine().write().lease(HOUR).into_future(), ());
    sweep("write", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("write", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mine().try_read().into_future(), ());
    sweep_time("try_read", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || (scene.mine().try_write().into_future(), ());
    sweep_time("try_write", scene.nothing_left(), prepare, async |()| ()).await;
}

async fn a_writer_behind_readers(scene: Scene) {
    for inside in [scene.theirs(), scene.mine()] {
        let check = async |held: ReadGuard| {
            scene.assert_nobody_waits_to_write().await;
            held.unlock().await.unwrap();
        };
        let prepare = async || {
            let held = inside.read().lease(HOUR).await.unwrap();
            (in_vain(scene.mine().write().into_future()), held)
        };
        sweep("write", scene.nothing_left(), prepare, check).await;
        let prepare = async || {
            let held = inside.read().lease(HOUR).await.unwrap();
            (in_vain(scene.mine().try_write().wait(HOUR).into_future()), held)
        };
        sweep_time("write with a wait", scene.nothing_left(), prepare, check).await;
    }
}

async fn a_reader_behind_a_writer(scene: Scene) {
    for inside in [scene.theirs(), scene.mine()] {
        let check = async |held: WriteGuard| held.unlock().await.unwrap();
        let prepare = async || {
            let held = inside.write().lease(HOUR).await.unwrap();
            (in_vain(scene.mine().read().into_future()), held)
        };
        sweep("read", scene.nothing_left(), prepare, check).await;
        sweep_time("read", scene.nothing_left(), prepare, check).await;
    }
}

/// The one who waits leaves while the one inside does.
async fn an_acquisition_released_in_that_moment(scene: Scene) {
    for inside in [scene.theirs(), scene.mine()] {
        let check = async |release: JoinHandle<distlock::Result<()>>| {
            release.await.unwrap().unwrap();
            scene.assert_nobody_waits_to_write().await;
        };
        let prepare = async || {
            let held = inside.read().lease(HOUR).await.unwrap();
            let mut waiting = scene.mine().write().into_future();
            assert!(timeout(ms(20), &mut waiting).await.is_err());
            (waiting, tokio::spawn(held.unlock()))
        };
        sweep("write", scene.nothing_left(), prepare, check).await;
        sweep_time("write", scene.nothing_left(), prepare, check).await;
        let prepare = async || {
            let held = inside.write().lease(HOUR).await.unwrap();
            let mut waiting = scene.mine().read().into_future();
            assert!(timeout(ms(20), &mut waiting).await.is_err());
            (waiting, tokio::spawn(held.unlock()))
        };
        sweep("read", scene.nothing_left(), prepare, check).await;
        sweep_time("read", scene.nothing_left(), prepare, check).await;
    }
}

async fn a_re_entry(scene: Scene) {
    let prepare = async || {
        let me = scene.here.owner();
        let outer = scene.mine().read().owner(&me).lease(HOUR).await.unwrap();
        (scene.mine().read().owner(&me).lease(HOUR).into_future(), outer)
    };
    let check = async |outer: ReadGuard| {
        let me = *outer.owner();
        let one = || async { scene.mine().read_hold_count(&me).await.unwrap() == 1 };
        eventually("the re-entry is taken back", one).await;
        assert!(!outer.is_lost());
        assert!(scene.theirs().try_write().await.unwrap().is_none(), "the outer hold stays");
        outer.unlock().await.unwrap();
    };
    sweep("reading again", scene.nothing_left(), prepare, check).await;
    sweep_time("reading again", scene.nothing_left(), prepare, check).await;

    // A read inside a write.
    let prepare = async || {
        let outer = scene.mine().write().lease(HOUR).await.unwrap();
        (scene.mine().read().owner(outer.owner()).lease(HOUR).into_future(), outer)
    };
    let check = async |outer: WriteGuard| {
        let me = *outer.owner();
        let none = || async { scene.mine().read_hold_count(&me).await.unwrap() == 0 };
        eventually("the read is taken back", none).await;
        assert!(!outer.is_lost());
        assert!(scene.theirs().try_read().await.unwrap().is_none(), "the write stays");
        outer.unlock().await.unwrap();
    };
    sweep("reading inside a write", scene.nothing_left(), prepare, check).await;
    sweep_time("reading inside a write", scene.nothing_left(), prepare, check).await;
}

async fn an_unlock(scene: Scene) {
    let prepare = async || {
        let held = scene.mine().read().lease(HOUR).await.unwrap();
        (held.unlock(), ())
    };
    sweep("unlock of a read", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("unlock of a read", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || {
        let held = scene.mine().write().lease(HOUR).await.unwrap();
        (held.unlock(), ())
    };
    sweep("unlock of a write", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("unlock of a write", scene.nothing_left(), prepare, async |()| ()).await;
}

/// With a reader and a writer waiting for it.
async fn a_downgrade(scene: Scene) {
    let prepare = async || {
        let writing = scene.mine().write().await.unwrap();
        (writing.downgrade(), ())
    };
    sweep("downgrade", scene.nothing_left(), prepare, async |()| ()).await;
    sweep_time("downgrade", scene.nothing_left(), prepare, async |()| ()).await;
    let prepare = async || {
        let writing = scene.mine().write().lease(HOUR).await.unwrap();
        let mut reads = scene.theirs().read().into_future();
        let mut writes = scene.mine().write().into_future();
        assert!(timeout(ms(20), async { tokio::join!(&mut reads, &mut writes) }).await.is_err());
        let served = async {
            let read = async { reads.await.unwrap().unlock().await.unwrap() };
            let written = async { writes.await.unwrap().unlock().await.unwrap() };
            tokio::join!(read, written);
        };
        (writing.downgrade(), tokio::spawn(served))
    };
    let check = async |served: JoinHandle<()>| {
        timeout(Duration::from_secs(15), served).await.expect("both are served").unwrap();
    };
    sweep("downgrade with others waiting", scene.nothing_left(), prepare, check).await;
    sweep_time("downgrade with others waiting", scene.nothing_left(), prepare, check).await;
}

macro_rules! on_every_store {
    ($($what:ident)*) => {
        $(mod $what {
            use super::{Flavor, Scene, Site, cancel};

            async fn at(site: Site) {
                if let Some(scene) = cancel::Scene::set(site).await {
                    super::$what(Scene(scene)).await;
                }
            }

            #[tokio::test]
            async fn memory() {
                at(Site::Memory).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn file() {
                at(Site::File).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                at(Site::Server(Flavor::Redis)).await;
            }

            #[tokio::test]
            async fn valkey() {
                at(Site::Server(Flavor::Valkey)).await;
            }
        })*
    };
}

on_every_store! {
    an_uncontended_acquisition
    a_writer_behind_readers
    a_reader_behind_a_writer
    an_acquisition_released_in_that_moment
    a_re_entry
    an_unlock
    a_downgrade
}
