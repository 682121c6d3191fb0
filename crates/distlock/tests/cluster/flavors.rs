//! A little of each kind on clusters of the other servers. All at once, so that each cluster is started once.

use distlock_testkit::Flavor;
use distlock_testkit::suites::{
    Ground, Site, fair, fenced, latch, leased_semaphore, mutex, rw, semaphore, simple, spin, stand,
};
use tokio::task::{JoinSet, LocalSet};

async fn keeps_a_core(flavor: Flavor) {
    let site = Site::Cluster(flavor, "auto");
    let Some(_cluster) = Ground::at(site) else { return };
    let mut all = JoinSet::new();
    macro_rules! promises {
        ($($kind:ident::$suite:ident::$promise:ident)*) => {
            $(all.spawn_local(stand(site, $kind::$suite::$promise));)*
        };
    }
    promises! {
        mutex::exclusion::a_waiter_elsewhere_gets_in_when_the_holder_lets_go
        mutex::crowds::sixteen_processes_in_a_loop_never_meet
        fair::basics::the_watchdog_keeps_a_lock_without_a_lease
        fair::order::waiters_get_in_in_the_order_in_which_they_came
        fair::crowds::fifteen_tasks_of_one_process_never_meet
        rw::waiting::twenty_readers_enter_together_when_the_writer_leaves
        rw::crowds::tasks_of_one_process_never_write_beside_anybody
        fenced::tokens::tokens_are_in_the_order_of_the_holds
        fenced::gates::a_gate_is_exact_under_a_crowd
        simple::crowds::sixteen_processes_in_a_loop_never_meet
        spin::crowds::sixteen_processes_in_a_loop_never_meet
        semaphore::waiting::no_wake_up_is_lost
        semaphore::holding::force_gives_everything_back
        leased_semaphore::waiting::no_wake_up_is_lost
        leased_semaphore::ids::permits_are_released_by_their_ids_once
        latch::waiting::everybody_goes_on_when_it_opens
        latch::waiting::a_reset_keeps_everybody_waiting
    }
    while let Some(kept) = all.join_next().await {
        kept.expect("a promise is kept");
    }
}

#[tokio::test]
async fn valkey() {
    LocalSet::new().run_until(keeps_a_core(Flavor::Valkey)).await;
}

#[tokio::test]
async fn redis62() {
    LocalSet::new().run_until(keeps_a_core(Flavor::Redis62)).await;
}
