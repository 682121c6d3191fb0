//! Many at once, and those who leave.

/// The promises for the kind with this accessor.
macro_rules! exclusive_crowds {
    ($kind:ident) => {
        use std::future::IntoFuture;
        use std::time::Duration;

        use tokio::task::JoinSet;
        use tokio::time::timeout;

        use crate::cancel::{Cut, poll_times};
        use crate::suites::{Ground, Section};

        const fn secs(n: u64) -> Duration {
            Duration::from_secs(n)
        }

        const HOUR: Duration = secs(3600);

        async fn all(mut tasks: JoinSet<()>) {
            let every = async {
                while let Some(ended) = tasks.join_next().await {
                    ended.expect("no task panics");
                }
            };
            timeout(secs(60), every).await.expect("everybody gets in within a minute");
        }

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
            all(tasks).await;
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
            all(tasks).await;
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
            all(tasks).await;
            assert_eq!(section.entries(), 16 * rounds as u64);
        }

        /// Dropped at any poll, free or busy or while it gets free, a request leaves nothing behind.
        pub async fn a_request_dropped_at_any_poll_leaves_nothing(ground: Ground) {
            #[derive(Clone, Copy, Debug, PartialEq)]
            enum Scene {
                Free,
                Busy,
                GetsFree,
            }
            let (here, elsewhere) = (ground.open().await, ground.open().await);
            let name = ground.name("k");
            for scene in [Scene::Free, Scene::Busy, Scene::GetsFree] {
                for polls in 0..60 {
                    let held = match scene {
                        Scene::Free => None,
                        _ => Some(elsewhere.$kind(&name).lock().lease(HOUR).await.expect("free")),
                    };
                    let request = here.$kind(&name).lock().lease(HOUR).into_future();
                    let letting_go = async {
                        if scene == Scene::GetsFree {
                            tokio::task::yield_now().await;
                            held.expect("it is held").unlock().await.expect("it was held");
                            return None;
                        }
                        held
                    };
                    let (cut, held) = tokio::join!(poll_times(request, polls), letting_go);
                    let over = !matches!(cut, Cut::Dropped);
                    drop(cut); // a guard that was won goes here
                    drop(held);
                    let next = elsewhere.$kind(&name).lock().wait(secs(5)).lease(HOUR).await;
                    let what = || format!("{scene:?} after {polls} polls");
                    let next = next.unwrap_or_else(|e| panic!("{}: not free: {e}", what()));
                    next.unlock().await.unwrap_or_else(|e| panic!("{}: {e}", what()));
                    if over {
                        assert!(polls > 0, "nothing was swept");
                        break;
                    }
                }
            }
        }
    };
}

pub(crate) use exclusive_crowds;
