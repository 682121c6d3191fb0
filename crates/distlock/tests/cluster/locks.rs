//! A core of what each kind of lock promises, on three primaries.

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
        mutex::handover:
        the_store_soon_shows_the_heir
        a_waiter_that_leaves_passes_the_lock_on
    }

    cluster_promises! {
        mutex::crowds:
        fifteen_tasks_of_one_process_never_meet
        sixteen_processes_in_a_loop_never_meet
        every_way_in_and_out_excludes
    }

    cluster_promises! {
        mutex::reentry:
        the_same_owner_enters_again
        holds_are_counted
    }

    cluster_promises! {
        mutex::leases:
        a_waiter_gets_in_when_the_lease_ends
        extending_lengthens_and_never_shortens
    }

    cluster_promises! {
        mutex::loss:
        force_frees_the_lock_and_tells_a_holder_here
        force_is_noticed_elsewhere_with_the_next_renewal
        force_wakes_those_who_wait
    }

    cluster_promises! {
        mutex::queries:
        everybody_sees_that_it_is_locked
        a_list_has_what_is_held
        a_prefix_is_part_of_the_name
    }

    cluster_promises! {
        mutex::closing:
        closing_ends_waits_and_releases_holds
    }
}

mod fair {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        fair::basics:
        a_lock_can_be_taken_and_released_twice
        the_same_owner_enters_again_and_others_do_not
        force_frees_the_lock_and_tells_a_holder_here
        a_waiter_gets_in_when_the_lease_ends
        the_watchdog_keeps_a_lock_without_a_lease
        a_waiter_gets_in_soon_after_the_release
    }

    cluster_promises! {
        fair::crowds:
        fifteen_tasks_of_one_process_never_meet
        sixteen_processes_in_a_loop_never_meet
    }

    cluster_promises! {
        fair::order:
        waiters_get_in_in_the_order_in_which_they_came
        a_single_try_overtakes_nobody
        force_lets_the_first_in_line_in
        a_mutex_of_the_same_name_excludes
    }

    cluster_promises! {
        fair::places:
        a_wait_that_ran_out_delays_nobody
        whoever_leaves_leaves_no_place_behind
    }
}

mod rw {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        rw::exclusion:
        each_half_can_be_taken_and_released_twice
        readers_are_inside_together
        a_writer_is_alone
        whoever_waits_gets_in_when_the_others_let_go
    }

    cluster_promises! {
        rw::crowds:
        tasks_of_one_process_never_write_beside_anybody
        every_way_in_and_out_excludes
    }

    cluster_promises! {
        rw::waiting:
        twenty_readers_enter_together_when_the_writer_leaves
        new_readers_stand_behind_a_writer_that_waits
    }

    cluster_promises! {
        rw::leases:
        a_writer_enters_when_the_last_readers_lease_ends
        both_halves_are_renewed_in_time
        a_short_read_never_ends_another
    }

    cluster_promises! {
        rw::downgrade:
        readers_that_wait_come_in_at_once
    }

    cluster_promises! {
        rw::loss:
        force_tells_the_holders_here
        force_wakes_those_who_wait
    }

    cluster_promises! {
        rw::queries:
        a_snapshot_says_who_and_how
    }
}

mod fenced {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        fenced::basics:
        a_lock_can_be_taken_and_released_twice
        the_watchdog_keeps_a_lock_without_a_lease
        a_waiter_gets_in_soon_after_the_release
    }

    cluster_promises! {
        fenced::crowds:
        sixteen_processes_in_a_loop_never_meet
    }

    cluster_promises! {
        fenced::tokens:
        a_re_entry_has_a_higher_token
        tokens_are_in_the_order_of_the_holds
    }

    cluster_promises! {
        fenced::gates:
        a_paused_holders_late_write_is_refused
        a_gate_is_exact_under_a_crowd
    }
}

mod simple {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        simple::basics:
        a_lock_can_be_taken_and_released_twice
        a_waiter_gets_in_when_the_lease_ends
        the_watchdog_keeps_a_lock_without_a_lease
        force_frees_the_lock_and_tells_a_holder_here
        a_waiter_gets_in_soon_after_the_release
    }

    cluster_promises! {
        simple::crowds:
        sixteen_processes_in_a_loop_never_meet
    }
}

mod spin {
    use distlock_testkit::cluster_promises;

    cluster_promises! {
        spin::basics:
        a_lock_can_be_taken_and_released_twice
        the_watchdog_keeps_a_lock_without_a_lease
        a_waiter_gets_in_soon_after_the_release
    }

    cluster_promises! {
        spin::crowds:
        sixteen_processes_in_a_loop_never_meet
    }
}
