//! Several locks as one keep their promises: in one store, in several, and when a server fails.

mod commands;
mod faults;
mod leaving;

/// Has one store, and several, keep these promises.
macro_rules! promises {
    ($($suite:ident: $($promise:ident)*;)*) => {
        $(mod $suite {
            $(mod $promise {
                use distlock_testkit::Flavor::{Redis, Redis62, Valkey};
                use distlock_testkit::suites::Site::{Acl, File, Memory, Paused, Server};
                use distlock_testkit::suites::multi::{stand, $suite::$promise};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn memory() {
                    stand(&[Memory], $promise).await;
                }

                /// In virtual time.
                #[tokio::test(start_paused = true)]
                async fn paused() {
                    stand(&[Paused], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn file() {
                    stand(&[File], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn file_and_memory() {
                    stand(&[File, Memory], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn redis() {
                    stand(&[Server(Redis)], $promise).await;
                }

                #[tokio::test]
                async fn valkey() {
                    stand(&[Acl(Valkey)], $promise).await;
                }

                #[tokio::test]
                async fn redis62() {
                    stand(&[Server(Redis62)], $promise).await;
                }

                /// In virtual time.
                #[tokio::test(start_paused = true)]
                async fn two_tables() {
                    stand(&[Paused, Paused], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn memory_and_redis() {
                    stand(&[Memory, Server(Redis)], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn two_servers() {
                    stand(&[Server(Redis), Acl(Valkey)], $promise).await;
                }

                #[tokio::test]
                async fn three_servers() {
                    stand(&[Acl(Valkey), Server(Redis62), Server(Redis)], $promise).await;
                }
            })*
        })*
    };
}

promises! {
    basics:
    all_are_held_and_all_are_released
    whoever_holds_all_keeps_everybody_out
    one_that_is_busy_refuses_all_and_the_others_stay_free
    of_ten_that_ask_at_once_one_wins
    the_second_waits_until_the_first_lets_go
    a_wait_is_as_long_as_the_last_member_is_held
    a_wait_timeout_says_who_was_in_the_way
    whatever_is_named_twice_counts_once
    the_order_is_the_callers_for_stores_and_sorted_for_names
    dropping_and_trying_again_succeeds
    bad_input_is_refused_before_anything_is_locked
    blocking_callers_lock_in_the_same_way;

    reentry:
    an_owner_that_holds_one_takes_the_rest
    an_owner_that_holds_all_goes_deeper_in_all
    the_guards_owner_enters_its_members_again
    a_scope_re_enters_through_nested_functions
    one_owner_in_two_tasks_never_frees_the_others_hold;

    leases:
    a_lease_ends_for_all
    the_watchdog_keeps_all
    a_lease_switches_the_watchdog_off
    extending_lengthens_all
    a_leaked_guard_leaves_all_of_them_locked;

    loss:
    force_on_one_member_loses_the_guard
    force_from_elsewhere_stops_the_work
    a_release_is_no_loss
    closing_ends_waits_and_releases_all;

    crowds:
    ten_tasks_of_one_process_never_meet
    ten_processes_never_meet_in_whatever_order_they_name_them
    two_that_name_them_the_other_way_round_both_get_on
    overlapping_pairs_all_get_on
    those_who_want_one_and_those_who_want_all_all_get_on;

    kinds:
    members_may_be_of_any_kind
    members_that_can_be_shared_are_shared
    members_named_twice_are_no_trap;
}

mod for_ten_seconds {
    use distlock_testkit::Flavor::{Redis, Valkey};
    use distlock_testkit::suites::Site::{Acl, Server};
    use distlock_testkit::suites::multi::{crowds, stand};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_that_name_them_the_other_way_round_get_on_on_one_server() {
        let promise = crowds::two_that_name_them_the_other_way_round_get_on_for_ten_seconds;
        stand(&[Server(Redis)], promise).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_that_name_them_the_other_way_round_get_on_on_two_servers() {
        let promise = crowds::two_that_name_them_the_other_way_round_get_on_for_ten_seconds;
        stand(&[Server(Redis), Acl(Valkey)], promise).await;
    }
}
