//! How distlock and Java's Redisson get along under load: how soon one comes in after the other, and what happens when both
//! fight for one lock. One test at a time, so that they measure what they mean to.
//!
//! `DISTLOCK_LONG` makes the fights last for ten seconds each. `-- --nocapture` shows the figures.

mod stress;
mod wake_up;
mod wake_up_shared;

use std::future::Future;

use distlock_testkit::Pair;
use distlock_testkit::peer::Version;
use tokio::sync::Mutex;

/// Has each version of Redisson keep these promises.
macro_rules! with_redisson {
    ($($suites:tt)*) => {
        mod redisson_3_27 {
            use distlock_testkit::peer::Version::Older3 as VERSION;
            suites! { $($suites)* }
        }
        mod redisson_3_52 {
            use distlock_testkit::peer::Version::Last3 as VERSION;
            suites! { $($suites)* }
        }
        mod redisson_4 {
            use distlock_testkit::peer::Version::Newest as VERSION;
            suites! { $($suites)* }
        }
    };
}

macro_rules! suites {
    ($($suite:ident: $($promise:ident)*;)*) => {
        $(mod $suite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                crate::alone(super::VERSION, crate::$suite::$promise).await;
            })*
        })*
    };
}

with_redisson! {
    stress:
        nobody_meets_in_any_kind
        no_more_meet_than_may
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

/// Runs a test while no other one runs.
async fn alone<F: Future<Output = ()>>(version: Version, test: impl FnOnce(Pair) -> F) {
    static ALONE: Mutex<()> = Mutex::const_new(());
    // Before its turn: a JVM that the next test wants too is not stopped in between.
    let Some(pair) = Pair::of(version).await else { return };
    let _alone = ALONE.lock().await;
    test(pair.clone()).await;
    pair.assert_clean().await;
}
