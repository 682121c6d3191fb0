//! A guard that is dropped right before the program ends.

use std::time::Duration;

use distlock::{Locks, RedLock};
use distlock_testkit::{Flavor, Proxy, Server, Stopwatch};
use tokio::runtime::{Builder, Runtime};

/// Half of what many drops would take if each waited.
const HALF_A_LEASE: Duration = Duration::from_secs(15);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn is_free(server: &Server, name: &str) -> bool {
    let exists: redis::Value = server.try_cli_blocking(&["EXISTS", name]).unwrap();
    exists == redis::Value::Int(0)
}

/// Every reply takes 10 ms: without a wait the runtime is gone, and the process would be, before the release is at the server.
#[test]
fn a_release_is_sent_before_the_last_locks_is_gone() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let elsewhere = multi_thread();
    let proxy = elsewhere.block_on(Proxy::start(server.addr()));
    proxy.latency(Duration::from_millis(10));
    for runtime in [current_thread, multi_thread] {
        for explicit in [true, false] {
            let runtime = runtime();
            runtime.block_on(async {
                let locks = Locks::connect(&proxy.url()).await.unwrap();
                let clone = locks.clone();
                let guard = clone.mutex("k").lock().await.unwrap();
                if explicit {
                    drop(guard);
                }
            });
            assert!(is_free(&server, "k"), "explicit: {explicit}, {runtime:?}");
        }
    }
}

#[test]
fn a_release_is_sent_before_the_last_locks_of_a_thread_is_gone() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let elsewhere = multi_thread();
    let proxy = elsewhere.block_on(Proxy::start(server.addr()));
    proxy.latency(Duration::from_millis(10));
    let locks = Locks::connect_blocking(&proxy.url()).unwrap();
    drop(locks.mutex("k").lock().blocking().unwrap());
    drop(locks);
    assert!(is_free(&server, "k"));
}

/// A server that does not answer delays the end of a program by the limit of the wait, not by a lease or a retry. The assertion is
/// far above the limit, and far below the 3 s of a command.
#[test]
fn a_frozen_server_does_not_keep_the_program_from_ending() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for runtime in [current_thread, multi_thread] {
        let runtime = runtime();
        let (locks, guard) = runtime.block_on(async {
            let locks = Locks::connect(&server.url()).await.unwrap();
            let guard = locks.mutex("k").lock().await.unwrap();
            (locks, guard)
        });
        server.stop();
        let since = Stopwatch::start();
        runtime.block_on(async move {
            drop(guard);
            drop(locks);
        });
        drop(runtime);
        assert!(since.elapsed() < Duration::from_secs(2), "took {:?}", since.elapsed());
        server.cont();
    }
}

/// A task must not block its thread: on a runtime with one thread, other tasks would stand still. If each of these drops waited for its
/// release, they would take the 30 s of the lease together; without, they take 0.2 s.
#[test]
fn a_locks_that_a_task_drops_does_not_block_its_thread() {
    const MANY: u32 = 200;
    let server = Server::builder(Flavor::Redis).start_blocking();
    let runtime = current_thread();
    let held = runtime.block_on(async {
        let mut held = Vec::new();
        for n in 0..MANY {
            let locks = Locks::connect(&server.url()).await.unwrap();
            let guard = locks.mutex(format!("k{n}")).lock().await.unwrap();
            held.push((guard, locks));
        }
        held
    });
    server.stop();
    let took = runtime.block_on(async {
        let dropping = tokio::spawn(async move {
            let since = Stopwatch::start();
            drop(held); // each guard before its `Locks`
            since.elapsed()
        });
        dropping.await.unwrap()
    });
    server.cont();
    assert!(took < HALF_A_LEASE, "the task was blocked for {took:?}");
}

/// The nodes wait for the majority that they make up. Making and dropping a handle does not wait, because a program makes many: if each
/// did, these would take the 30 s of the lease.
#[test]
fn the_nodes_of_a_redlock_wait_for_its_release_and_its_handles_do_not() {
    const MANY: usize = 200;
    let server = Server::builder(Flavor::Redis).start_blocking();
    let took = current_thread().block_on(async {
        let nodes = [Locks::connect(&server.url()).await.unwrap()];
        let guard = RedLock::new("k", &nodes).lock().await.unwrap();
        server.stop();
        drop(guard);
        let since = Stopwatch::start();
        for _ in 0..MANY {
            drop(RedLock::new("k", &nodes));
        }
        let took = since.elapsed();
        server.cont();
        took
    });
    assert!(took < HALF_A_LEASE, "the handles waited for {took:?}");
    assert!(is_free(&server, "k"));
}
