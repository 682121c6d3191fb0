//! One owner at a time, in the order in which they asked.

pub mod basics;
pub mod crowds;
pub mod deaths;
pub mod drift;
pub mod faults;
mod line;
pub mod order;
pub mod places;
pub mod server;
mod wire;

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { fair;
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
    Store order:
        waiters_get_in_in_the_order_in_which_they_came
        five_hundred_waiters_keep_their_order
        whoever_waits_gets_in_as_each_lease_ends
        a_single_try_overtakes_nobody
        re_entry_does_not_wait_in_line
        force_lets_the_first_in_line_in
        a_mutex_of_the_same_name_excludes;
    Store places:
        a_waiter_keeps_its_place_for_longer_than_its_patience
        a_wait_that_ran_out_delays_nobody
        whoever_leaves_leaves_no_place_behind
        a_call_that_nobody_used_is_passed_on
        a_request_dropped_at_any_poll_leaves_no_place
        closing_ends_every_wait;
    Server server:
        a_server_that_is_gone_is_an_outage
        an_uncontended_lock_costs_two_commands
        the_queue_has_the_full_name
        an_idle_queue_leaves_no_key
        sixty_four_waiters_cost_four_commands_a_hand_over
        nobody_polls_while_the_first_in_line_is_silent;
    Server drift:
        waits_that_run_out_push_nobodys_time
        acquisitions_push_nobodys_time
        deaths_push_nobodys_time
        whoever_leaves_or_enters_brings_the_others_closer
        the_dead_bring_the_others_closer;
    Server deaths:
        five_killed_processes_cost_the_next_a_second
        whoever_is_killed_when_its_turn_comes_costs_two_or_three
        a_holder_that_dies_with_the_first_in_line_costs_its_lease_and_seconds
        what_the_dead_left_is_cleared_away
        a_waiter_that_is_cut_off_costs_seconds;
    Server faults:
        a_lost_reply_leaves_no_place_behind
        a_request_dropped_after_a_lost_reply_leaves_no_place
        a_lost_reply_costs_nobody_its_turn
        a_pause_of_the_server_leaves_nobody_in_the_queue
        a_lost_call_is_made_up_for
        a_server_that_forgets_its_queue_leaves_nobody_out;
};
