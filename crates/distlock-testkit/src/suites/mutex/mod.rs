//! The promises of the `mutex`: Redisson's own scenarios for its plain lock, and what this library adds.

pub mod closing;
pub mod crowds;
pub mod exclusion;
pub mod handover;
pub mod leases;
pub mod loss;
pub mod ownership;
pub mod queries;
pub mod reentry;
pub mod server;
pub mod threads;

use super::times::{HOUR, ms, secs};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { mutex;
    Store exclusion:
        a_lock_can_be_taken_and_released_twice
        a_held_lock_refuses_everybody_else
        locks_with_other_names_do_not_mind_each_other
        a_wait_of_zero_is_one_attempt
        a_wait_that_runs_out_gives_nothing
        a_wait_timeout_names_the_holder
        a_waiter_elsewhere_gets_in_when_the_holder_lets_go
        a_waiter_here_gets_in_when_the_holder_lets_go
        dropping_and_trying_again_succeeds
        branches_of_a_join_exclude_each_other
        a_panic_releases_the_lock;
    Store handover:
        waiters_of_one_process_are_served_in_order
        the_store_soon_shows_the_heir
        an_heir_has_its_own_lease
        an_heir_without_a_lease_is_renewed
        an_owner_that_waits_twice_gets_in_twice
        a_waiter_that_leaves_passes_the_lock_on;
    Store crowds:
        fifteen_tasks_of_one_process_never_meet
        a_hundred_processes_never_meet
        sixteen_processes_in_a_loop_never_meet
        every_way_in_and_out_excludes
        whoever_holds_is_renewed_under_any_race
        a_crowd_here_lets_others_elsewhere_in;
    Store reentry:
        the_same_owner_enters_again
        holds_are_counted
        guards_of_one_owner_go_in_any_order
        a_reentry_never_shortens_the_outer_hold
        a_longer_inner_lease_outlives_the_outer_guard
        the_watchdog_stays_for_the_guards_that_want_it
        an_inner_unlock_leaves_the_time_to_live
        a_scope_re_enters_through_nested_functions
        an_owner_that_lost_it_begins_anew;
    Store ownership:
        a_stranger_cannot_unlock
        an_owner_with_a_guard_is_told_to_use_it
        the_holder_is_told_from_others
        owners_are_new_unless_named;
    Store leases:
        a_waiter_gets_in_when_the_lease_ends
        a_holder_learns_of_the_end_before_anybody_gets_in
        a_holder_believes_in_less_than_its_lease
        what_nobody_renews_is_free_after_the_watchdogs_timeout
        the_watchdog_keeps_a_lock_without_a_lease
        nothing_is_renewed_after_a_release
        a_lease_switches_the_watchdog_off
        the_time_to_live_is_told
        extending_lengthens_and_never_shortens
        extending_after_the_end_says_lost
        a_leaked_lock_stays_until_somebody_frees_it;
    Store loss:
        the_news_of_a_loss_can_be_awaited_in_another_task
        a_release_is_no_loss
        work_stops_when_the_lock_is_lost
        work_under_a_held_lock_gives_its_value
        force_frees_the_lock_and_tells_a_holder_here
        force_is_noticed_elsewhere_with_the_next_renewal
        an_unlock_after_force_elsewhere_says_lost
        force_wakes_those_who_wait;
    Store queries:
        everybody_sees_that_it_is_locked
        questions_leave_no_trace
        a_list_has_what_is_held
        a_prefix_is_part_of_the_name
        observers_see_what_happens;
    Store closing:
        closing_ends_waits_and_releases_holds
        closing_waits_for_releases_under_way
        a_guard_outlives_its_locks;
    Threads threads:
        a_program_without_a_runtime_can_lock
        a_guard_dropped_by_a_plain_thread_releases
        a_thread_is_an_owner
        threads_never_meet;
    Server server:
        five_thousand_waiters_share_one_subscription_connection
        a_server_that_is_gone_is_an_outage
        a_wait_ends_in_time_on_a_frozen_server
        a_killed_process_loses_its_lock_within_the_watchdogs_timeout
        an_uncontended_lock_costs_two_commands
        the_last_handle_takes_its_connections_along;
};
