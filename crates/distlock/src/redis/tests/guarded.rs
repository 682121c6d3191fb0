//! Commands that run only while a lock is held, on every server there is.

use std::sync::Arc;
use std::time::Duration;

use distlock_testkit::{Flavor, Match, Proxy, Server as RealServer};

use super::server::{claim as exclusive, connect, owner};
use crate::redis::RedisStore;
use crate::store::{Claim, ClaimKind, Command, Reply, Store};
use crate::{ErrorKind, Owner};

fn claim(what: ClaimKind, owner: Owner) -> Claim {
    Claim { kind: what, ..exclusive("k", owner, 1) }
}

fn set(value: &str) -> Command {
    Command::new("SET").key("{k}:data").arg(value)
}

fn ok() -> Option<Reply> {
    Some(Reply::Bytes(b"OK".to_vec()))
}

async fn everywhere(test: impl AsyncFn(&RealServer, Arc<RedisStore>)) {
    for flavor in Flavor::installed() {
        let server = RealServer::builder(flavor).start().await;
        let store = connect(&server.url()).await.unwrap();
        test(&server, store).await;
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_holder_of_any_kind_may_and_nobody_else_may() {
    let kinds = [
        ClaimKind::Exclusive,
        ClaimKind::Fenced,
        ClaimKind::Fair { patience: None },
        ClaimKind::Simple,
    ];
    everywhere(async |server, store| {
        for what in kinds {
            let (me, other) = (owner(), owner());
            assert_eq!(store.guarded(&claim(what, me), &set("before")).await.unwrap(), None);
            store.acquire(&claim(what, me)).await.unwrap();
            assert_eq!(store.guarded(&claim(what, me), &set("mine")).await.unwrap(), ok());
            assert_eq!(store.guarded(&claim(what, other), &set("not")).await.unwrap(), None);
            assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "mine");
            store.force(what, "k").await.unwrap();
            assert_eq!(store.guarded(&claim(what, me), &set("late")).await.unwrap(), None);
            store.acquire(&claim(what, other)).await.unwrap();
            assert_eq!(store.guarded(&claim(what, me), &set("late")).await.unwrap(), None);
            assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "mine", "{what:?}");
            server.cli(&["FLUSHALL"]).await;
        }
    })
    .await;
}

/// In Redisson's layout, whoever wrote it.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn readers_and_writers_may_while_they_hold() {
    everywhere(async |server, store| {
        let me = owner();
        let (field, writer) = (me.to_string(), format!("{me}:write"));
        let write = claim(ClaimKind::Write { waits: false }, me);
        server.cli(&["HSET", "k", "mode", "write", &writer, "1"]).await;
        assert_eq!(store.guarded(&write, &set("written")).await.unwrap(), ok());
        assert_eq!(store.guarded(&claim(ClaimKind::Read, me), &set("no")).await.unwrap(), None);

        server.cli(&["DEL", "k"]).await;
        server.cli(&["HSET", "k", "mode", "read", &field, "2"]).await;
        // Another reader keeps the hash alive, but the holds of this one are over.
        assert_eq!(store.guarded(&claim(ClaimKind::Read, me), &set("no")).await.unwrap(), None);
        assert_eq!(store.guarded(&write, &set("no")).await.unwrap(), None);
        let hold = format!("{{k}}:{me}:rwlock_timeout:2");
        server.cli(&["SET", &hold, "1"]).await;
        assert_eq!(store.guarded(&claim(ClaimKind::Read, me), &set("read")).await.unwrap(), ok());
        assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "read");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn arguments_and_replies_of_every_shape_arrive_as_they_are() {
    everywhere(async |_, store| {
        let me = owner();
        store.acquire(&exclusive("k", me, 1)).await.unwrap();
        let send = async |command| {
            store.guarded(&claim(ClaimKind::Exclusive, me), &command).await.unwrap().unwrap()
        };
        let bytes = |bytes: &[u8]| Reply::Bytes(bytes.to_vec());

        assert_eq!(send(Command::new("GET").key("{k}:none")).await, Reply::Nil);
        assert_eq!(send(Command::new("incrby").key("{k}:n").arg("7")).await, Reply::Int(7));
        let odd = b"\x00\xff\r\n$-1 ka".as_slice();
        let mset = Command::new("MSET").key("{k}:a").arg(odd).key("{k}:b").arg("");
        assert_eq!(send(mset).await, bytes(b"OK"));
        let mget = Command::new("MGET").key("{k}:b").key("{k}:none").key("{k}:a");
        assert_eq!(send(mget).await, Reply::List(vec![bytes(b""), Reply::Nil, bytes(odd)]));
        let hset = Command::new("HSET").key("{k}:h").arg("f").arg("v");
        assert_eq!(send(hset).await, Reply::Int(1));
        let pair = Reply::List(vec![bytes(b"f"), bytes(b"v")]);
        assert_eq!(send(Command::new("HGETALL").key("{k}:h")).await, pair);
        // Keys in the middle, and many.
        let move_ = Command::new("COPY").key("{k}:a").key("{k}:c").arg("REPLACE");
        assert_eq!(send(move_).await, Reply::Int(1));
        assert_eq!(send(Command::new("PING")).await, bytes(b"PONG"));
        let many = (0..6900).fold(Command::new("RPUSH").key("{k}:list"), |c, _| c.arg("x"));
        assert_eq!(send(many).await, Reply::Int(6900));
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_the_server_refuses_is_told_from_trouble_with_the_lock() {
    everywhere(async |server, store| {
        let me = owner();
        let mine = claim(ClaimKind::Exclusive, me);
        store.acquire(&mine).await.unwrap();
        server.cli(&["RPUSH", "{k}:list", "x"]).await;
        server.cli(&["SET", "{k}:text", "x"]).await;
        let refused = [
            (Command::new("INCR").key("{k}:list"), ErrorKind::Conflict),
            (Command::new("INCR").key("{k}:text"), ErrorKind::Conflict),
            (Command::new("NOSUCH").key("{k}:text"), ErrorKind::Config),
            (Command::new("SET").key("{k}:text"), ErrorKind::Config),
            (Command::new("SET").key("{k}:text").arg("x").arg("NONSENSE"), ErrorKind::Config),
        ];
        for (command, kind) in refused {
            let error = store.guarded(&mine, &command).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{command:?}: {error}");
            assert!(error.to_string().contains("the lock is held, but"), "{error}");
        }
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let error = store.guarded(&mine, &set("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await;

        // Another type where the lock was: it is not held any more.
        server.cli(&["SET", "k", "something else"]).await;
        assert_eq!(store.guarded(&mine, &set("x")).await.unwrap(), None);
        server.cli(&["DEL", "k"]).await;
        server.cli(&["HSET", "k", "something", "else"]).await;
        assert_eq!(store.guarded(&claim(ClaimKind::Simple, me), &set("x")).await.unwrap(), None);
        assert!(!server.exists("{k}:data").await);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn not_being_allowed_to_look_is_not_a_loss() {
    let server = RealServer::redis().await;
    let can = ["+hello", "+evalsha", "+script|load", "+set", "~*"];
    let user = ["ACL", "SETUSER", "blind", "on", ">word", "-@all"];
    server.cli(&[&user[..], &can].concat()).await;
    let url = format!("redis://blind:word@127.0.0.1:{}", server.port());
    let store = connect(&url).await.unwrap();
    let me = owner();
    let hash = ["HSET", "k", &me.to_string(), "1"];
    server.cli(&hash).await;
    let error = store.guarded(&claim(ClaimKind::Exclusive, me), &set("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_cannot_work_is_refused_before_it_is_sent() {
    let server = RealServer::redis().await;
    let store = connect(&server.url()).await.unwrap();
    let me = owner();
    store.acquire(&claim(ClaimKind::Exclusive, me)).await.unwrap();
    server.reset_stats().await;
    let many = (0..8000).fold(Command::new("RPUSH").key("{k}:list"), |c, _| c.arg("x"));
    let mut refused = vec![
        Command::new(""),
        Command::new("SET {k}:data x"),
        // The lock's own name would overwrite the lock.
        Command::new("SET").key("k").arg("x"),
        many,
    ];
    let names = "subscribe EVAL evalsha FCALL MULTI exec WATCH WAIT BLPOP bzpopmin BLMOVE MONITOR";
    refused.extend(names.split(' ').map(Command::new));
    for command in refused {
        let error = store.guarded(&claim(ClaimKind::Exclusive, me), &command).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{:?}: {error}", command.name());
    }
    for what in [ClaimKind::Permits { count: 1, initial: None }, ClaimKind::LatchOpen] {
        let error = store.guarded(&claim(what, me), &set("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    assert_eq!(server.calls("evalsha").await, 0);
    assert!(server.exists("k").await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_lost_reply_is_indeterminate_and_the_command_is_not_sent_again() {
    let server = RealServer::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    let store = connect(&server.url_at(proxy.addr())).await.unwrap();
    let mine = claim(ClaimKind::Exclusive, owner());
    store.acquire(&mine).await.unwrap();
    let incr = Command::new("INCR").key("{k}:n");
    assert_eq!(store.guarded(&mine, &incr).await.unwrap(), Some(Reply::Int(1)));
    proxy.swallow_replies_to(Match::command("EVALSHA"), 1);
    let error = store.guarded(&mine, &incr).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(server.ask::<i64>(&["GET", "{k}:n"]).await, 2);
}

/// One owner after the other takes the lock and counts; the ones before it go on trying. Every count that was answered
/// stands, and none that was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test"]
async fn exact_while_the_lock_changes_hands() {
    everywhere(async |server, store| {
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let mine =
                Claim { lease: Duration::from_secs(60), ..claim(ClaimKind::Exclusive, owner()) };
            store.acquire(&mine).await.unwrap();
            let (store, field) = (store.clone(), mine.owner.to_string());
            writers.spawn(async move {
                let count = Command::new("HINCRBY").key("{k}:counts").arg(&field).arg("1");
                let mut counted = 0;
                while store.guarded(&mine, &count).await.unwrap().is_some() {
                    counted += 1;
                    assert!(counted < 1_000_000, "never refused");
                }
                // It is never held again.
                assert_eq!(store.guarded(&mine, &count).await.unwrap(), None);
                (field, counted)
            });
            tokio::time::sleep(Duration::from_millis(10)).await;
            server.cli(&["DEL", "k"]).await;
        }
        let counts = server.hgetall("{k}:counts").await;
        while let Some(writer) = writers.join_next().await {
            let (field, counted) = writer.unwrap();
            let stands = counts.get(&field).map_or(0, |count| count.parse().unwrap());
            assert_eq!(counted, stands);
        }
    })
    .await;
}
