//! The promises of the `spin` lock: Redisson's own scenarios, and how often it asks.

pub mod basics;
pub mod crowds;
pub mod polling;
pub mod server;

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { spin;
    Store basics:
        a_lock_can_be_taken_and_released_twice
        the_same_owner_enters_again_and_others_do_not
        everybody_sees_that_it_is_locked
        the_holder_is_told_from_others
        holds_are_counted
        a_stranger_cannot_unlock
        force_frees_the_lock_and_tells_a_holder_here
        a_waiter_gets_in_when_the_lease_ends
        what_nobody_renews_is_free_after_the_watchdogs_timeout
        the_watchdog_keeps_a_lock_without_a_lease
        extending_lengthens_what_is_held
        a_wait_that_runs_out_gives_nothing
        a_waiter_gets_in_soon_after_the_release
        a_waiter_that_is_disturbed_keeps_waiting;
    Store crowds:
        fifteen_tasks_of_one_process_never_meet
        a_hundred_processes_never_meet
        sixteen_processes_in_a_loop_never_meet
        a_request_dropped_at_any_poll_leaves_nothing;
    Store polling:
        pauses_grow_up_to_the_longest
        a_constant_pause_stays_the_same
        the_default_doubles_up_to_an_eighth_of_a_second
        a_waiter_is_late_by_a_pause_at_most
        a_crowd_asks_as_often_as_one;
    Server server:
        a_server_that_is_gone_is_an_outage
        nobody_subscribes_and_one_of_a_crowd_asks
        a_mutexs_waiter_is_woken_by_a_spins_release
        a_user_without_pub_sub_can_lock_and_wait;
};
