//! Runtimes that nobody runs any more: what was begun on them is finished elsewhere.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Locks, RedLock};
use distlock_testkit::suites::Recorder;
use distlock_testkit::{Flavor, Proxy, Server, assert_clean};
use tokio::runtime::{Builder, Runtime};

fn undriven() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn server() -> Server {
    Server::builder(Flavor::Redis).start_blocking()
}

fn soon(is_so: impl Fn() -> bool, what: &str) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within ten seconds: {what}");
}

fn is_free(server: &Server, name: &str) -> bool {
    let exists: redis::Value = server.try_cli_blocking(&["EXISTS", name]).unwrap();
    exists == redis::Value::Int(0)
}

#[test]
fn a_guard_dropped_at_the_end_of_block_on_is_released() {
    let server = server();
    let runtime = undriven();
    let locks = runtime.block_on(Locks::connect(&server.url())).unwrap();
    runtime.block_on(async {
        let _guard = locks.mutex("k").lock().await.unwrap();
    });
    soon(|| is_free(&server, "k"), "released although the runtime stands still");
    // And the next one need not wait for a lease.
    let again = locks.mutex("k").lock().wait(Duration::from_secs(5)).blocking().unwrap();
    again.unlock_blocking().unwrap();
    undriven().block_on(assert_clean(&server, "k"));
}

#[test]
fn a_waiter_elsewhere_does_not_depend_on_the_runtime_of_the_first() {
    let server = server();
    let runtime = undriven();
    let locks = runtime.block_on(Locks::connect(&server.url())).unwrap();
    let other = Locks::connect_blocking(&server.url()).unwrap();
    let theirs = other.mutex("k").lock().blocking().unwrap();
    // The first waiter of this process starts its driver; then its runtime goes away with the waiter in it.
    let waiter = runtime.spawn(locks.mutex("k").lock().into_future());
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    let mutex = locks.mutex("k");
    let second = std::thread::spawn(move || mutex.lock().blocking());
    waiter.abort();
    drop(runtime);
    theirs.unlock_blocking().unwrap();
    second.join().unwrap().unwrap().unlock_blocking().unwrap();
    undriven().block_on(assert_clean(&server, "k"));
}

/// More than work at once: each that is dropped gives its turn to the next one, which goes down with the same runtime.
#[test]
fn a_runtime_that_ends_takes_a_crowd_of_waiters_along() {
    let server = server();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let seen = Recorder::new();
    let builder = Locks::builder().url(server.url()).observer(seen.clone());
    let locks = runtime.block_on(builder.connect()).unwrap();
    server.stop();
    for at in 0..4_000 {
        runtime.spawn(locks.mutex(format!("k{at}")).lock().into_future());
    }
    // A second attempt is made by a driver, when the first got no answer.
    let at_work = || (0..4_000).filter(|at| seen.count(&format!("k{at}"), "attempted") >= 2);
    soon(|| at_work().count() >= 256, "as many drivers are at work as may be");
    drop(runtime);
    server.cont();
    locks.mutex("k0").lock().blocking().unwrap().unlock_blocking().unwrap();
    undriven().block_on(assert_clean(&server, "k"));
}

#[test]
fn an_acquisition_abandoned_with_its_runtime_falls_back_by_itself() {
    let server = server();
    let runtime = undriven();
    let locks = runtime.block_on(Locks::connect(&server.url())).unwrap();
    for polls in 0..4 {
        runtime.block_on(async {
            let mut acquiring = Box::pin(locks.mutex("k").lock().into_future());
            for _ in 0..polls {
                let once = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(acquiring.as_mut().poll(cx).is_ready())
                });
                if once.await {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
        soon(|| is_free(&server, "k"), "nothing stays behind");
    }
    undriven().block_on(assert_clean(&server, "k"));
}

/// What a majority leaves to a slow node goes on although nobody runs its runtime, or there is none any more.
#[test]
fn a_slow_node_of_a_majority_does_not_depend_on_the_runtime_of_the_first() {
    for ended in [true, false] {
        let servers = [server(), server(), server()];
        let runtime = undriven();
        let nodes = servers.each_ref().map(|server| {
            let nodes = runtime.block_on(Locks::connect(&server.url()));
            nodes.unwrap()
        });
        let lock = RedLock::new("k", &nodes);
        servers[2].stop();
        let guard = runtime.block_on(lock.lock().into_future()).unwrap();
        let runtime = (!ended).then_some(runtime);
        guard.unlock_blocking().unwrap();
        servers[2].cont();
        for server in &servers {
            soon(|| is_free(server, "k"), "released on every node");
        }
        lock.lock().wait(Duration::from_secs(5)).blocking().unwrap().unlock_blocking().unwrap();
        drop(runtime);
        for server in &servers {
            soon(|| is_free(server, "k"), "released on every node again");
        }
    }
}

/// A single try under a named owner waits for somebody else's attempt on the lock; it must not keep the only thread busy
/// meanwhile, or that attempt never ends.
#[tokio::test]
async fn a_named_owners_try_beside_an_attempt_lets_it_end() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let locks = Locks::connect(&proxy.url()).await.unwrap();
    locks.mutex("warm").lock().await.unwrap().unlock().await.unwrap();
    proxy.latency(Duration::from_millis(20));
    let me = locks.owner();
    let other = locks.mutex("k");
    let first = tokio::spawn(async move { other.lock().await });
    tokio::task::yield_now().await; // its attempt is on its way
    let refused = locks.mutex("k").try_lock().owner(&me).await.unwrap();
    assert!(refused.is_none());
    first.await.unwrap().unwrap().unlock().await.unwrap();
}
