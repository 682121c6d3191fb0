//! Who waits gets in.

use crate::suites::Ground;

crate::suites::permits::kept_by! {
    Semaphore, waiting on Ground:
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
    no_wake_up_is_lost
}
