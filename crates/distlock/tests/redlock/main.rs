//! A majority of independent servers keeps its promises, also when a minority fails.

mod leaving;
mod processes;
mod servers;

use distlock_testkit::promises;

promises! {
    redlock::basics:
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
    a_waiter_that_is_disturbed_keeps_waiting
}

promises! {
    redlock::crowds:
    fifteen_tasks_of_one_process_never_meet
    a_hundred_processes_never_meet
    sixteen_processes_in_a_loop_never_meet
    a_request_dropped_at_any_poll_leaves_nothing
}

/// Has majorities keep these promises.
macro_rules! promises_of_a_majority {
    ($($promise:ident)*) => {
        mod nodes {
            $(mod $promise {
                use distlock_testkit::Flavor::{Redis, Redis62, Valkey};
                use distlock_testkit::suites::Site::{Acl, File, Memory, Paused, Server};
                use distlock_testkit::suites::redlock::{stand, nodes::$promise};

                /// In virtual time.
                #[tokio::test(start_paused = true)]
                async fn three_tables() {
                    stand(&[Paused; 3], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn three_directories() {
                    stand(&[File; 3], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn three_servers() {
                    stand(&[Server(Redis), Acl(Valkey), Server(Redis62)], $promise).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn two_servers_and_two_tables() {
                    stand(&[Memory, Server(Redis), Acl(Valkey), Memory], $promise).await;
                }

                #[tokio::test]
                async fn three_servers_and_two_tables() {
                    let servers = [Acl(Valkey), Server(Redis62), Server(Redis)];
                    let [a, b, c] = servers;
                    stand(&[a, Memory, b, Memory, c], $promise).await;
                }
            })*
        }
    };
}

promises_of_a_majority! {
    a_hold_stands_at_every_node
    a_held_lock_refuses_everybody_else
    a_waiter_gets_in_when_the_holder_lets_go
    the_same_owner_enters_again
    a_lease_ends
    the_watchdog_keeps_it
    force_frees_every_node
    closing_a_node_closes_the_majority
    a_minority_in_other_hands_does_not_matter
    a_crowd_never_meets
}
