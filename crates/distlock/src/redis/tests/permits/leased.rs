//! `leased_semaphore`: redisson-protocol §9.

use super::*;
use crate::redis::tests::server::eventually;
use crate::store::machine::permits::FOREVER;
use crate::store::{LeasedOp, PermitId};

const CHANNEL: &str = "redisson_sc:{s}";
const OUT: &str = "{s}:timeout";

fn some(count: u32) -> ClaimKind {
    ClaimKind::LeasedPermits { count, initial: None }
}

fn op(op: LeasedOp) -> Admin {
    Admin::Leased(op)
}

/// The permits that are out, each with when it expires.
async fn out(raw: &mut Raw) -> Vec<(Vec<u8>, f64)> {
    raw.run(&format!("ZRANGE {OUT} 0 -1 WITHSCORES")).await
}

async fn now(raw: &mut Raw) -> f64 {
    let (seconds, micros): (f64, f64) = raw.run("TIME").await;
    seconds * 1000.0 + (micros / 1000.0).floor()
}

fn brief(claim: &Claim) -> Claim {
    Claim { lease: Duration::from_millis(1), ..claim.clone() }
}

/// Waits until this permit has expired.
async fn expired(store: &dyn Store, id: PermitId) {
    eventually("expired", async || {
        store.admin("s", &op(LeasedOp::Remaining(id))).await.unwrap() == -2
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_leased_semaphore_is_redissons_number_and_sorted_set() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let (me, other) = (owner(), owner());
    let mine = claim("s", me, some(3));
    assert_eq!(store.admin("s", &op(LeasedOp::Init(5))).await.unwrap(), 1);
    assert_eq!(store.admin("s", &op(LeasedOp::Init(5))).await.unwrap(), 0);
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(ear.heard(&mut raw).await, ["5"]);

    let mut ids: Vec<Vec<u8>> = PermitId::of(me, 3).map(|id| id.as_bytes().to_vec()).collect();
    ids.sort();
    for _ in 0..2 {
        let before = now(&mut raw).await;
        assert_eq!(store.acquire(&mine).await.unwrap(), TAKEN);
        assert_eq!(raw.run::<String>("GET s").await, "2");
        let found = out(&mut raw).await;
        assert_eq!(found.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);
        let after = now(&mut raw).await;
        let due = before + 30_000.0..=after + 30_000.0;
        assert!(found.iter().all(|(_, at)| due.contains(at)), "{found:?} not in {due:?}");
    }
    assert_eq!(keys(&mut raw).await, ["s", OUT]);
    assert_eq!(raw.run::<i64>(&format!("PTTL {OUT}")).await, -1);
    let ttl = busy(store.acquire(&claim("s", other, some(3))).await.unwrap());
    assert!(ttl > Duration::from_secs(20) && ttl <= Duration::from_secs(30), "{ttl:?}");

    let seen = store.inspect(some(1), "s").await.unwrap();
    assert_eq!((seen.count, seen.holders.len()), (Some(2), 3));
    assert_eq!(seen.holders[0].owner.len(), 32);
    assert!(seen.ttl.unwrap() > Duration::from_secs(20));
    assert!(ear.heard(&mut raw).await.is_empty());

    let given = Released::Freed { heard_by: 1 };
    assert_eq!(store.release(&mine).await.unwrap(), given);
    assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(raw.run::<String>("GET s").await, "5");
    assert_eq!(ear.heard(&mut raw).await, ["5"]);

    store.acquire(&mine).await.unwrap();
    assert_eq!(store.admin("s", &op(LeasedOp::Delete)).await.unwrap(), 1);
    assert!(keys(&mut raw).await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_has_expired_comes_back_once_and_is_called_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let (me, other) = (owner(), owner());
    raw.run::<()>("SET s 2").await;
    let mine = claim("s", me, some(2));
    store.acquire(&brief(&mine)).await.unwrap();
    let ids: Vec<PermitId> = PermitId::of(me, 2).collect();
    expired(&*store, ids[0]).await;

    // Questions see it, and write nothing.
    assert_eq!(store.admin("s", &op(LeasedOp::Available)).await.unwrap(), 2);
    assert_eq!(store.admin("s", &op(LeasedOp::Acquired)).await.unwrap(), 0);
    let seen = store.inspect(some(1), "s").await.unwrap();
    assert_eq!((seen.count, seen.holders.len(), seen.ttl), (Some(2), 0, None));
    assert_eq!(out(&mut raw).await.len(), 2);

    assert!(!store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
    assert_eq!(store.admin("s", &op(LeasedOp::Release(ids.clone()))).await.unwrap(), 0);
    assert_eq!(store.admin("s", &op(LeasedOp::Extend(ids[0], 60_000))).await.unwrap(), 0);
    assert_eq!(out(&mut raw).await.len(), 2);
    assert!(ear.heard(&mut raw).await.is_empty());

    assert_eq!(store.acquire(&claim("s", other, some(1))).await.unwrap(), TAKEN);
    assert_eq!(ear.heard(&mut raw).await, ["2"]);
    assert_eq!(raw.run::<String>("GET s").await, "1");
    assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
    assert_eq!(raw.run::<String>("GET s").await, "1");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_hold_that_is_partly_gone_is_not_held_and_its_rest_comes_back() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let mine = claim("s", me, some(3));
    raw.run::<()>("SET s 3").await;
    store.acquire(&mine).await.unwrap();
    let first: Vec<PermitId> = PermitId::of(me, 1).collect();
    assert_eq!(store.admin("s", &op(LeasedOp::Release(first.clone()))).await.unwrap(), 1);
    assert_eq!(store.admin("s", &op(LeasedOp::Release(first))).await.unwrap(), 0);
    assert!(!store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
    for _ in 0..2 {
        assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
        assert_eq!(raw.run::<String>("GET s").await, "3");
    }
    assert_eq!(keys(&mut raw).await, ["s"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_permanent_permit_of_java_is_out_for_ever() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET s 0").await;
    raw.run::<()>(&format!("ZADD {OUT} 922337203685477 sixteen.bytes.id")).await;
    let ttl = busy(store.acquire(&claim("s", owner(), some(1))).await.unwrap());
    assert_eq!(ttl, FOREVER);
    let id = PermitId::from_bytes(*b"sixteen.bytes.id");
    assert_eq!(store.admin("s", &op(LeasedOp::Remaining(id))).await.unwrap(), -1);
    assert_eq!(store.inspect(some(1), "s").await.unwrap().ttl, None);
    assert_eq!(store.admin("s", &op(LeasedOp::Extend(id, 60_000))).await.unwrap(), 1);
    let left = store.admin("s", &op(LeasedOp::Remaining(id))).await.unwrap();
    assert!((50_000..=60_000).contains(&left), "{left}");
    assert_eq!(store.admin("s", &op(LeasedOp::Release(vec![id]))).await.unwrap(), 1);
    assert_eq!(store.admin("s", &op(LeasedOp::Remaining(id))).await.unwrap(), -2);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_number_can_be_set_and_changed_while_permits_are_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    let admin = async |o| store.admin("s", &op(o)).await.unwrap();
    assert_eq!(admin(LeasedOp::Set(3)).await, 3);
    store.acquire(&claim("s", owner(), some(2))).await.unwrap();
    for _ in 0..2 {
        assert_eq!(admin(LeasedOp::Set(7)).await, 5);
    }
    assert_eq!(admin(LeasedOp::Set(1)).await, -1);
    assert_eq!(admin(LeasedOp::Add(2)).await, 1);
    assert_eq!((admin(LeasedOp::Available).await, admin(LeasedOp::Acquired).await), (1, 2));
    assert_eq!(ear.heard(&mut raw).await, ["3", "5", "1"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_time_to_live_that_java_gave_holds_for_the_permits_too() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET s 5 PX 60000").await;
    store.acquire(&claim("s", owner(), some(1))).await.unwrap();
    assert!(raw.run::<i64>(&format!("PTTL {OUT}")).await > 50_000);
    store.admin("s", &op(LeasedOp::Set(9))).await.unwrap();
    assert!(raw.run::<i64>("PTTL s").await > 50_000);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn permits_go_with_the_number_they_were_taken_from() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mine = claim("s", owner(), some(2));
    for o in [None, Some(LeasedOp::Init(3)), Some(LeasedOp::Set(3)), Some(LeasedOp::Add(3))] {
        raw.run::<()>("SET s 5").await;
        store.acquire(&mine).await.unwrap();
        raw.run::<()>("DEL s").await;
        assert!(!store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
        assert!(!store.inspect(some(1), "s").await.unwrap().is_held());
        match o {
            Some(o) => drop(store.admin("s", &op(o)).await.unwrap()),
            None => {
                let what = ClaimKind::LeasedPermits { count: 1, initial: Some(4) };
                assert_eq!(store.acquire(&claim("s", owner(), what)).await.unwrap(), TAKEN);
            }
        }
        assert_eq!(store.release(&mine).await.unwrap(), Released::NotHeld);
        assert_eq!(store.admin("s", &op(LeasedOp::Available)).await.unwrap(), 3);
        store.admin("s", &op(LeasedOp::Delete)).await.unwrap();
        assert!(keys(&mut raw).await.is_empty());
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn thousands_of_permits_at_once_are_no_trouble() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (many, me) = (9_500, owner());
    let mine = claim("s", me, some(many));
    raw.run::<()>(&format!("SET s {many}")).await;
    assert_eq!(store.acquire(&mine).await.unwrap(), TAKEN);
    assert_eq!(store.acquire(&mine).await.unwrap(), TAKEN);
    assert_eq!(raw.run::<String>("GET s").await, "0");
    assert_eq!(out(&mut raw).await.len(), many as usize);
    assert!(store.renew(std::slice::from_ref(&mine)).await.remove(0).unwrap().is_held());
    let ids: Vec<PermitId> = PermitId::of(me, many).collect();
    assert_eq!(
        store.admin("s", &op(LeasedOp::Release(ids.clone()))).await.unwrap(),
        i64::from(many)
    );
    assert_eq!(raw.run::<String>("GET s").await, many.to_string());

    // As many that have expired come back in several steps; a waiter is told to ask again at once.
    store.acquire(&brief(&mine)).await.unwrap();
    expired(&*store, ids[0]).await;
    let other = claim("s", owner(), some(many));
    let mut steps = 1;
    while let Attempt::Busy { ttl } = store.acquire(&other).await.unwrap() {
        assert_eq!(ttl, Duration::ZERO);
        steps += 1;
    }
    assert_eq!(steps, 10);
    assert_eq!(store.release(&other).await.unwrap(), Released::Freed { heard_by: 0 });
    assert_eq!(raw.run::<String>("GET s").await, many.to_string());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn force_takes_back_everything() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let mut ear = Ear::on(&server, CHANNEL).await;
    raw.run::<()>("SET s 5").await;
    let (gone, held) = (claim("s", owner(), some(1)), claim("s", owner(), some(2)));
    // In this order: an acquisition takes back what has expired, and calls it out.
    store.acquire(&held).await.unwrap();
    store.acquire(&brief(&gone)).await.unwrap();
    expired(&*store, PermitId::of(gone.owner, 1).next().unwrap()).await;
    let before = store.force(some(1), "s").await.unwrap();
    assert_eq!((before.count, before.holders.len()), (Some(3), 2));
    assert!(before.ttl.unwrap() > Duration::from_secs(20));
    assert_eq!(raw.run::<String>("GET s").await, "5");
    assert_eq!(keys(&mut raw).await, ["s"]);
    assert_eq!(ear.heard(&mut raw).await, ["5"]);
    assert!(!store.renew(&[held]).await.remove(0).unwrap().is_held());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_leased_semaphore_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("SET text x").await;
    raw.run::<()>("SET timeouts 5").await;
    raw.run::<()>("SET {timeouts}:timeout x").await;
    let id = PermitId::from_bytes([1; 16]);
    let ops = [
        LeasedOp::Set(1),
        LeasedOp::Add(1),
        LeasedOp::Available,
        LeasedOp::Acquired,
        LeasedOp::Release(vec![id]),
        LeasedOp::Extend(id, 1000),
        LeasedOp::Remaining(id),
    ];
    are_conflicts((&*store, &mut raw), some, &["hash", "text", "timeouts"], &ops.map(op)).await;
    let ops = [LeasedOp::Init(1), LeasedOp::Delete];
    are_conflicts((&*store, &mut raw), some, &["hash", "text"], &ops.map(op)).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn renewals_answer_each_claim_for_itself() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let claims: Vec<Claim> =
        (0..150).map(|i| claim(&format!("s{i}"), me, some(1 + i % 3))).collect();
    for claim in &claims {
        store.admin(&claim.name, &op(LeasedOp::Init(3))).await.unwrap();
        let short = Claim { lease: Duration::from_secs(20), ..claim.clone() };
        store.acquire(&short).await.unwrap();
    }
    store.release(&claims[7]).await.unwrap();
    raw.run::<()>("SET {s120}:timeout foreign").await;
    for (i, answer) in store.renew(&claims).await.into_iter().enumerate() {
        assert_eq!(answer.unwrap().is_held(), i != 7 && i != 120, "s{i}");
    }
    let id = PermitId::of(me, 3).last().unwrap();
    assert!(store.admin("s149", &op(LeasedOp::Remaining(id))).await.unwrap() > 20_000);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn permits_come_back_to_a_server_that_is_out_of_memory() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    two_come_back_without_memory((&*store, &mut raw), some).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_permission_that_is_missing_half_way_costs_no_permit() {
    let can = "+time +pttl +zcount +zscore +zmscore +zadd +zrem";
    a_permission_is_missing_half_way(some, can, OUT).await;
}
