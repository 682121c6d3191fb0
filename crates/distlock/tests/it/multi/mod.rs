//! Several locks as one keep their promises: in one store, in several, and when a server fails.

mod commands;
mod faults;
mod leaving;

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
