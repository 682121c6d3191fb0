//! distlock and Java's Redisson on the same names of one server, or one cluster: every shared kind, in both directions, with three
//! versions of Redisson.
//!
//! Tests are called `VERSION::kind::promise`; a promise is an async function in the file of its kind, and gets a [`Pair`] with names,
//! Java threads and `Locks` of its own. It must leave nothing behind. One JVM per version serves all of them.

#[macro_use]
mod exclusive;
mod fair;
mod fenced;
mod golden;
mod holder;
mod latch;
mod leased_semaphore;
mod multi;
mod mutex;
mod rw;
mod rw_lives;
mod semaphore;
mod spin;

use std::time::{Duration, Instant};

use distlock::Locks;
use distlock_testkit::Pair;
use distlock_testkit::peer::Thread;
use distlock_testkit::suites::eventually;

/// Has one version of Redisson keep these promises at one site.
macro_rules! beside {
    ($module:ident, $version:ident, $site:expr; $($kinds:tt)*) => {
        mod $module {
            use distlock_testkit::peer::{Site, Version};

            const VERSION: Version = Version::$version;
            const SITE: Site = $site;
            kinds! { $($kinds)* }
        }
    };
}

/// Each version, on one server.
macro_rules! with_redisson {
    ($($kinds:tt)*) => {
        beside! { redisson_3_27, Older3, Site::One; $($kinds)* }
        beside! { redisson_3_52, Last3, Site::One; $($kinds)* }
        beside! { redisson_4, Newest, Site::One; $($kinds)* }
    };
}

/// The later ones on a cluster with sharded channels, and the newest on one that has none.
macro_rules! with_redisson_on_a_cluster {
    ($($kinds:tt)*) => {
        #[cfg(feature = "cluster")]
        beside! {
            redisson_3_52_cluster, Last3, Site::Cluster(distlock_testkit::Flavor::Redis); $($kinds)*
        }
        #[cfg(feature = "cluster")]
        beside! {
            redisson_4_cluster, Newest, Site::Cluster(distlock_testkit::Flavor::Redis); $($kinds)*
        }
        #[cfg(feature = "cluster")]
        beside! {
            redisson_4_cluster_classic, Newest, Site::Cluster(distlock_testkit::Flavor::Redis62);
            $($kinds)*
        }
    };
}

macro_rules! kinds {
    ($($kind:ident: $($promise:ident)*;)*) => {
        $(mod $kind {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let promise = crate::pairs::$kind::$promise;
                distlock_testkit::peer::pair(super::VERSION, super::SITE, promise).await;
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
    rw:
        readers_of_both_sides_keep_writers_out
        a_java_writer_keeps_rust_out
        a_rust_writer_keeps_java_out
        a_writer_that_leaves_calls_the_readers
        the_last_reader_that_leaves_calls_the_writer
        javas_readers_pass_a_rust_writer_that_waits
        javas_holds_are_counted
        rusts_holds_are_counted
        a_writer_may_read_and_stays_alone
        a_rust_downgrade_calls_javas_readers
        a_java_downgrade_is_found_out
    ;
    rw_lives:
        whoever_renews_keeps_the_other_out
        both_watchdogs_keep_one_lock
        a_lease_that_ends_lets_the_other_in
        a_readers_short_lease_ends_nobody_elses
        a_jvm_that_is_killed_is_followed_by_rust
        a_process_that_is_killed_is_followed_by_java
        a_reader_outlives_a_jvm_that_is_killed
        rust_forces_java_out
        java_forces_rust_out
    ;
    semaphore:
        both_sides_count_the_same_permits
        each_is_called_by_the_other
        as_many_get_in_as_there_are_permits
        what_the_dead_had_stays_out
    ;
    leased_semaphore:
        both_sides_count_the_same_permits
        ids_are_worth_the_same_on_both_sides
        each_is_called_by_the_other
        a_lease_that_ends_lets_the_other_in
        our_watchdog_keeps_a_permit
        what_the_dead_had_comes_back
    ;
    latch:
        both_sides_count_the_same
        the_last_count_calls_everybody
        timed_waits_end_in_time
        a_latch_that_is_removed_is_open
        a_count_that_is_set_anew_is_waited_for
    ;
    holder:
        each_keeps_the_other_out
        what_a_forced_lock_leaves_goes_by_itself
        permits_are_counted_as_before
    ;
    golden:
        every_step_leaves_the_same
    ;
}

with_redisson_on_a_cluster! {
    mutex:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        rusts_holds_are_counted
        whoever_renews_keeps_the_other_out
        a_lease_that_ends_lets_the_other_in
        rust_forces_java_out
        java_forces_rust_out
        a_jvm_that_is_killed_is_followed_by_rust
        everybody_in_line_gets_in
    ;
    fair:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        a_mixed_queue_keeps_its_order
        a_wait_of_javas_that_runs_out_leaves_the_others_in_line
        a_dead_waiter_of_ours_costs_seconds
    ;
    fenced:
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
        tokens_grow_across_both
    ;
    spin:
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
    ;
    multi:
        java_keeps_rust_out
        rust_keeps_java_out
        each_gets_in_when_the_other_leaves
    ;
    rw:
        readers_of_both_sides_keep_writers_out
        a_writer_that_leaves_calls_the_readers
        the_last_reader_that_leaves_calls_the_writer
        a_rust_downgrade_calls_javas_readers
    ;
    rw_lives:
        both_watchdogs_keep_one_lock
    ;
    semaphore:
        both_sides_count_the_same_permits
        each_is_called_by_the_other
    ;
    leased_semaphore:
        both_sides_count_the_same_permits
        each_is_called_by_the_other
    ;
    latch:
        both_sides_count_the_same
        the_last_count_calls_everybody
    ;
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// How long Java waits where it waits in vain. Redisson leaves its subscription behind if the wait ends while it subscribes, which
/// on a busy machine takes more than a moment.
const IN_VAIN: Duration = secs(2);

/// Longer than any test: a waiter that acquires while it lasts was notified.
const HOUR: Duration = secs(3600);

/// How long one who is called may take to come in, on a machine that stands still for seconds.
const SOON: Duration = secs(20);

/// How long a waiter may take to follow a holder that died: a lease of 9 s and, above it, the 30 s that every wait in vain has. Followers
/// were measured to come 9 s after the death, and 25 s with a machine that stood still for up to 14 s at a time.
const FOLLOWED: Duration = secs(9 + 30);

/// One more `Locks` whose waiters do not poll: a waiter that acquires was notified.
async fn hearing(pair: &Pair) -> Locks {
    pair.builder().watchdog(HOUR).connect().await.expect("the server answers")
}

/// How the server shows that a caller waits.
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

/// Until when locks are held for certain, whatever becomes of their holder.
///
/// A holder dies and its locks must stay held until its lease is over: what a test sees of that counts only if it saw it before this
/// moment. A test that was kept from running until after it has seen a lock that ended rightly.
#[derive(Clone, Copy)]
struct Lease(Instant);

impl Lease {
    /// By what the server says is left. A renewal only makes it longer.
    async fn of(pair: &Pair, names: &[&str]) -> Lease {
        let asked = Instant::now();
        let mut left = u64::MAX;
        for name in names {
            left = left.min(u64::try_from(pair.pttl(name).await).unwrap_or(0));
        }
        Lease(asked + ms(left))
    }

    /// Whether it may be over.
    fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Runs `round` until it saw what it had to see while the lease lasted; it gets a number for its names. Leases are of 9 s, so a machine
/// must stand still for seconds in every round to fail this.
async fn before_the_lease_is_over(round: impl AsyncFn(u32) -> bool) {
    for number in 0..5 {
        if round(number).await {
            return;
        }
        eprintln!("round {number}: the machine stood still for as long as a lease");
    }
    panic!("the machine stood still for as long as a lease in every round");
}

/// Waits until no client listens there. Both sides unsubscribe in the background: a client that left must not count as a waiter.
async fn calm(pair: &Pair, channel: &str) {
    pair.listening(channel, 0).await;
}

/// Waits until this thread sleeps: it has subscribed, asked once more, and will be woken by any message. Redisson's message that
/// a writer has left is lost on one that is about to sleep.
async fn asleep(thread: &Thread) {
    eventually("it sleeps", || async { thread.is_asleep().await }).await;
}

/// Waits until a lock is free.
async fn gone(pair: &Pair, name: &str) {
    eventually("the lock is free", || async { !pair.exists(name).await }).await;
}
