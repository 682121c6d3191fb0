//! Many at once, and those who leave.

/// The promises of a crowd for the kind with this accessor.
macro_rules! exclusive_meetings {
    ($kind:ident) => {
        use tokio::task::JoinSet;

        use crate::suites::{Ground, Section, everybody};

        /// Redisson: testConcurrency_SingleInstance.
        pub async fn fifteen_tasks_of_one_process_never_meet(ground: Ground) {
            let locks = ground.open().await;
            let section = Section::new();
            let mut tasks = JoinSet::new();
            for _ in 0..15 {
                let (lock, section) = (locks.$kind(ground.name("k")), section.clone());
                tasks.spawn(async move {
                    for _ in 0..4 {
                        let guard = lock.lock().await.expect("it gets free");
                        section.visit().await;
                        guard.unlock().await.expect("it was held");
                    }
                });
            }
            everybody(tasks).await;
            assert_eq!(section.entries(), 60);
        }

        /// Redisson: testConcurrency_MultiInstance.
        pub async fn a_hundred_processes_never_meet(ground: Ground) {
            let count = ground.crowd(100);
            let section = Section::new();
            let mut tasks = JoinSet::new();
            for _ in 0..count {
                let (locks, name, section) =
                    (ground.open().await, ground.name("k"), section.clone());
                tasks.spawn(async move {
                    let guard = locks.$kind(name).lock().await.expect("it gets free");
                    section.visit().await;
                    guard.unlock().await.expect("it was held");
                });
            }
            everybody(tasks).await;
            assert_eq!(section.entries(), count as u64);
        }

        /// Redisson: testConcurrencyLoop_MultiInstance.
        pub async fn sixteen_processes_in_a_loop_never_meet(ground: Ground) {
            let rounds = ground.crowd(100);
            let section = Section::new();
            let mut tasks = JoinSet::new();
            for process in 0..16 {
                let (locks, name, section) =
                    (ground.open().await, ground.name("k"), section.clone());
                tasks.spawn(async move {
                    for round in 0..rounds {
                        let guard = locks.$kind(&name).lock().await.expect("it gets free");
                        section.visit().await;
                        match (process + round) % 2 {
                            0 => drop(guard),
                            _ => guard.unlock().await.expect("it was held"),
                        }
                    }
                });
            }
            everybody(tasks).await;
            assert_eq!(section.entries(), 16 * rounds as u64);
        }
    };
}

/// The promises for the kind with this accessor.
macro_rules! exclusive_crowds {
    ($kind:ident) => {
        use std::future::IntoFuture;

        use distlock::Result;
        use tokio::task::JoinHandle;

        use crate::cancel::{in_vain, sweep};
        use crate::suites::times::{HOUR, secs};

        crate::suites::exclusive::exclusive_meetings!($kind);

        /// Dropped at any poll, free or busy or while it gets free, a request leaves nothing behind.
        pub async fn a_request_dropped_at_any_poll_leaves_nothing(ground: Ground) {
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            let request = || here.$kind(&name).lock().lease(HOUR).into_future();
            let held =
                async || elsewhere.$kind(&name).lock().lease(HOUR).await.expect("it is free");
            let nothing_left = async |what: &str| {
                let next = elsewhere.$kind(&name).lock().wait(secs(15)).lease(HOUR).await;
                let next = next.unwrap_or_else(|e| panic!("{what}: not free: {e}"));
                next.unlock().await.unwrap_or_else(|e| panic!("{what}: {e}"));
            };
            let prepare = async || (request(), ());
            sweep("free", nothing_left, prepare, async |()| ()).await;
            let prepare = async || {
                let held = held().await;
                (in_vain(request()), held)
            };
            sweep("busy", nothing_left, prepare, async |held| drop(held)).await;
            let prepare = async || {
                let held = held().await;
                (request(), tokio::spawn(held.unlock()))
            };
            let released = async |release: JoinHandle<Result<()>>| {
                release.await.expect("no panic").expect("it was held");
            };
            sweep("gets free", nothing_left, prepare, released).await;
        }
    };
}

pub(crate) use exclusive_crowds;
pub(crate) use exclusive_meetings;
