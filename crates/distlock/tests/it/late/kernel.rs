//! The kernel's own late packets: it sends what was lost again, after the library gave its connection up and went on.
//!
//! Each test cuts the way to the server for several lengths of time. What the kernel sends again may arrive before the library has
//! gone on; then a cut shows nothing, and that is said. At least one of them must show something.

use std::time::{Duration, Instant};

use distlock::{Locks, Owner};
use distlock_testkit::namespace::Cable;
use distlock_testkit::suites::eventually;

use crate::late::stage::{LEASE, SOON};

/// How long packets are lost. The kernel tries again 0.2, 0.6, 1.4, 3.0 and 6.2 s after a packet was lost.
const CUTS: [Duration; 4] = [
    Duration::from_millis(2200),
    Duration::from_millis(3300),
    Duration::from_millis(3900),
    Duration::from_millis(4500),
];

/// A process in one namespace, its server in another, and a process beside the server.
struct Scene {
    cable: Cable,
    here: Locks,
    other: Locks,
    me: Owner,
}

impl Scene {
    /// `None`, and a line that says why, where namespaces cannot be made.
    async fn set() -> Option<Scene> {
        let cable = match Cable::lay().await {
            Ok(cable) => cable,
            Err(why) => {
                eprintln!("SKIPPED: late packets of the kernel: {why}");
                return None;
            }
        };
        let here = Locks::builder().url(cable.url()).connector(cable.connector());
        let here = here.connect().await.expect("a connection");
        let other = Locks::connect(&cable.server().unix_url()).await.expect("a connection");
        // The server must know the scripts: a late EVALSHA of one that it does not know does nothing.
        let warm = other.mutex("warm").lock().lease(LEASE).await.unwrap();
        warm.extend(2 * LEASE).await.unwrap();
        warm.unlock().await.unwrap();
        let slots = other.semaphore("warm-slots").with_permits(1);
        slots.acquire(1).await.unwrap().release().await.unwrap();
        Some(Scene { me: here.owner(), cable, here, other })
    }

    /// Loses what is sent until `cut` is over, and at least until the library has given the connection up.
    async fn lose_for(&self, cut: Duration, given_up: impl AsyncFnOnce()) {
        let since = Instant::now();
        eventually("the connection is given up", || async { self.cable.given_up() > 0 }).await;
        given_up().await;
        tokio::time::sleep(cut.saturating_sub(since.elapsed())).await;
        self.cable.lose_requests(false);
    }

    /// Waits until the kernel has delivered what it had, or was told that nobody wants it. False if it had before.
    async fn late_packet_arrives(&self, cut: Duration) -> bool {
        if self.cable.given_up() == 0 {
            println!("a cut of {cut:?} shows nothing: the packet was there before");
            return false;
        }
        let since = Instant::now();
        while self.cable.given_up() > 0 {
            assert!(since.elapsed() < 4 * SOON, "the kernel does not send it again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("a cut of {cut:?}: the packet arrived late");
        true
    }

    async fn assert_held_alone(&self, cut: Duration) {
        let beside = self.other.mutex("k").try_lock().await.expect("an answer");
        assert!(beside.is_none(), "two holders after a cut of {cut:?}");
    }
}

/// One of the cuts must have shown something.
fn assert_shown(shown: &[bool]) {
    assert!(shown.iter().any(|shown| *shown), "no packet arrived late: nothing was tested");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long tier: cargo xtask soak"]
async fn a_release_that_the_kernel_sends_again_does_not_free_the_next_hold_of_its_owner() {
    let Some(scene) = Scene::set().await else { return };
    let (mutex, me) = (scene.here.mutex("k"), scene.me);
    let mut shown = Vec::new();
    for cut in CUTS {
        let first = mutex.lock().owner(&me).lease(LEASE).wait(SOON).await.unwrap();
        scene.cable.lose_requests(true);
        let unlocking = tokio::spawn(first.unlock());
        scene.lose_for(cut, async || {}).await;
        // It may have been told that nobody knows; then it is sent again all the same.
        let _ = unlocking.await.expect("no panic");
        let server = scene.cable.server();
        eventually("it is released", || async { !server.exists("k").await }).await;
        let next = mutex.lock().owner(&me).lease(LEASE).wait(SOON).await.unwrap();
        shown.push(scene.late_packet_arrives(cut).await);
        scene.assert_held_alone(cut).await;
        next.unlock().await.unwrap();
    }
    assert_shown(&shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long tier: cargo xtask soak"]
async fn an_extension_that_the_kernel_sends_again_does_not_shorten_a_later_one() {
    let Some(scene) = Scene::set().await else { return };
    let mut shown = Vec::new();
    for cut in CUTS {
        let guard = scene.here.mutex("k").lock().lease(LEASE / 8).wait(SOON).await.unwrap();
        scene.cable.lose_requests(true);
        tokio::join!(
            async {
                // It may have been told that nobody knows.
                let _ = guard.extend(LEASE / 6).await;
            },
            scene.lose_for(cut, async || {}),
        );
        guard.extend(LEASE).await.unwrap();
        shown.push(scene.late_packet_arrives(cut).await);
        let left = scene.cable.server().pttl("k").await;
        assert!(left > LEASE.as_millis() as i64 / 2, "{left} ms left after a cut of {cut:?}");
        scene.assert_held_alone(cut).await;
        guard.unlock().await.unwrap();
    }
    assert_shown(&shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long tier: cargo xtask soak"]
async fn a_permit_whose_acquire_the_kernel_sends_again_comes_back() {
    let Some(scene) = Scene::set().await else { return };
    let theirs = scene.other.semaphore("slots");
    theirs.init(1).await.unwrap();
    let mut shown = Vec::new();
    for cut in CUTS {
        // There is a connection to lose it on.
        assert_eq!(scene.here.semaphore("slots").available().await.unwrap(), 1);
        let server = scene.cable.server();
        let before = server.calls("evalsha").await;
        scene.cable.lose_requests(true);
        let caller = tokio::spawn(scene.here.semaphore("slots").acquire(1).into_future());
        scene
            .lose_for(cut, async || {
                caller.abort();
            })
            .await;
        let forgotten = || async { server.calls("evalsha").await > before };
        eventually("the server is told to forget it", forgotten).await;
        shown.push(scene.late_packet_arrives(cut).await);
        let free = || async { theirs.available().await.is_ok_and(|free| free == 1) };
        eventually("the permit is there", free).await;
    }
    assert_shown(&shown);
}
