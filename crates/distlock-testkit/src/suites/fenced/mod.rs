//! The promises of the `fenced` lock: Redisson's own scenarios, the numbers, those who check them, and commands under a guard.

pub mod basics;
pub mod crowds;
pub mod gates;
pub mod guarded;
pub mod server;
pub mod tokens;

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { fenced;
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
    Store tokens:
        tokens_only_rise
        a_re_entry_has_a_higher_token
        an_outer_guard_is_not_stale_after_an_inner_one
        a_fenced_hold_inside_a_mutexs_has_a_token
        tokens_are_in_the_order_of_the_holds
        tokens_survive_the_loss_of_the_counter;
    Store gates:
        a_paused_holders_late_write_is_refused
        a_gate_in_the_store_is_one_for_all
        a_gate_is_exact_under_a_crowd;
    Server server:
        a_server_that_is_gone_is_an_outage
        an_uncontended_lock_costs_two_commands
        a_lost_answer_costs_a_number_and_nothing_else
        a_gate_is_asked_again_when_its_answer_is_lost;
    Server guarded:
        who_lost_the_lock_cannot_write
        readers_and_writers_can_while_they_hold
        an_heir_can_write_at_once
        counting_is_exact_although_locks_are_lost
        a_lost_answer_is_not_asked_for_again
        a_refused_command_does_not_cost_the_lock
        a_server_that_is_gone_is_an_outage;
};
