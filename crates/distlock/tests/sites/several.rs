//! Several locks as one, and a majority of servers, of different set-ups.

use distlock_testkit::Flavor::{Redis, Redis62, Valkey};
use distlock_testkit::suites::Site::{Acl, Sentinel, Tls};
use distlock_testkit::suites::{multi, redlock};

macro_rules! promises {
    ($($suite:ident: $($promise:ident)*;)*) => {
        $(mod $suite {
            $(mod $promise {
                use super::super::*;

                #[tokio::test]
                async fn sentinel() {
                    multi::stand(&[Sentinel(Redis)], multi::$suite::$promise).await;
                }

                #[tokio::test]
                async fn of_each() {
                    let sites = [Sentinel(Redis), Tls, Acl(Valkey)];
                    multi::stand(&sites, multi::$suite::$promise).await;
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
    dropping_and_trying_again_succeeds;

    leases:
    a_lease_ends_for_all;

    loss:
    force_on_one_member_loses_the_guard;

    kinds:
    members_may_be_of_any_kind;
}

mod majority {
    use super::*;

    #[tokio::test]
    async fn of_sentinels() {
        let sites = [Sentinel(Redis), Sentinel(Valkey), Sentinel(Redis62)];
        redlock::stand(&sites, redlock::nodes::a_held_lock_refuses_everybody_else).await;
        redlock::stand(&sites, redlock::nodes::a_waiter_gets_in_when_the_holder_lets_go).await;
    }

    #[tokio::test]
    async fn of_each() {
        let sites = [Sentinel(Redis), Tls, Acl(Redis)];
        redlock::stand(&sites, redlock::nodes::a_hold_stands_at_every_node).await;
        redlock::stand(&sites, redlock::nodes::a_waiter_gets_in_when_the_holder_lets_go).await;
    }
}
