//! A core of what semaphores and latches promise, on three primaries.

mod semaphore {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        semaphore::counting:
        the_number_is_set_once
        permits_are_added_and_taken_away
        draining_takes_all_that_are_left
        what_was_deleted_takes_its_permits_along
    }

    cluster_promises! {
        semaphore::holding:
        permits_come_back_when_their_guard_goes
        a_double_release_makes_no_permits
        force_gives_everything_back
    }

    cluster_promises! {
        semaphore::waiting:
        a_waiter_for_two_wakes_when_permits_are_added
        a_waiter_gets_in_when_a_permit_comes_back
        permits_that_come_back_together_wake_as_many
        no_wake_up_is_lost
    }

    cluster_promises! {
        semaphore::crowds:
        as_many_tasks_as_permits_are_inside
        sixteen_processes_in_a_loop_never_are_too_many
    }
}

mod leased_semaphore {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        leased_semaphore::counting:
        the_number_can_be_set_at_any_time
        permits_are_added_and_taken_away
        what_has_expired_is_counted_as_left
    }

    cluster_promises! {
        leased_semaphore::ids:
        permits_are_released_by_their_ids_once
        a_list_is_released_as_a_whole_or_not_at_all
    }

    cluster_promises! {
        leased_semaphore::leases:
        a_waiter_gets_in_when_a_lease_ends
    }

    cluster_promises! {
        leased_semaphore::waiting:
        a_waiter_gets_in_when_a_permit_comes_back
        two_who_wait_for_two_both_get_in
        no_wake_up_is_lost
    }

    cluster_promises! {
        leased_semaphore::crowds:
        sixteen_processes_in_a_loop_never_are_too_many
    }
}

mod latch {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        latch::counting:
        the_count_is_set_once
        deleting_says_whether_there_was_one
        a_latch_can_be_reset
    }

    cluster_promises! {
        latch::waiting:
        a_timed_wait_says_whether_it_opened
        everybody_goes_on_when_it_opens
        everybody_goes_on_when_it_goes_away
        a_reset_keeps_everybody_waiting
    }

    cluster_promises! {
        latch::crowds:
        as_many_count_down_as_wait
    }
}
