//! What is no lock of ours, what the server refuses, and what Redisson has written.

use super::super::server::{Server, connect, owner};
use super::{ACQUIRED, LEFT, WRITE, busy_for, fields, hold, is_busy, read, write};
use crate::ErrorKind;
use crate::store::{Claim, ClaimKind, Released, Store};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_read_write_lock_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET string x").await;
    raw.run::<()>("SET mortal x PX 60000").await;
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("HSET immortal mode read").await;
    raw.run::<()>("RPUSH list x").await;
    // A mutex: Redisson would let a reader into it.
    raw.run::<()>(&format!("HSET plain {} 1", owner())).await;
    raw.run::<()>("PEXPIRE plain 60000").await;
    for name in ["string", "mortal", "hash", "immortal", "list", "plain"] {
        let before: Vec<u8> = raw.run(&format!("DUMP {name}")).await;
        let named = |claim: Claim| Claim { name: name.into(), ..claim };
        let errors = [
            store.acquire(&named(read(owner(), 1))).await.unwrap_err(),
            store.acquire(&named(write(owner(), 1))).await.unwrap_err(),
            store.inspect(ClaimKind::Read, name).await.unwrap_err(),
            store.force(ClaimKind::Read, name).await.unwrap_err(),
            store.force(WRITE, name).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{name}: {error}");
        }
        for claim in [read(owner(), 1), write(owner(), 1)] {
            assert!(!store.renew(&[named(claim)]).await.remove(0).unwrap().is_held());
        }
        assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {name}")).await, before);
    }
    assert_eq!(raw.all_keys().await.len(), 6);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_stops_acquiring_but_nothing_else() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (reader, writer) = (owner(), owner());
    let other = |claim: Claim| Claim { name: "w".into(), ..claim };
    for depth in [1, 2] {
        store.acquire(&read(reader, depth)).await.unwrap();
        store.acquire(&other(write(writer, depth))).await.unwrap();
    }
    store.acquire(&other(read(writer, 1))).await.unwrap();
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    let new = |claim: Claim| Claim { name: "new".into(), ..claim };
    for claim in [new(read(owner(), 1)), new(write(owner(), 1)), read(owner(), 1)] {
        let error = store.acquire(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(!raw.run::<bool>("EXISTS new").await);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&reader.to_string(), "2")]));

    let claims = [read(reader, 2), other(write(writer, 2)), other(read(writer, 1))];
    assert!(store.renew(&claims).await.into_iter().all(|renewed| renewed.unwrap().is_held()));
    // The hold that would be left had the shorter lease: it is set anew all the same.
    raw.run::<()>(&format!("PEXPIRE {} 5000", hold(reader, 1))).await;
    assert_eq!(store.release(&read(reader, 1)).await.unwrap(), Released::StillHeld);
    assert!(raw.ttl(&hold(reader, 1)).await > 5_000);
    assert_eq!(store.release(&read(reader, 0)).await.unwrap(), LEFT);
    assert_eq!(store.release(&other(write(writer, 1))).await.unwrap(), Released::StillHeld);
    assert_eq!(store.release(&other(write(writer, 0))).await.unwrap(), LEFT);
    assert_eq!(raw.run::<String>("HGET w mode").await, "read");
    assert_eq!(store.release(&other(read(writer, 0))).await.unwrap(), LEFT);
    assert!(raw.all_keys().await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn missing_permissions_leave_no_immortal_lock_and_hide_no_release() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = "+hello +evalsha +script|load +pttl +hset +hget +hmget +hdel +hexists +hlen +hgetall \
               +get +set +del ~*";
    raw.run::<()>(&format!("ACL SETUSER mute on >word -@all {can} +pexpire")).await;
    raw.run::<()>(&format!("ACL SETUSER brief on >word -@all {can}")).await;
    let url = |user| format!("redis://{user}:word@127.0.0.1:{}", server.port());

    let brief = connect(&url("brief")).await.unwrap();
    for claim in [read(owner(), 1), write(owner(), 1)] {
        let error = brief.acquire(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(raw.all_keys().await.is_empty());
    }

    let (mute, me) = (connect(&url("mute")).await.unwrap(), owner());
    for claim in [read as fn(_, _) -> _, write] {
        assert_eq!(mute.acquire(&claim(me, 1)).await.unwrap(), ACQUIRED);
        assert_eq!(mute.release(&claim(me, 0)).await.unwrap(), LEFT);
        assert!(raw.all_keys().await.is_empty());
    }
}

/// Two Java threads read, as Redisson writes it; one of them died.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn redissons_readers_are_readers() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (java, dead) =
        ("6e1f1b0c-8c3e-4b0e-9a67-0d2f6f9f7c11:44", "6e1f1b0c-8c3e-4b0e-9a67-0d2f6f9f7c11:45");
    raw.run::<()>(&format!("HSET k mode read {java} 2 {dead} 1")).await;
    raw.run::<()>(&format!("SET {{k}}:{java}:rwlock_timeout:1 1 PX 20000")).await;
    raw.run::<()>(&format!("SET {{k}}:{java}:rwlock_timeout:2 1 PX 5000")).await;
    raw.run::<()>("PEXPIRE k 30000").await;

    let left = busy_for(store.acquire(&write(owner(), 1)).await.unwrap());
    assert!(left > 10_000 && left <= 20_000, "{left}");
    let me = owner();
    assert_eq!(store.acquire(&read(me, 1)).await.unwrap(), ACQUIRED);
    let seen = store.inspect(ClaimKind::Read, "k").await.unwrap();
    let mut holders: Vec<_> = seen.holders.iter().map(|h| (&*h.owner, h.depth)).collect();
    holders.sort_by_key(|(_, depth)| *depth);
    assert_eq!(holders, [(&*me.to_string(), 1), (java, 2)]);

    assert_eq!(store.release(&read(me, 0)).await.unwrap(), LEFT);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (java, "2")]));
    let ttl = raw.ttl("k").await;
    assert!(ttl > 10_000 && ttl <= 20_000, "{ttl}");
    // The Java reader unlocks for good.
    raw.run::<()>("DEL k").await;
    assert_eq!(store.acquire(&write(me, 1)).await.unwrap(), ACQUIRED);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn redissons_writer_is_a_writer() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let java = "6e1f1b0c-8c3e-4b0e-9a67-0d2f6f9f7c11:44";
    raw.run::<()>(&format!("HSET k mode write {java}:write 1 {java} 1")).await;
    raw.run::<()>(&format!("SET {{k}}:{java}:rwlock_timeout:1 1 PX 20000")).await;
    raw.run::<()>("PEXPIRE k 30000").await;
    for claim in [read(owner(), 1), write(owner(), 1)] {
        assert!(busy_for(store.acquire(&claim).await.unwrap()) > 20_000);
    }
    // It unlocks the write and reads on, which Redisson calls out to nobody.
    raw.run::<()>(&format!("HDEL k {java}:write")).await;
    raw.run::<()>("HSET k mode read").await;
    assert_eq!(store.acquire(&read(owner(), 1)).await.unwrap(), ACQUIRED);
    assert!(is_busy(&store.acquire(&write(owner(), 1)).await.unwrap()));
}
