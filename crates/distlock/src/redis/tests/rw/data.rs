//! Fields, keys and messages.

use super::super::server::{Server, owner};
use super::{ACQUIRED, LEFT, Messages, WRITE, fields, hold, is_busy, read, write};
use crate::store::{Claim, ClaimKind, Holder, Mode, Released, Store};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_read_hold_is_a_field_and_a_key_of_its_own() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());
    let (mine, others) = (me.to_string(), other.to_string());

    for (depth, keys) in [(1, 1), (1, 1), (2, 2), (2, 2)] {
        assert_eq!(store.acquire(&read(me, depth)).await.unwrap(), ACQUIRED);
        let expected = fields([("mode", "read"), (&mine, &depth.to_string())]);
        assert_eq!(raw.hash().await, expected);
        let mut expected: Vec<String> = (1..=keys).map(|n| hold(me, n)).collect();
        expected.insert(0, "k".to_owned());
        expected.sort();
        assert_eq!(raw.all_keys().await, expected);
        for key in expected {
            assert!(raw.ttl(&key).await > 20_000);
        }
        assert_eq!(raw.run::<String>(&format!("GET {}", hold(me, depth))).await, "1");
    }
    assert_eq!(store.acquire(&read(other, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&mine, "2"), (&others, "1")]));
    assert!(is_busy(&store.acquire(&write(owner(), 1)).await.unwrap()));

    for _ in 0..2 {
        assert_eq!(store.release(&read(me, 1)).await.unwrap(), Released::StillHeld);
        assert_eq!(raw.hash().await, fields([("mode", "read"), (&mine, "1"), (&others, "1")]));
        assert!(!raw.run::<bool>(&format!("EXISTS {}", hold(me, 2))).await);
    }
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), LEFT);
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&read(me, 1)).await.unwrap(), Released::NotHeld);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&others, "1")]));
    assert_eq!(store.release(&read(other, 0)).await.unwrap(), LEFT);
    assert!(raw.all_keys().await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_write_hold_is_a_field_of_its_own() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());
    let mine = format!("{me}:write");

    for depth in [1, 1, 2, 2] {
        assert_eq!(store.acquire(&write(me, depth)).await.unwrap(), ACQUIRED);
        assert_eq!(raw.hash().await, fields([("mode", "write"), (&mine, &depth.to_string())]));
    }
    assert_eq!(raw.all_keys().await, ["k"]);
    assert!(is_busy(&store.acquire(&write(other, 1)).await.unwrap()));
    assert!(is_busy(&store.acquire(&read(other, 1)).await.unwrap()));
    assert_eq!(store.release(&write(other, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&write(me, 1)).await.unwrap(), Released::StillHeld);
    assert_eq!(raw.hash().await, fields([("mode", "write"), (&mine, "1")]));
    assert_eq!(store.release(&write(me, 0)).await.unwrap(), LEFT);
    assert_eq!(store.release(&write(me, 0)).await.unwrap(), Released::NotHeld);
    assert!(raw.all_keys().await.is_empty());
}

/// Redisson: testName.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_name_with_a_tag_keeps_it_in_the_keys_of_its_holds() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let claim = Claim { name: "{test}:abc:key".into(), ..read(me, 1) };
    store.acquire(&claim).await.unwrap();
    let expected = [format!("{{test}}:abc:key:{me}:rwlock_timeout:1"), "{test}:abc:key".to_owned()];
    let mut keys = raw.all_keys().await;
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    assert_eq!(keys, expected);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn every_end_is_called_out_as_redisson_does_and_a_downgrade_too() {
    let server = Server::start().await;
    let (store, me, other) = (server.store().await, owner(), owner());
    let channel = "redisson_rwlock:{k}";
    let mut messages = Messages::of(&server, channel).await;
    let heard = Released::Freed { heard_by: 1 };

    store.acquire(&read(me, 1)).await.unwrap();
    store.acquire(&read(other, 1)).await.unwrap();
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), LEFT); // nobody is told: one reads on
    assert_eq!(store.release(&read(other, 0)).await.unwrap(), heard);
    assert_eq!(messages.next(channel).await, "0");

    store.acquire(&write(me, 1)).await.unwrap();
    assert_eq!(store.release(&write(me, 0)).await.unwrap(), heard);
    assert_eq!(messages.next(channel).await, "1");

    store.acquire(&write(me, 1)).await.unwrap();
    store.acquire(&read(me, 1)).await.unwrap();
    assert_eq!(store.release(&write(me, 0)).await.unwrap(), heard);
    assert_eq!(messages.next(channel).await, "1");
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), heard);
    assert_eq!(messages.next(channel).await, "0");

    store.acquire(&read(me, 1)).await.unwrap();
    store.force(ClaimKind::Read, "k").await.unwrap();
    assert_eq!(messages.next(channel).await, "0");
    store.acquire(&write(me, 1)).await.unwrap();
    store.force(WRITE, "k").await.unwrap();
    assert_eq!(messages.next(channel).await, "1");
}

/// Redisson: testWR, testWriteReadReentrancy.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_writer_may_read_and_go_on_reading() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());
    let (mine, writes) = (me.to_string(), format!("{me}:write"));

    store.acquire(&write(me, 1)).await.unwrap();
    assert_eq!(store.acquire(&read(me, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.hash().await, fields([("mode", "write"), (&writes, "1"), (&mine, "1")]));
    assert!(is_busy(&store.acquire(&read(other, 1)).await.unwrap()));

    assert_eq!(store.release(&write(me, 0)).await.unwrap(), LEFT);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&mine, "1")]));
    assert_eq!(store.acquire(&read(other, 1)).await.unwrap(), ACQUIRED);
    // But not the other way round.
    assert!(is_busy(&store.acquire(&write(me, 1)).await.unwrap()));
    store.release(&read(other, 0)).await.unwrap();
    assert!(is_busy(&store.acquire(&write(me, 1)).await.unwrap()));
    store.release(&read(me, 0)).await.unwrap();
    assert!(raw.all_keys().await.is_empty());

    // Reading may end first.
    store.acquire(&write(me, 1)).await.unwrap();
    store.acquire(&read(me, 1)).await.unwrap();
    assert_eq!(store.release(&read(me, 0)).await.unwrap(), LEFT);
    assert_eq!(raw.hash().await, fields([("mode", "write"), (&writes, "1")]));
    assert_eq!(raw.all_keys().await, ["k"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_snapshot_shows_who_is_there_and_how() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other, dead) = (owner(), owner(), owner());
    let holder =
        |owner: crate::Owner, depth, mode| Holder::with_mode(owner.to_string(), depth, mode);

    assert!(!store.inspect(ClaimKind::Read, "k").await.unwrap().is_held());
    store.acquire(&read(me, 1)).await.unwrap();
    store.acquire(&read(me, 2)).await.unwrap();
    for reader in [dead, other] {
        store.acquire(&read(reader, 1)).await.unwrap();
    }
    raw.run::<()>(&format!("DEL {}", hold(dead, 1))).await;
    for what in [ClaimKind::Read, WRITE] {
        let seen = store.inspect(what, "k").await.unwrap();
        let expected = [holder(me, 2, Mode::Read), holder(other, 1, Mode::Read)];
        assert_eq!(seen.holders, expected);
        assert!(seen.ttl.unwrap().as_millis() > 20_000);
    }
    for reader in [me, other] {
        store.release(&read(reader, 0)).await.unwrap();
    }

    store.acquire(&write(me, 1)).await.unwrap();
    store.acquire(&read(me, 1)).await.unwrap();
    let seen = store.inspect(ClaimKind::Read, "k").await.unwrap();
    assert_eq!(seen.holders, [holder(me, 1, Mode::Write), holder(me, 1, Mode::Read)]);
}

/// Redisson: testForceUnlock.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn force_frees_the_half_it_is_told_to_and_leaves_nothing_behind() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());

    store.acquire(&read(me, 1)).await.unwrap();
    store.acquire(&read(me, 2)).await.unwrap();
    store.acquire(&read(other, 1)).await.unwrap();
    assert!(!store.force(WRITE, "k").await.unwrap().is_held());
    assert_eq!(raw.all_keys().await.len(), 4);
    assert_eq!(store.force(ClaimKind::Read, "k").await.unwrap().depth_of(&me), 2);
    assert!(raw.all_keys().await.is_empty());
    assert!(!store.force(ClaimKind::Read, "k").await.unwrap().is_held());

    store.acquire(&write(me, 1)).await.unwrap();
    store.acquire(&read(me, 1)).await.unwrap();
    assert!(!store.force(ClaimKind::Read, "k").await.unwrap().is_held());
    assert_eq!(raw.all_keys().await.len(), 2);
    assert_eq!(store.force(WRITE, "k").await.unwrap().holders.len(), 2);
    assert!(raw.all_keys().await.is_empty());
}
