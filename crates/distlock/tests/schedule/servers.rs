//! On real servers, in real time.
#![cfg(feature = "redis")]

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use distlock::{Locks, Tick};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Server, worker};
use tokio::task::JoinSet;

use crate::Runs;

const SOON: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(2);

async fn connect(server: &Server) -> Locks {
    Locks::builder().url(server.url()).watchdog(WATCHDOG).connect().await.unwrap()
}

fn in_a_moment() -> SystemTime {
    SystemTime::now() + SOON
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_run_each_tick_once_on_every_server() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let (runs, first) = (Runs::default(), in_a_moment());
        // Far enough apart that nobody is a whole period late, however busy the machine is.
        let ticks: Vec<_> = (0..4).map(|number| first + number * SOON).collect();
        let mut nodes = JoinSet::new();
        for node in 0..3 {
            let (locks, runs, ticks) = (connect(&server).await, runs.clone(), ticks.clone());
            nodes.spawn(async move {
                let job = |tick: Tick| {
                    runs.note(&tick, node);
                    async {}
                };
                locks.schedule("job").times(ticks).run(job).await
            });
        }
        while let Some(node) = nodes.join_next().await {
            node.unwrap().unwrap();
        }
        for (at, nodes) in runs.by_tick() {
            assert_eq!(nodes.len(), 1, "{at:?} ran on {nodes:?}");
        }
        assert!(runs.by_tick().contains_key(&ticks[3]), "the last one is never coalesced");
        // The mark stays; the lock does not.
        assert!(!server.exists("job").await);
        assert!(connect(&server).await.schedule("job").forget().await.unwrap());
        distlock_testkit::assert_clean(&server, "job").await;
    }
}

/// A process that holds the schedule's lock is killed: its tick has not been marked, so it is run, once, when its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tick_of_a_killed_process_is_run_by_another() {
    let server = Server::redis().await;
    let millis = WATCHDOG.as_millis().to_string();
    let mut dead = worker("testkit-holder").arg(server.url()).arg(millis).arg("job").start().await;
    dead.wait_for("held").await;
    let (runs, tick) = (Runs::default(), in_a_moment());
    let mut nodes = JoinSet::new();
    for node in 0..2 {
        let (locks, runs) = (connect(&server).await, runs.clone());
        nodes.spawn(async move {
            let job = |tick: Tick| {
                runs.note(&tick, node);
                async {}
            };
            locks.schedule("job").times([tick]).retry_if_died().run(job).await
        });
    }
    // Both wait behind it.
    let listens = |client: &String| client.contains(" sub=1 ");
    let both =
        || async { server.clients().await.iter().filter(|client| listens(client)).count() == 2 };
    eventually("both listen", both).await;
    assert_eq!(runs.count(), 0);
    dead.kill();
    while let Some(node) = nodes.join_next().await {
        node.unwrap().unwrap();
    }
    runs.assert_each_once(&[tick]);
}

/// The server is away over several ticks: nothing ends, and of the ticks that come when it is back each is run once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_waited_out() {
    let server = Server::builder(Flavor::Redis).keep_data().start().await;
    let (runs, mut nodes) = (Runs::default(), JoinSet::new());
    for node in 0..2 {
        let (locks, runs) = (connect(&server).await, runs.clone());
        nodes.spawn(async move {
            let job = |tick: Tick| {
                runs.note(&tick, node);
                async {}
            };
            locks.schedule("job").every(Duration::from_millis(250)).run(job).await
        });
    }
    eventually("it runs", || async { runs.count() > 2 }).await;
    server.kill();
    tokio::time::sleep(SOON).await; // ticks that nobody can run
    server.restart().await;
    let before = runs.count();
    eventually("it goes on", || async { runs.count() > before + 2 }).await;
    assert!(nodes.try_join_next().is_none(), "none has ended");
    nodes.shutdown().await;
    for (at, nodes) in runs.by_tick() {
        assert_eq!(nodes.len(), 1, "{at:?} ran on {nodes:?}");
    }
}

/// Told to stop at any point, a node has run its tick or left it to others: what is marked and not run, nobody runs.
#[tokio::test]
async fn a_stop_costs_no_tick() {
    let server = Server::redis().await;
    let locks = connect(&server).await;
    let (mut left, mut run) = (0, 0);
    for polls in 1..=25 {
        let (runs, name) = (Runs::default(), format!("job{polls}"));
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64 + 50;
        let mut asked = 0;
        let stop = poll_fn(move |_| {
            asked += 1;
            if asked < polls { Poll::Pending } else { Poll::Ready(()) }
        });
        let job = |tick: Tick| {
            runs.note(&tick, 0);
            async {}
        };
        let tick = UNIX_EPOCH + Duration::from_millis(millis);
        locks.schedule(&name).times([tick]).until(stop).run(job).await.unwrap();
        if runs.count() == 1 {
            run += 1;
        } else {
            left += 1;
            // The lower of the tick's two numbers: let in unless the tick is marked.
            let unmarked = locks.fence_gate(&name).admit(2 * millis + 1).await;
            unmarked.unwrap_or_else(|error| panic!("stopped at poll {polls}: {error}"));
        }
        let free = || async { !locks.mutex(&name).is_locked().await.unwrap() };
        eventually("the lock is free", free).await;
    }
    assert!(left > 0 && run > 0, "{left} were left, {run} run");
}

/// Without a runtime of the program's.
#[test]
fn threads_run_each_tick_once() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let (runs, first) = (Runs::default(), in_a_moment());
    let ticks = [first, first + SOON];
    std::thread::scope(|threads| {
        for node in 0..3 {
            let (runs, url) = (runs.clone(), server.url());
            threads.spawn(move || {
                let locks = Locks::connect_blocking(&url).unwrap();
                let job = |tick: Tick| {
                    tick.scope().ensure().unwrap();
                    runs.note(&tick, node);
                };
                locks.schedule("job").times(ticks).run_blocking(job).unwrap();
            });
        }
    });
    for (at, nodes) in runs.by_tick() {
        assert_eq!(nodes.len(), 1, "{at:?} ran on {nodes:?}");
    }
    assert!(runs.by_tick().contains_key(&ticks[1]));
}
