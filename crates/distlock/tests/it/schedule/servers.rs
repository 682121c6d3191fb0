//! On real servers, in real time.
#![cfg(feature = "redis")]

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use distlock::{Locks, Tick};
use distlock_testkit::suites::eventually;
use distlock_testkit::{Flavor, Server, worker};
use tokio::task::JoinSet;

use crate::schedule::Runs;

const SOON: Duration = Duration::from_secs(1);

async fn connect(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.unwrap()
}

/// So many ticks, a second apart. The first comes a second after some node has begun: that one misses none, however long the
/// others take.
fn ticks(
    first: Arc<OnceLock<SystemTime>>,
    count: u32,
) -> impl Iterator<Item = SystemTime> + Send + 'static {
    let begun = std::iter::once_with(move || *first.get_or_init(|| SystemTime::now() + SOON));
    begun.flat_map(move |first| (0..count).map(move |number| first + number * SOON))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_run_each_tick_once_on_every_server() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let (runs, first) = (Runs::default(), Arc::default());
        let mut nodes = JoinSet::new();
        for node in 0..3 {
            let (locks, runs) = (connect(&server).await, runs.clone());
            let ticks = ticks(Arc::clone(&first), 4);
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
        let last = *first.get().unwrap() + 3 * SOON;
        assert!(runs.by_tick().contains_key(&last), "the last one is never coalesced");
        // The mark stays; the lock does not.
        eventually("the lock is free", || async { !server.exists("job").await }).await;
        assert!(connect(&server).await.schedule("job").forget().await.unwrap());
        distlock_testkit::assert_clean(&server, "job").await;
    }
}

/// A process that holds the schedule's lock is killed: its tick has not been marked, so it is run, once, when its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tick_of_a_killed_process_is_run_by_another() {
    let server = Server::redis().await;
    // Its lease: it must not end before it is killed, on a machine that stands still for seconds.
    let millis = "6000";
    let mut dead = worker("testkit-holder").arg(server.url()).arg(millis).arg("job").start().await;
    dead.wait_for("held").await;
    let both = [connect(&server).await, connect(&server).await];
    // Both begin before it, on such a machine too.
    let (runs, tick) = (Runs::default(), SystemTime::now() + 5 * SOON);
    let mut nodes = JoinSet::new();
    for (node, locks) in both.into_iter().enumerate() {
        let runs = runs.clone();
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
        // Short, so that what nobody could let go of when the server died is soon free.
        let builder = Locks::builder().url(server.url()).watchdog(2 * SOON);
        let (locks, runs) = (builder.connect().await.unwrap(), runs.clone());
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
    let (runs, first) = (Runs::default(), Arc::default());
    std::thread::scope(|threads| {
        for node in 0..3 {
            let (runs, url, ticks) = (runs.clone(), server.url(), ticks(Arc::clone(&first), 2));
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
    assert!(runs.by_tick().contains_key(&(*first.get().unwrap() + SOON)));
}
