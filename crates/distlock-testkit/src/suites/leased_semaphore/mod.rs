//! The promises of the `leased_semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod ids;
pub mod leases;
pub mod waiting;

use distlock::{LeasedSemaphore, PermitId};

use super::permits::{counts, done};
use super::times::{HOUR, ms, secs};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { leased_semaphore;
    Store counting:
        the_number_is_set_once
        the_number_can_be_set_at_any_time
        permits_are_added_and_taken_away
        what_has_expired_is_counted_as_left
        questions_leave_no_trace
        the_first_to_acquire_can_say_how_many_there_are
        zero_permits_and_too_many_are_refused
        a_name_in_other_use_is_a_conflict;
    Store ids:
        every_permit_has_an_id_of_its_own
        permits_are_released_by_their_ids_once
        a_guard_gives_back_what_is_left_of_it
        an_unknown_permit_cannot_be_released
        an_expired_permit_cannot_be_released
        a_list_is_released_as_a_whole_or_not_at_all
        a_permit_can_be_given_another_lease;
    Store leases:
        a_waiter_gets_in_when_a_lease_ends
        a_holder_learns_of_the_end_before_anybody_gets_in
        the_watchdog_keeps_permits_without_a_lease
        leaked_permits_come_back_after_the_watchdogs_timeout
        a_guard_can_be_extended
        a_guard_whose_permits_are_taken_away_is_told
        what_was_deleted_takes_its_permits_along;
    Store waiting:
        a_waiter_for_two_wakes_when_permits_are_added
        a_waiter_gets_in_when_a_permit_comes_back
        a_waiter_gets_in_when_a_permit_is_released_by_its_id
        a_waiter_gets_in_when_there_are_more
        a_waiter_for_four_gets_in_when_four_are_back
        a_timed_wait_gets_them_or_gives_up_in_time
        permits_that_come_back_together_wake_as_many
        two_who_wait_for_two_both_get_in
        a_large_request_is_not_overtaken_here
        a_single_attempt_takes_what_is_there
        who_waits_behind_a_large_request_gets_in_when_it_leaves
        a_waiter_gets_in_once_the_number_is_set
        leases_that_end_let_in_one_after_the_other
        no_wake_up_is_lost;
    Store crowds:
        as_many_tasks_as_permits_are_inside
        sixteen_processes_in_a_loop_never_are_too_many
        one_permit_is_a_mutex
        hundreds_of_semaphores_starve_nobody
        expired_permits_come_back_exactly_once;
    Store cancel:
        an_acquisition_cut_at_any_poll_takes_nothing
        a_wait_cut_at_any_poll_takes_nothing
        a_wait_cut_while_it_is_served_takes_nothing;
    Server faults:
        a_lost_message_hangs_nobody
        a_lost_subscription_wakes_everybody
        the_permits_of_a_killed_process_come_back
        a_lost_reply_counts_once
        an_extension_whose_answer_is_lost_counts
        a_caller_who_leaves_after_a_lost_reply_has_nothing
        a_list_whose_answer_is_lost_is_released_once
        an_uncontended_permit_costs_two_commands
        a_prefix_is_part_of_every_key
        a_server_that_is_gone_is_an_outage
        an_answer_that_is_late_gives_nothing_away;
};

/// Whether this permit is out.
async fn is_out(semaphore: &LeasedSemaphore, id: PermitId) -> bool {
    semaphore.remaining(id).await.expect("the store answers").is_some()
}
