//! The promises that are kept on every kind of set-up: a core of each kind, quick enough to be asked of all of them.

/// Calls `$with!` with the core of every kind; it is one of [`cluster_promises`](crate::cluster_promises) and
/// [`site_promises`](crate::site_promises).
#[macro_export]
macro_rules! core_promises {
    ($with:ident) => {
        mod mutex {
            $crate::$with! {
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

            $crate::$with! {
                mutex::handover:
                the_store_soon_shows_the_heir
                a_waiter_that_leaves_passes_the_lock_on
            }

            $crate::$with! {
                mutex::crowds:
                fifteen_tasks_of_one_process_never_meet
                sixteen_processes_in_a_loop_never_meet
                every_way_in_and_out_excludes
            }

            $crate::$with! {
                mutex::reentry:
                the_same_owner_enters_again
                holds_are_counted
            }

            $crate::$with! {
                mutex::leases:
                a_waiter_gets_in_when_the_lease_ends
                extending_lengthens_and_never_shortens
            }

            $crate::$with! {
                mutex::loss:
                force_frees_the_lock_and_tells_a_holder_here
                force_is_noticed_elsewhere_with_the_next_renewal
                force_wakes_those_who_wait
            }

            $crate::$with! {
                mutex::queries:
                everybody_sees_that_it_is_locked
                a_list_has_what_is_held
                a_prefix_is_part_of_the_name
            }

            $crate::$with! {
                mutex::closing:
                closing_ends_waits_and_releases_holds
            }
        }

        mod fair {
            $crate::$with! {
                fair::basics:
                a_lock_can_be_taken_and_released_twice
                the_same_owner_enters_again_and_others_do_not
                force_frees_the_lock_and_tells_a_holder_here
                a_waiter_gets_in_when_the_lease_ends
                the_watchdog_keeps_a_lock_without_a_lease
                a_waiter_gets_in_soon_after_the_release
            }

            $crate::$with! {
                fair::crowds:
                fifteen_tasks_of_one_process_never_meet
                sixteen_processes_in_a_loop_never_meet
            }

            $crate::$with! {
                fair::order:
                waiters_get_in_in_the_order_in_which_they_came
                a_single_try_overtakes_nobody
                force_lets_the_first_in_line_in
                a_mutex_of_the_same_name_excludes
            }

            $crate::$with! {
                fair::places:
                a_wait_that_ran_out_delays_nobody
                whoever_leaves_leaves_no_place_behind
            }
        }

        mod rw {
            $crate::$with! {
                rw::exclusion:
                each_half_can_be_taken_and_released_twice
                readers_are_inside_together
                a_writer_is_alone
                whoever_waits_gets_in_when_the_others_let_go
            }

            $crate::$with! {
                rw::crowds:
                tasks_of_one_process_never_write_beside_anybody
                every_way_in_and_out_excludes
            }

            $crate::$with! {
                rw::waiting:
                twenty_readers_enter_together_when_the_writer_leaves
                new_readers_stand_behind_a_writer_that_waits
            }

            $crate::$with! {
                rw::leases:
                a_writer_enters_when_the_last_readers_lease_ends
                both_halves_are_renewed_in_time
                a_short_read_never_ends_another
            }

            $crate::$with! {
                rw::downgrade:
                readers_that_wait_come_in_at_once
            }

            $crate::$with! {
                rw::loss:
                force_tells_the_holders_here
                force_wakes_those_who_wait
            }

            $crate::$with! {
                rw::queries:
                a_snapshot_says_who_and_how
            }
        }

        mod fenced {
            $crate::$with! {
                fenced::basics:
                a_lock_can_be_taken_and_released_twice
                the_watchdog_keeps_a_lock_without_a_lease
                a_waiter_gets_in_soon_after_the_release
            }

            $crate::$with! {
                fenced::crowds:
                sixteen_processes_in_a_loop_never_meet
            }

            $crate::$with! {
                fenced::tokens:
                a_re_entry_has_a_higher_token
                tokens_are_in_the_order_of_the_holds
            }

            $crate::$with! {
                fenced::gates:
                a_paused_holders_late_write_is_refused
                a_gate_is_exact_under_a_crowd
            }
        }

        mod simple {
            $crate::$with! {
                simple::basics:
                a_lock_can_be_taken_and_released_twice
                a_waiter_gets_in_when_the_lease_ends
                the_watchdog_keeps_a_lock_without_a_lease
                force_frees_the_lock_and_tells_a_holder_here
                a_waiter_gets_in_soon_after_the_release
            }

            $crate::$with! {
                simple::crowds:
                sixteen_processes_in_a_loop_never_meet
            }
        }

        mod spin {
            $crate::$with! {
                spin::basics:
                a_lock_can_be_taken_and_released_twice
                the_watchdog_keeps_a_lock_without_a_lease
                a_waiter_gets_in_soon_after_the_release
            }

            $crate::$with! {
                spin::crowds:
                sixteen_processes_in_a_loop_never_meet
            }
        }

        mod semaphore {
            $crate::$with! {
                semaphore::counting:
                the_number_is_set_once
                permits_are_added_and_taken_away
                draining_takes_all_that_are_left
                what_was_deleted_takes_its_permits_along
            }

            $crate::$with! {
                semaphore::holding:
                permits_come_back_when_their_guard_goes
                a_double_release_makes_no_permits
                force_gives_everything_back
            }

            $crate::$with! {
                semaphore::waiting:
                a_waiter_for_two_wakes_when_permits_are_added
                a_waiter_gets_in_when_a_permit_comes_back
                permits_that_come_back_together_wake_as_many
                no_wake_up_is_lost
            }

            $crate::$with! {
                semaphore::crowds:
                as_many_tasks_as_permits_are_inside
                sixteen_processes_in_a_loop_never_are_too_many
            }
        }

        mod leased_semaphore {
            $crate::$with! {
                leased_semaphore::counting:
                the_number_can_be_set_at_any_time
                permits_are_added_and_taken_away
                what_has_expired_is_counted_as_left
            }

            $crate::$with! {
                leased_semaphore::ids:
                permits_are_released_by_their_ids_once
                a_list_is_released_as_a_whole_or_not_at_all
            }

            $crate::$with! {
                leased_semaphore::leases:
                a_waiter_gets_in_when_a_lease_ends
            }

            $crate::$with! {
                leased_semaphore::waiting:
                a_waiter_gets_in_when_a_permit_comes_back
                two_who_wait_for_two_both_get_in
                no_wake_up_is_lost
            }

            $crate::$with! {
                leased_semaphore::crowds:
                sixteen_processes_in_a_loop_never_are_too_many
            }
        }

        mod latch {
            $crate::$with! {
                latch::counting:
                the_count_is_set_once
                deleting_says_whether_there_was_one
                a_latch_can_be_reset
            }

            $crate::$with! {
                latch::waiting:
                a_timed_wait_says_whether_it_opened
                everybody_goes_on_when_it_opens
                everybody_goes_on_when_it_goes_away
                a_reset_keeps_everybody_waiting
            }

            $crate::$with! {
                latch::crowds:
                as_many_count_down_as_wait
            }
        }
    };
}

/// The same of `multi`, which has members and so is called otherwise: with a macro of the caller's.
#[macro_export]
macro_rules! core_multi_promises {
    ($with:ident) => {
        $with! {
            basics:
            all_are_held_and_all_are_released
            whoever_holds_all_keeps_everybody_out
            one_that_is_busy_refuses_all_and_the_others_stay_free
            of_ten_that_ask_at_once_one_wins
            the_second_waits_until_the_first_lets_go
            dropping_and_trying_again_succeeds;

            leases:
            a_lease_ends_for_all;

            loss:
            force_on_one_member_loses_the_guard;

            kinds:
            members_may_be_of_any_kind;
        }
    };
}
