//! The promises of the `latch`: Redisson's own scenarios, and what this library adds.

pub mod counting;
pub mod crowds;
pub mod faults;
pub mod waiting;

use distlock::Latch;

use super::times::{NO_LOOKING, ms, secs};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { latch;
    Store counting:
        the_count_is_set_once
        the_count_stays_at_zero
        deleting_says_whether_there_was_one
        a_latch_can_be_reset
        a_count_down_cut_at_any_poll_counts_once
        a_name_in_other_use_is_a_conflict;
    Store waiting:
        a_timed_wait_says_whether_it_opened
        a_wait_timeout_says_the_count
        everybody_goes_on_when_it_opens
        everybody_goes_on_when_it_goes_away
        a_reset_keeps_everybody_waiting
        a_wait_cut_at_any_poll_leaves_nothing
        closing_ends_the_waits_here;
    Store crowds:
        as_many_count_down_as_wait
        count_downs_are_answered_one_by_one
        threads_can_count_and_wait;
    Server faults:
        a_lost_message_hangs_nobody
        a_lost_subscription_wakes_everybody
        a_lost_reply_counts_once
        a_late_request_counts_once
        a_count_whose_answer_is_lost_is_not_set_twice
        a_server_that_is_gone_is_an_outage;
};

async fn count(latch: &Latch) -> i64 {
    latch.count().await.expect("the store answers")
}

async fn count_down(latch: &Latch) -> i64 {
    latch.count_down().await.expect("the store answers")
}
