//! The promises of the `semaphore`: Redisson's own scenarios, and what this library adds.

pub mod cancel;
pub mod counting;
pub mod crowds;
pub mod faults;
pub mod holding;
pub mod waiting;

use distlock::Semaphore;

use super::permits::done;
use super::times::{HOUR, ms, secs};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { semaphore;
    Store counting:
        the_number_is_set_once
        permits_are_added_and_taken_away
        draining_takes_all_that_are_left
        a_release_makes_what_was_not_there
        a_release_if_exists_makes_nothing
        the_first_to_acquire_can_say_how_many_there_are
        a_wait_timeout_says_why
        zero_permits_and_leases_are_refused
        what_was_deleted_takes_its_permits_along
        a_name_in_other_use_is_a_conflict;
    Store holding:
        permits_come_back_when_their_guard_goes
        dropping_and_trying_again_succeeds
        permits_stay_for_as_long_as_their_guard
        nobody_re_enters_a_semaphore
        a_double_release_makes_no_permits
        what_nobody_will_give_back_can_be_given_back
        force_gives_everything_back
        closing_gives_permits_back;
    Store waiting:
        a_waiter_for_two_wakes_when_permits_are_added
        a_waiter_gets_in_when_a_permit_comes_back
        a_waiter_for_four_gets_in_when_four_are_back
        a_timed_wait_gets_them_or_gives_up_in_time
        permits_that_come_back_together_wake_as_many
        two_who_wait_for_two_both_get_in
        a_large_request_is_not_overtaken_here
        a_single_attempt_takes_what_is_there
        who_waits_behind_a_large_request_gets_in_when_it_leaves
        a_waiter_gets_in_once_the_number_is_set
        no_wake_up_is_lost;
    Store crowds:
        as_many_tasks_as_permits_are_inside
        sixteen_processes_in_a_loop_never_are_too_many
        as_many_permits_as_java_can_count
        one_permit_is_a_mutex
        hundreds_of_semaphores_starve_nobody;
    Store cancel:
        an_acquisition_cut_at_any_poll_takes_nothing
        a_wait_cut_at_any_poll_takes_nothing
        a_wait_cut_while_it_is_served_takes_nothing;
    Server faults:
        a_lost_message_hangs_nobody
        a_lost_subscription_wakes_everybody
        a_lost_reply_counts_once
        a_caller_who_leaves_after_a_lost_reply_has_nothing
        a_change_whose_answer_is_lost_is_not_done_twice
        the_permits_of_a_killed_process_can_be_given_back
        an_uncontended_permit_costs_two_commands
        a_server_that_is_gone_is_an_outage;
};

/// How many permits are left.
async fn left(semaphore: &Semaphore) -> i64 {
    semaphore.available().await.expect("the store answers")
}
