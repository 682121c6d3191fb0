//! distlock and Java's Redisson on the same names of one server: every shared kind, in both directions, with three versions of
//! Redisson.
//!
//! Tests are called `VERSION::kind::promise`; a promise is an async function in the file of its kind, and gets a [`Pair`] with names,
//! Java threads and `Locks` of its own. It must leave nothing behind. One JVM per version serves all of them.

#[macro_use]
mod exclusive;
mod fair;
mod fenced;
mod multi;
mod mutex;
mod spin;

use std::time::Duration;

use distlock_testkit::Pair;
use distlock_testkit::suites::eventually;

/// Has each version of Redisson keep these promises.
macro_rules! with_redisson {
    ($($kinds:tt)*) => {
        mod redisson_3_27 {
            use distlock_testkit::peer::Version::Older3 as VERSION;
            kinds! { $($kinds)* }
        }
        mod redisson_3_52 {
            use distlock_testkit::peer::Version::Last3 as VERSION;
            kinds! { $($kinds)* }
        }
        mod redisson_4 {
            use distlock_testkit::peer::Version::Newest as VERSION;
            kinds! { $($kinds)* }
        }
    };
}

macro_rules! kinds {
    ($($kind:ident: $($promise:ident)*;)*) => {
        $(mod $kind {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                distlock_testkit::peer::pair(super::VERSION, crate::$kind::$promise).await;
            })*
        })*
    };
}

with_redisson! {
    mutex:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        javas_holds_are_counted
        rusts_holds_are_counted
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        rust_forces_java_out
        java_forces_rust_out
        a_jvm_that_is_killed_is_followed_by_rust
        a_process_that_is_killed_is_followed_by_java
        names_with_braces_mean_the_same
        everybody_in_line_gets_in
    ;
    fair:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        javas_holds_are_counted
        rusts_holds_are_counted
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        rust_forces_java_out
        java_forces_rust_out
        a_mixed_queue_keeps_its_order
        a_wait_of_javas_that_runs_out_leaves_the_others_in_line
        a_request_of_ours_that_is_dropped_leaves_the_others_in_line
        a_dead_waiter_of_javas_costs_seconds
        a_dead_waiter_of_ours_costs_seconds
        an_interrupted_thread_costs_seconds
        a_place_lasts_for_longer_than_a_lease
    ;
    fenced:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        javas_holds_are_counted
        rusts_holds_are_counted
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        rust_forces_java_out
        java_forces_rust_out
        tokens_grow_across_both
        a_waiters_token_is_the_larger_one
        it_is_one_lock_with_the_plain_one
    ;
    spin:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        javas_holds_are_counted
        rusts_holds_are_counted
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        rust_forces_java_out
        java_forces_rust_out
        a_mutex_finds_out_that_it_is_free
        a_plain_lock_of_javas_is_called
    ;
    multi:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        java_forces_one_member_out
        a_jvm_that_is_killed_is_followed_by_rust
    ;
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Longer than any test: whoever gets in while it lasts was called.
const HOUR: Duration = secs(3600);

/// How it can be seen on the server that somebody waits.
#[derive(Clone, Copy)]
enum Line {
    /// By the processes that listen.
    Channel,
    /// By the owners in the queue.
    Queue,
    /// Not at all: they poll.
    Unseen,
}

impl Line {
    /// Waits until `n` wait, each in a process of its own.
    async fn forms(self, pair: &Pair, name: &str, n: usize) {
        match self {
            Line::Channel => pair.waiting(name, n as u64).await,
            Line::Queue => pair.queued(name, n).await,
            Line::Unseen => {}
        }
    }
}

/// Waits until a lock is free.
async fn gone(pair: &Pair, name: &str) {
    eventually("the lock is free", || async { !pair.server().exists(name).await }).await;
}
