//! `semaphore`: redisson-protocol §8.

use super::*;
use crate::store::machine::permits::FOREVER;
use crate::store::{Holder, Mode, PermitsOp};

const CHANNEL: &str = "redisson_sc:{s}";
const OUT: &str = "{s}:distlock_permits";

fn some(count: u32) -> ClaimKind {
    ClaimKind::Permits { count, initial: None }
}

fn op(op: PermitsOp) -> Admin {
    Admin::Permits(op)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_semaphore_is_redissons_number_and_a_register_beside_it() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let (me, other) = (owner(), owner());

    assert_eq!(store.admin("s", &op(PermitsOp::Init(5))).await.unwrap(), 1);
    assert_eq!(store.admin("s", &op(PermitsOp::Init(9))).await.unwrap(), 0);
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(raw.run::<String>("GET s").await, "5");
    assert_eq!(ear.heard(&mut raw).await, ["5"]);

    for _ in 0..2 {
        assert_eq!(store.acquire(&claim("s", me, some(3))).await.unwrap(), TAKEN);
        assert_eq!(raw.run::<String>("GET s").await, "2");
        assert_eq!(keys(&mut raw).await, ["s", OUT]);
        assert_eq!(raw.run::<String>(&format!("HGET {OUT} {me}")).await, "3");
        assert_eq!(raw.run::<i64>(&format!("PTTL {OUT}")).await, -1);
    }
    assert_eq!(busy(store.acquire(&claim("s", other, some(3))).await.unwrap()), FOREVER);
    assert_eq!(raw.run::<String>("GET s").await, "2");
    let seen = store.inspect(some(1), "s").await.unwrap();
    assert_eq!(seen.holders, [Holder::with_mode(me.to_string(), 3, Mode::Permits)]);
    assert_eq!((seen.count, seen.ttl), (Some(2), None));
    assert!(ear.heard(&mut raw).await.is_empty());

    let given = Released::Freed { heard_by: 1 };
    assert_eq!(store.release(&claim("s", me, some(3))).await.unwrap(), given);
    assert_eq!(store.release(&claim("s", me, some(3))).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&claim("s", other, some(3))).await.unwrap(), Released::NotHeld);
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(raw.run::<String>("GET s").await, "5");
    assert_eq!(ear.heard(&mut raw).await, ["5"]);

    assert_eq!(store.admin("s", &op(PermitsOp::Delete)).await.unwrap(), 1);
    assert_eq!(store.admin("s", &op(PermitsOp::Delete)).await.unwrap(), 0);
    assert!(keys(&mut raw).await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_first_acquisition_can_say_how_many_permits_there_are() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let of_two = |count| ClaimKind::Permits { count, initial: Some(2) };
    assert_eq!(busy(store.acquire(&claim("s", owner(), some(1))).await.unwrap()), FOREVER);
    assert!(keys(&mut raw).await.is_empty());
    assert_eq!(busy(store.acquire(&claim("s", owner(), of_two(3))).await.unwrap()), FOREVER);
    assert_eq!(raw.run::<String>("GET s").await, "2");
    assert_eq!(store.acquire(&claim("s", owner(), of_two(1))).await.unwrap(), TAKEN);
    assert_eq!(raw.run::<String>("GET s").await, "1");
    assert_eq!(ear.heard(&mut raw).await, ["2"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn permits_are_counted_below_zero_but_negative_numbers_are_not_called_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let admin = async |o| store.admin("s", &op(o)).await.unwrap();
    assert_eq!(admin(PermitsOp::Available).await, 0);
    assert_eq!(admin(PermitsOp::Drain).await, 0);
    assert_eq!(admin(PermitsOp::ReleaseIfExists(2)).await, 0);
    assert!(keys(&mut raw).await.is_empty());
    assert_eq!(admin(PermitsOp::Release(2)).await, 2);
    assert_eq!(admin(PermitsOp::Add(-7)).await, -5);
    assert_eq!(admin(PermitsOp::Available).await, -5);
    assert_eq!(admin(PermitsOp::ReleaseIfExists(1)).await, 1);
    assert_eq!(admin(PermitsOp::Available).await, -4);
    assert_eq!(admin(PermitsOp::Add(10)).await, 6);
    assert_eq!(admin(PermitsOp::Drain).await, 6);
    assert_eq!(raw.run::<String>("GET s").await, "0");
    assert_eq!(admin(PermitsOp::Add(i64::MAX)).await, 999_999_999_999_999);
    assert_eq!(ear.heard(&mut raw).await, ["2", "6", "999999999999999"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_time_to_live_that_java_gave_stays() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET s 5 PX 60000").await;
    store.acquire(&claim("s", owner(), some(1))).await.unwrap();
    for o in [PermitsOp::Add(2), PermitsOp::Release(1), PermitsOp::Drain] {
        store.admin("s", &op(o)).await.unwrap();
        assert!(raw.run::<i64>("PTTL s").await > 50_000, "{o:?}");
    }
    assert!(store.inspect(some(1), "s").await.unwrap().ttl.is_some());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn permits_go_with_the_number_they_were_taken_from() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut take = async |me| {
        raw.run::<()>("SET s 5").await;
        let mine = claim("s", me, some(2));
        assert_eq!(store.acquire(&mine).await.unwrap(), TAKEN);
        assert!(store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
        // As Java's delete(), which knows of no register.
        raw.run::<()>("DEL s").await;
        assert!(!store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
        assert!(!store.inspect(some(1), "s").await.unwrap().is_held());
        mine
    };
    let mine = take(owner()).await;
    assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
    assert!(keys(&mut server.raw().await).await.is_empty());

    for o in [PermitsOp::Init(3), PermitsOp::Add(3), PermitsOp::Release(3)] {
        let mine = take(owner()).await;
        store.admin("s", &op(o)).await.unwrap();
        assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
        assert_eq!(store.admin("s", &op(PermitsOp::Available)).await.unwrap(), 3);
        store.admin("s", &op(PermitsOp::Delete)).await.unwrap();
    }
    let mine = take(owner()).await;
    let initial = ClaimKind::Permits { count: 1, initial: Some(3) };
    assert_eq!(store.acquire(&claim("s", owner(), initial)).await.unwrap(), TAKEN);
    assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
    assert_eq!(store.admin("s", &op(PermitsOp::Available)).await.unwrap(), 2);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn force_gives_back_what_is_known_to_be_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let (me, other) = (owner(), owner());
    raw.run::<()>("SET s 9").await;
    store.acquire(&claim("s", me, some(4))).await.unwrap();
    store.acquire(&claim("s", other, some(2))).await.unwrap();
    let before = store.force(some(1), "s").await.unwrap();
    assert_eq!((before.count, before.depth_of(&me), before.depth_of(&other)), (Some(3), 4, 2));
    assert_eq!(raw.run::<String>("GET s").await, "9");
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(ear.heard(&mut raw).await, ["9"]);
    assert_eq!(store.release(&claim("s", me, some(4))).await.unwrap(), Released::NotHeld);
    assert!(!store.force(some(1), "nothing").await.unwrap().is_held());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_semaphore_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("HSET hash field 1").await;
    for (name, text) in [("text", "x"), ("exp", "1e3"), ("hex", "0x10"), ("zero", "007")] {
        raw.run::<()>(&format!("SET {name} {text}")).await;
    }
    raw.run::<()>("SET long 999999999999999999").await;
    let names = ["hash", "text", "exp", "hex", "zero", "long"];
    let ops = [
        PermitsOp::Init(1),
        PermitsOp::Add(1),
        PermitsOp::Drain,
        PermitsOp::Available,
        PermitsOp::Release(1),
        PermitsOp::Delete,
    ];
    are_conflicts((&*store, &mut raw), some, &names, &ops.map(op)).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn renewals_answer_each_claim_for_itself() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let claims: Vec<Claim> = (0..150).map(|i| claim(&format!("s{i}"), me, some(1))).collect();
    for claim in &claims {
        store.admin(&claim.name, &op(PermitsOp::Init(1))).await.unwrap();
        store.acquire(claim).await.unwrap();
    }
    store.release(&claims[7]).await.unwrap();
    raw.run::<()>("SET {s120}:distlock_permits foreign").await;
    for (i, answer) in store.renew(&claims).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap().is_held(), i != 7 && i != 120, "s{i}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn permits_come_back_to_a_server_that_is_out_of_memory() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    two_come_back_without_memory((&*store, &mut raw), some).await;
    assert_eq!(store.admin("s", &op(PermitsOp::Release(1))).await.unwrap(), 6);
    assert_eq!(keys(&mut raw).await, ["s"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_permission_that_is_missing_half_way_costs_no_permit() {
    a_permission_is_missing_half_way(some, "+hsetnx +hset +hget +hdel +hexists", OUT).await;
}
