//! How distlock and Java's Redisson get along under load: how soon one comes in after the other, and what happens when both
//! fight for one lock. One test at a time, so that they measure what they mean to.
//!
//! `DISTLOCK_LONG` makes the fights last for ten seconds each. `-- --nocapture` shows the figures.

mod stress;
mod wake_up;
mod wake_up_shared;

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock_testkit::Pair;
use distlock_testkit::peer::{Site, Version};
use tokio::sync::Mutex;

/// Has one version of Redisson keep these promises at one site.
macro_rules! beside {
    ($module:ident, $version:ident, $site:expr; $($suites:tt)*) => {
        mod $module {
            use distlock_testkit::peer::{Site, Version};

            const VERSION: Version = Version::$version;
            const SITE: Site = $site;
            suites! { $($suites)* }
        }
    };
}

/// Each version, on one server.
macro_rules! with_redisson {
    ($($suites:tt)*) => {
        beside! { redisson_3_27, Older3, Site::One; $($suites)* }
        beside! { redisson_3_52, Last3, Site::One; $($suites)* }
        beside! { redisson_4, Newest, Site::One; $($suites)* }
    };
}

/// The later ones, on a cluster with sharded channels.
macro_rules! with_redisson_on_a_cluster {
    ($($suites:tt)*) => {
        #[cfg(feature = "cluster")]
        beside! {
            redisson_3_52_cluster, Last3, Site::Cluster(distlock_testkit::Flavor::Redis);
            $($suites)*
        }
        #[cfg(feature = "cluster")]
        beside! {
            redisson_4_cluster, Newest, Site::Cluster(distlock_testkit::Flavor::Redis);
            $($suites)*
        }
    };
}

macro_rules! suites {
    ($($suite:ident: $($promise:ident)*;)*) => {
        $(mod $suite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                crate::load::alone(super::VERSION, super::SITE, crate::load::$suite::$promise).await;
            })*
        })*
    };
}

with_redisson! {
    stress:
        mutex
        fair
        fenced
        spin
        multi
        rw
        semaphore
        leased_semaphore
    ;
    wake_up:
        mutex
        fair
        fenced
    ;
    wake_up_shared:
        rw
        semaphore
        leased_semaphore
        latch
    ;
}

with_redisson_on_a_cluster! {
    stress:
        mutex
        fair
        multi
        rw
        semaphore
    ;
    wake_up:
        mutex
        fair
        fenced
    ;
    wake_up_shared:
        rw
        semaphore
        latch
    ;
}

/// Runs a test while no other one runs.
async fn alone<F: Future<Output = ()>>(version: Version, site: Site, test: impl FnOnce(Pair) -> F) {
    // With what the test before used, while others wait for their turn: a JVM that the next one wants too is not stopped.
    static ALONE: Mutex<Option<Pair>> = Mutex::const_new(None);
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    WAITING.fetch_add(1, Ordering::SeqCst);
    let mut before = ALONE.lock().await;
    WAITING.fetch_sub(1, Ordering::SeqCst);
    // In its turn: a JVM that starts is no company for a test that measures. With a watchdog that no load can starve.
    let pair = Pair::with_watchdog(version, site, Duration::from_secs(30)).await;
    drop(before.take());
    let Some(pair) = pair else { return };
    test(pair.clone()).await;
    pair.assert_clean().await;
    *before = (WAITING.load(Ordering::SeqCst) > 0).then_some(pair);
}
