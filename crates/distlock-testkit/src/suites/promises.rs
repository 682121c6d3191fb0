//! One test per promise and store.

/// Has every store keep these promises of a kind; the tests are called `suite::promise::store`.
///
/// `promises! { mutex::exclusion: a_lock_can_be_taken … }` runs `suites::mutex::exclusion::a_lock_can_be_taken`.
#[macro_export]
macro_rules! promises {
    ($kind:ident::$suite:ident: $($promise:ident)*) => {
        mod $suite {
            $(mod $promise {
                $crate::promise!($kind::$suite::$promise);
            })*
        }
    };
}

/// The tests of one promise.
#[macro_export]
#[doc(hidden)]
macro_rules! promise {
    ($kind:ident::$suite:ident::$promise:ident) => {
        use $crate::Flavor;
        use $crate::suites::{Site, stand, $kind::$suite::$promise};

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn memory() {
            stand(Site::Memory, $promise).await;
        }

        /// In virtual time.
        #[tokio::test(start_paused = true)]
        async fn paused() {
            stand(Site::Paused, $promise).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn file() {
            stand(Site::File, $promise).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn redis() {
            stand(Site::Server(Flavor::Redis), $promise).await;
        }

        /// With no more permissions than the library says it needs.
        #[tokio::test]
        async fn valkey() {
            stand(Site::Acl(Flavor::Valkey), $promise).await;
        }

        #[tokio::test]
        async fn redis62() {
            stand(Site::Server(Flavor::Redis62), $promise).await;
        }
    };
}

/// Has every server keep promises that look at all of it: each gets a server of its own.
#[macro_export]
macro_rules! server_promises {
    ($kind:ident::$suite:ident: $($promise:ident)*) => {
        mod $suite {
            $(mod $promise {
                use $crate::suites::$kind::$suite::$promise;
                use $crate::{Flavor, Server};

                async fn keep(flavor: Flavor) {
                    match flavor.program() {
                        Some(_) => $promise(Server::builder(flavor).start().await).await,
                        None => eprintln!("SKIPPED: no server for {flavor:?}"),
                    }
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn redis() {
                    keep(Flavor::Redis).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn valkey() {
                    keep(Flavor::Valkey).await;
                }

                #[tokio::test]
                async fn redis62() {
                    keep(Flavor::Redis62).await;
                }
            })*
        }
    };
}

/// Has a cluster keep these promises, with each way to call out releases; the tests are called `suite::promise::way`.
#[macro_export]
macro_rules! cluster_promises {
    ($kind:ident::$suite:ident: $($promise:ident)*) => {
        mod $suite {
            $(mod $promise {
                use $crate::Flavor;
                use $crate::suites::{Site, stand, $kind::$suite::$promise};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sharded() {
                    stand(Site::Cluster(Flavor::Redis, "sharded"), $promise).await;
                }

                #[tokio::test]
                async fn classic() {
                    stand(Site::Cluster(Flavor::Redis, "classic"), $promise).await;
                }
            })*
        }
    };
}

/// Has other set-ups keep these promises; the tests are called `suite::promise::site`.
#[macro_export]
macro_rules! site_promises {
    ($kind:ident::$suite:ident: $($promise:ident)*) => {
        mod $suite {
            $(mod $promise {
                use $crate::Flavor;
                use $crate::suites::{Site, stand, $kind::$suite::$promise};

                #[tokio::test]
                async fn acl() {
                    stand(Site::Acl(Flavor::Redis), $promise).await;
                }

                #[tokio::test]
                async fn polling() {
                    stand(Site::Polling(Flavor::Redis), $promise).await;
                }

                #[tokio::test]
                async fn sentinel() {
                    stand(Site::Sentinel(Flavor::Redis), $promise).await;
                }

                #[tokio::test]
                async fn tls() {
                    stand(Site::Tls, $promise).await;
                }
            })*
        }
    };
}
