//! The promises of the `simple` lock: those of every lock of one owner, and that it gets along with other clients.

pub mod basics;
pub mod crowds;
pub mod redis_py;
pub mod server;

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { simple;
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
    Server server:
        a_server_that_is_gone_is_an_outage
        an_uncontended_lock_costs_two_commands
        it_works_where_pub_sub_is_forbidden
        what_is_no_such_lock_is_a_conflict;
    Server redis_py:
        each_keeps_the_other_out
        each_gets_in_after_the_other
        neither_touches_what_the_other_holds
        whoever_renews_keeps_it
        whoever_is_too_slow_loses_it
        both_count_to_the_same_number
        a_lock_for_ever_is_a_conflict;
};
