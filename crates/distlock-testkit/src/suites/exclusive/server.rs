//! What only a server shows.

/// The promises for the kind with this accessor.
macro_rules! exclusive_server {
    ($kind:ident) => {
        /// Redisson: testRedisFailed. A server that is gone is an outage, told in bounded time, and not a busy lock.
        pub async fn a_server_that_is_gone_is_an_outage(server: crate::Server) {
            use std::future::IntoFuture;
            use std::time::Duration;

            use distlock::{ErrorKind, Locks};
            use tokio::time::timeout;

            let locks = Locks::connect(&server.url()).await.expect("the server answers");
            let guard = locks.$kind("held").lock().await.expect("it is free");
            server.kill();
            let (lock, limit) = (locks.$kind("k"), Duration::from_secs(15));
            // Long enough to be refused by the dead one, and not only to find the old connection broken.
            let wait = Duration::from_secs(2);
            let (once, short, long, asked, forced) = tokio::join!(
                timeout(limit, lock.try_lock().into_future()),
                timeout(limit, lock.lock().wait(wait).into_future()),
                timeout(limit, lock.lock().into_future()),
                timeout(limit, lock.is_locked()),
                timeout(limit, lock.force_unlock()),
            );
            let errors = [
                once.expect("bounded").expect_err("nobody is there"),
                short.expect("bounded").expect_err("nobody is there"),
                long.expect("bounded").expect_err("nobody is there"),
                asked.expect("bounded").expect_err("nobody is there"),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert_eq!(error.lock_name(), Some("k"), "{error:?}");
            }
            // What cannot be asked again may have been on its way when the connection broke.
            let forced = forced.expect("bounded").expect_err("nobody is there");
            let kinds = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
            assert!(kinds.contains(&forced.kind()), "{forced}");
            let unlocked = timeout(limit, guard.unlock()).await.expect("bounded");
            assert_eq!(unlocked.expect_err("nobody is there").kind(), ErrorKind::Unavailable);
            server.restart().await;
            let again = timeout(limit, lock.lock().into_future()).await.expect("bounded");
            again.expect("the server is back").unlock().await.expect("it was held");
        }
    };
}

pub(crate) use exclusive_server;
