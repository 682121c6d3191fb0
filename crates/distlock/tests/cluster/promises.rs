//! A core of each kind's promises, on three primaries.

mod mutex {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        mutex::exclusion:
        a_lock_can_be_taken_and_released_twice
        a_held_lock_refuses_everybody_else
        locks_with_other_names_do_not_mind_each_other
        a_wait_that_runs_out_gives_nothing
        a_wait_timeout_names_the_holder
        a_waiter_elsewhere_gets_in_when_the_holder_lets_go
        a_waiter_here_gets_in_when_the_holder_lets_go
        dropping_and_trying_again_succeeds
    }

    cluster_promises! {
        mutex::crowds:
        fifteen_tasks_of_one_process_never_meet
        sixteen_processes_in_a_loop_never_meet
    }

    cluster_promises! {
        mutex::leases:
        a_waiter_gets_in_when_the_lease_ends
        the_watchdog_keeps_a_lock_without_a_lease
    }

    cluster_promises! {
        mutex::loss:
        force_frees_the_lock_and_tells_a_holder_here
        force_wakes_those_who_wait
    }

    cluster_promises! {
        mutex::queries:
        everybody_sees_that_it_is_locked
        a_list_has_what_is_held
        a_prefix_is_part_of_the_name
    }
}
