//! A command that got no reply does not run late: its connection has ended at the server before anything else is sent there.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use distlock_testkit::proxy::{Delivered, Late};
use distlock_testkit::{Flavor, Match, Proxy, Server};

use super::server::{claim, owner};
use crate::env::System;
use crate::locks::Durability;
use crate::redis::kill_list::ClientId;
use crate::redis::{Net, RedisStore, Surroundings, Target};
use crate::store::{Claim, ClaimKind, Released, Store};
use crate::{ErrorKind, Tracing};

/// When a reply is too late.
const LATE: Duration = Duration::from_secs(1);

async fn connect(url: &str) -> Arc<RedisStore> {
    let surroundings = Surroundings {
        env: Arc::new(System),
        connector: Arc::new(Net),
        observer: Arc::new(Tracing),
        reply_timeout: LATE,
        durability: Durability::Primary,
        holder_info: false,
    };
    let store = RedisStore::connect(Target::parse(url).unwrap(), surroundings, false).await;
    let store = store.unwrap();
    // The server knows the scripts: what is held back is a step.
    let warm = claim("warm", owner(), 1);
    store.acquire(&warm).await.unwrap();
    store.release(&Claim { depth: 0, ..warm }).await.unwrap();
    store
}

fn step(name: &str) -> Match {
    Match::command("EVALSHA").and(Match::token(name))
}

/// The ids of the connections that the server has.
async fn ids(server: &Server) -> Vec<u64> {
    let id = |line: &String| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    server.clients().await.iter().map(|line| id(line).expect("an id")).collect()
}

/// How many connections the server was asked to end. Each connection asks once whether it may, and once how it is known.
async fn kills(server: &Server) -> u64 {
    server.calls("client|kill").await - server.calls("client|info").await
}

async fn only_id(server: &Server) -> u64 {
    let ids = ids(server).await;
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids[0]
}

/// What was held back arrives, and finds its connection ended.
async fn assert_refused(late: &mut Late) {
    assert_eq!(late.deliver().await, Delivered::Refused);
}

async fn a_late_acquisition_does_not_run(flavor: Flavor) {
    let server = Server::builder(flavor).start().await;
    let proxy = Proxy::start(server.addr()).await;
    let store = connect(&proxy.url()).await;
    let old = only_id(&server).await;
    let mine = claim("late", owner(), 1);
    let mut held = proxy.deliver_late(step("late"), 1);
    let error = store.acquire(&mine).await.unwrap_err();
    assert_eq!((error.kind(), held.hits()), (ErrorKind::Indeterminate, 1), "{error}");

    // What follows finds the old connection ended.
    let ran = proxy.watch(step("late"));
    let released = store.release(&Claim { depth: 0, ..mine }).await.unwrap();
    assert_eq!((released, ran.hits()), (Released::NotHeld, 1));
    let now = ids(&server).await;
    assert!(now.len() == 1 && !now.contains(&old), "{old}: {now:?}");

    assert_refused(&mut held).await;
    assert!(!server.exists("late").await, "it was taken after it was released");
    assert!(!store.is_kill_refused());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_late_acquisition_does_not_run_on_redis() {
    a_late_acquisition_does_not_run(Flavor::Redis).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_late_acquisition_does_not_run_on_redis62() {
    a_late_acquisition_does_not_run(Flavor::Redis62).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_late_acquisition_does_not_run_on_valkey() {
    a_late_acquisition_does_not_run(Flavor::Valkey).await;
}

/// Also if the step that follows goes over the connection of another runtime, which never broke.
#[test]
#[ignore = "needs a server: cargo xtask test"]
fn another_runtime_ends_it_as_well() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (main, side) = (runtime(), runtime());
    let server = Server::builder(Flavor::Redis).start_blocking();
    let proxy = Proxy::start_blocking(server.addr());
    let store = main.block_on(connect(&proxy.url()));
    let old = main.block_on(only_id(&server));
    side.block_on(store.inspect(ClaimKind::Exclusive, "late")).unwrap();
    assert_eq!(main.block_on(ids(&server)).len(), 2);

    let mine = claim("late", owner(), 1);
    let mut held = proxy.deliver_late(step("late"), 1);
    let error = main.block_on(store.acquire(&mine)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    side.block_on(store.release(&Claim { depth: 0, ..mine })).unwrap();
    assert!(!main.block_on(ids(&server)).contains(&old));
    main.block_on(assert_refused(&mut held));
    assert!(!main.block_on(server.exists("late")));
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_connection_that_was_reset_in_doubt_is_ended_too() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let store = connect(&proxy.url()).await;
    let _reset = proxy.reset_instead_of_replies_to(step("k"), 1);
    let mine = claim("k", owner(), 1);
    let error = store.acquire(&mine).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(kills(&server).await, 0);
    store.acquire(&mine).await.unwrap();
    assert_eq!(kills(&server).await, 1);
    store.acquire(&mine).await.unwrap();
    assert_eq!(kills(&server).await, 1);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_user_who_may_not_end_connections_has_locks_all_the_same() {
    let allowed = ["+client|info", "+client|kill"];
    for missing in [&allowed[..], &allowed[..1], &allowed[1..]] {
        let server = Server::redis().await;
        let proxy = Proxy::start(server.addr()).await;
        let rules = ["~*", "&*", "+@all", "-client"].into_iter();
        let rules = rules.chain(allowed.into_iter().filter(|rule| !missing.contains(rule)));
        let url = server.user_with("lk", &rules.map(str::to_owned).collect::<Vec<_>>());
        let url = url.replace(&server.addr().to_string(), &proxy.addr().to_string());
        let store = connect(&url).await;
        assert!(store.is_kill_refused(), "known from the start: {missing:?}");
        let _lost = proxy.swallow_replies_to(step("k"), 1);
        let mine = claim("k", owner(), 1);
        let error = store.acquire(&mine).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
        store.acquire(&mine).await.unwrap();
        assert!(store.is_kill_refused(), "{missing:?}");
        let released = store.release(&Claim { depth: 0, ..mine }).await.unwrap();
        assert!(matches!(released, Released::Freed { .. }), "{released:?}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn an_acquisition_that_is_dropped_under_way_does_not_run_late() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let store = connect(&proxy.url()).await;
    let old = only_id(&server).await;
    let mine = claim("late", owner(), 1);
    let mut held = proxy.deliver_late(step("late"), 1);
    {
        let mut acquiring = pin!(store.acquire(&mine));
        tokio::select! {
            _ = &mut acquiring => panic!("it is held back"),
            () = held.fired(1) => {}
        }
    }
    store.release(&Claim { depth: 0, ..mine }).await.unwrap();
    assert!(!ids(&server).await.contains(&old));
    assert_refused(&mut held).await;
    assert!(!server.exists("late").await, "it was taken after it was released");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_question_that_is_dropped_leaves_the_connection_alone() {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let store = connect(&proxy.url()).await;
    let old = only_id(&server).await;
    let mut held = proxy.deliver_late(step("asked"), 1);
    {
        let mut asking = pin!(store.inspect(ClaimKind::Exclusive, "asked"));
        tokio::select! {
            _ = &mut asking => panic!("it is held back"),
            () = held.fired(1) => {}
        }
    }
    assert!(held.deliver().await.ran());
    store.acquire(&claim("k", owner(), 1)).await.unwrap();
    assert_eq!(only_id(&server).await, old);
    assert_eq!(kills(&server).await, 0);
}

/// A server that was restarted counts its clients from the start: the id of the old connection is somebody else's.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_client_that_has_the_same_id_after_a_restart_is_not_ended() {
    let server = Server::redis().await;
    let client = redis::Client::open(server.url()).unwrap();
    let raw = async || client.get_multiplexed_async_connection().await.unwrap();
    let id = async |connection: &mut redis::aio::MultiplexedConnection| -> u64 {
        redis::cmd("CLIENT").arg("ID").query_async(connection).await.unwrap()
    };
    // So that the store's is not among the first ids, which the test's own questions have.
    let mut others = Vec::new();
    while others.len() < 30 {
        others.push(raw().await);
    }
    let store = connect(&server.url()).await;
    let old = ids(&server).await.into_iter().max().unwrap();
    drop(others);
    server.stop();
    let mine = claim("k", owner(), 1);
    let error = store.acquire(&mine).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    server.restart().await;

    let mut innocents = Vec::new();
    let innocent = loop {
        let mut next = raw().await;
        match id(&mut next).await {
            now if now == old => break next,
            now => assert!(now < old, "{now} is behind {old}"),
        }
        innocents.push(next);
    };
    store.acquire(&mine).await.unwrap();
    assert_eq!(kills(&server).await, 1, "it was asked for");
    let mut innocent = innocent;
    assert_eq!(id(&mut innocent).await, old);
}

/// Whatever form the server gives to the address of a client, it knows it again.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_client_is_found_by_what_the_server_says_of_it() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        for url in [server.url(), server.unix_url()] {
            let client = redis::Client::open(url).unwrap();
            let mut victim = client.get_multiplexed_async_connection().await.unwrap();
            let mut other = client.get_multiplexed_async_connection().await.unwrap();
            let said: Vec<redis::Value> =
                ClientId::questions().0.query_async(&mut victim).await.unwrap();
            let id = ClientId::parse(&said).expect("an id and an address");
            let mut ended = async || id.kill().query_async::<u64>(&mut other).await.unwrap();
            assert_eq!((ended().await, ended().await), (1, 0), "{flavor:?}: {id:?}");
        }
    }
}
