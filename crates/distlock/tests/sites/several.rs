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

distlock_testkit::core_multi_promises!(promises);

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
