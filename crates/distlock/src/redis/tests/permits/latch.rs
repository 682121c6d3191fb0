//! `latch`: redisson-protocol §10.

use super::*;
use crate::redis::tests::server::{Server, connect, owner};
use crate::store::machine::permits::FOREVER;
use crate::store::{Admin, LatchOp, Released, Store};

const CHANNEL: &str = "redisson_countdownlatch__channel__{l}";

fn op(op: LatchOp) -> Admin {
    Admin::Latch(op)
}

fn count_down() -> Admin {
    op(LatchOp::CountDown { request: owner() })
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_latch_is_redissons_number() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let wait = claim("l", owner(), ClaimKind::LatchOpen);
    assert_eq!(store.acquire(&wait).await.unwrap(), TAKEN);
    assert_eq!(store.admin("l", &op(LatchOp::Init(2))).await.unwrap(), 1);
    assert_eq!(store.admin("l", &op(LatchOp::Init(5))).await.unwrap(), 0);
    assert_eq!(keys(&mut raw).await, ["l"]);
    assert_eq!(raw.run::<String>("GET l").await, "2");
    assert_eq!(ear.heard(&mut raw).await, ["1"]);

    assert_eq!(busy(store.acquire(&wait).await.unwrap()), FOREVER);
    assert_eq!(store.admin("l", &count_down()).await.unwrap(), 1);
    assert_eq!(raw.run::<String>("GET l").await, "1");
    assert_eq!(store.admin("l", &op(LatchOp::Count)).await.unwrap(), 1);
    assert_eq!(store.inspect(ClaimKind::LatchOpen, "l").await.unwrap().count, Some(1));
    assert!(ear.heard(&mut raw).await.is_empty());

    assert_eq!(store.admin("l", &count_down()).await.unwrap(), 0);
    assert!(!raw.run::<bool>("EXISTS l").await);
    assert_eq!(ear.heard(&mut raw).await, ["0"]);
    assert_eq!(store.acquire(&wait).await.unwrap(), TAKEN);
    assert_eq!(store.admin("l", &count_down()).await.unwrap(), 0);
    assert_eq!(store.admin("l", &op(LatchOp::Count)).await.unwrap(), 0);
    assert!(ear.heard(&mut raw).await.is_empty());
    assert_eq!(store.release(&wait).await.unwrap(), Released::NotHeld);
    assert!(!store.renew(&[wait]).await.remove(0).unwrap().is_held());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_count_down_that_is_sent_again_counts_once() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (first, last) = (count_down(), count_down());
    store.admin("l", &op(LatchOp::Init(2))).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.admin("l", &first).await.unwrap(), 1);
    }
    for _ in 0..2 {
        assert_eq!(store.admin("l", &last).await.unwrap(), 0);
    }
    assert_eq!(store.admin("l", &first).await.unwrap(), 1);
    // Nor for the next latch of that name.
    store.admin("l", &op(LatchOp::Init(7))).await.unwrap();
    assert_eq!(store.admin("l", &first).await.unwrap(), 1);
    assert_eq!(store.admin("l", &last).await.unwrap(), 0);
    assert_eq!(store.admin("l", &op(LatchOp::Count)).await.unwrap(), 7);
    assert_eq!(store.admin("l", &op(LatchOp::Delete)).await.unwrap(), 1);

    // What is remembered goes by itself, or when its answer has arrived.
    let remembered = keys(&mut raw).await;
    assert_eq!(remembered.len(), 2);
    for key in remembered {
        assert!(key.starts_with("{l}:distlock_counted:"), "{key}");
        let ttl = raw.run::<i64>(&format!("PTTL {key}")).await;
        assert!((50_000..=60_000).contains(&ttl), "{ttl}");
    }
    for done in [first, last] {
        let Admin::Latch(LatchOp::CountDown { request }) = done else { unreachable!() };
        let forget = op(LatchOp::Forget { request });
        assert_eq!(store.admin("l", &forget).await.unwrap(), 1);
        assert_eq!(store.admin("l", &forget).await.unwrap(), 0);
    }
    assert!(keys(&mut raw).await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_latch_that_goes_away_is_open_and_called_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let admin = async |o| store.admin("l", &op(o)).await.unwrap();
    assert_eq!(admin(LatchOp::Delete).await, 0);
    assert_eq!(admin(LatchOp::Reset(3)).await, 0);
    assert_eq!(admin(LatchOp::Reset(4)).await, 3);
    assert_eq!(admin(LatchOp::Reset(0)).await, 4);
    assert_eq!(admin(LatchOp::Reset(0)).await, 0);
    assert_eq!(ear.heard(&mut raw).await, ["1", "1", "0"]);
    assert_eq!(admin(LatchOp::Init(0)).await, 1);
    assert!(keys(&mut raw).await.is_empty());
    assert!(ear.heard(&mut raw).await.is_empty());

    assert_eq!(admin(LatchOp::Init(3)).await, 1);
    assert_eq!(admin(LatchOp::Delete).await, 1);
    // What Redisson says, and what lets those who wait go; in this order, see the script.
    assert_eq!(ear.heard(&mut raw).await, ["1", "1", "0"]);
    assert_eq!(admin(LatchOp::Init(3)).await, 1);
    assert_eq!(store.force(ClaimKind::LatchOpen, "l").await.unwrap().count, Some(3));
    assert_eq!(store.force(ClaimKind::LatchOpen, "l").await.unwrap().count, None);
    assert_eq!(ear.heard(&mut raw).await, ["1", "0"]);
    assert!(keys(&mut raw).await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_latch_that_java_left_at_zero_is_open() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    for zero in ["0", "-1"] {
        raw.run::<()>(&format!("SET l {zero}")).await;
        assert_eq!(store.acquire(&claim("l", owner(), ClaimKind::LatchOpen)).await.unwrap(), TAKEN);
        assert_eq!(store.admin("l", &op(LatchOp::Count)).await.unwrap(), 0);
        assert_eq!(store.admin("l", &count_down()).await.unwrap(), 0);
        assert!(keys(&mut raw).await.is_empty());
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_latch_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("SET text x").await;
    for name in ["hash", "text"] {
        let before: Vec<u8> = raw.run(&format!("DUMP {name}")).await;
        is_conflict(store.acquire(&claim(name, owner(), ClaimKind::LatchOpen)).await.unwrap_err());
        is_conflict(store.inspect(ClaimKind::LatchOpen, name).await.unwrap_err());
        is_conflict(store.force(ClaimKind::LatchOpen, name).await.unwrap_err());
        is_conflict(store.admin(name, &count_down()).await.unwrap_err());
        for o in [LatchOp::Init(1), LatchOp::Count, LatchOp::Reset(1), LatchOp::Delete] {
            is_conflict(store.admin(name, &op(o)).await.unwrap_err());
        }
        assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {name}")).await, before, "{name}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_permission_that_is_missing_half_way_counts_nothing() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = "+hello +evalsha +script|load +get ~*";
    raw.run::<()>(&format!("ACL SETUSER mute on >word -@all {can} +decr +del")).await;
    raw.run::<()>(&format!("ACL SETUSER still on >word -@all {can} +set +del")).await;
    for (user, counts) in [("mute", &["1", "2"][..]), ("still", &["2"])] {
        let url = format!("redis://{user}:word@127.0.0.1:{}", server.port());
        let store = connect(&url).await.unwrap();
        for count in counts {
            raw.run::<()>(&format!("SET l {count}")).await;
            let error = store.admin("l", &count_down()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert_eq!(keys(&mut raw).await, ["l"]);
            assert_eq!(raw.run::<String>("GET l").await, *count);
        }
    }
}
