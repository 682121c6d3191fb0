//! What a simple lock leaves on the server: what redis-py's `Lock`, redsync and node-redlock leave there.

use std::time::Duration;

use super::one_owner::{self, ACQUIRED, FREED, are_conflicts};
use super::server::{Server, claim as exclusive, connect, owner};
use crate::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Holder, Released, Store};

fn claim(name: &str, owner: Owner, depth: u32) -> Claim {
    Claim { kind: ClaimKind::Simple, ..exclusive(name, owner, depth) }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_key_is_the_owner_with_a_time_to_live_and_nothing_else_is_left() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());

    for depth in [1, 1, 2, 3] {
        assert_eq!(store.acquire(&claim("k", me, depth)).await.unwrap(), ACQUIRED);
        assert_eq!(raw.run::<String>("GET k").await, me.to_string());
        assert!((20_000..=30_000).contains(&raw.run::<i64>("PTTL k").await));
    }
    let Attempt::Busy { ttl } = store.acquire(&claim("k", other, 1)).await.unwrap() else {
        panic!("two holders");
    };
    assert!(ttl > Duration::from_secs(20) && ttl <= Duration::from_secs(30));
    assert_eq!(raw.run::<Vec<String>>("KEYS *").await, ["k"]);

    assert_eq!(store.release(&claim("k", other, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&claim("k", me, 2)).await.unwrap(), Released::StillHeld);
    assert_eq!(raw.run::<String>("GET k").await, me.to_string());
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), FREED);
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), Released::NotHeld);
    assert!(raw.run::<Vec<String>>("KEYS *").await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_lost_hold_cannot_be_reentered_and_passes_only_from_the_one_it_is_inherited_from() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (first, second, third) = (owner(), owner(), owner());
    let heir = |me, before| Claim { heir_of: Some(before), ..claim("k", me, 1) };
    let nothing = Attempt::Busy { ttl: Duration::ZERO };

    assert_eq!(store.acquire(&claim("k", first, 2)).await.unwrap(), nothing);
    assert_eq!(store.acquire(&heir(second, first)).await.unwrap(), nothing);
    assert!(!raw.run::<bool>("EXISTS k").await);

    store.acquire(&claim("k", first, 1)).await.unwrap();
    let refused = store.acquire(&heir(third, second)).await.unwrap();
    assert!(matches!(refused, Attempt::Busy { ttl } if ttl > Duration::from_secs(20)));
    raw.run::<()>("PEXPIRE k 10000").await;
    for _ in 0..2 {
        assert_eq!(store.acquire(&heir(second, first)).await.unwrap(), ACQUIRED);
        assert_eq!(raw.run::<String>("GET k").await, second.to_string());
        assert!(raw.run::<i64>("PTTL k").await > 20_000);
    }
    assert_eq!(store.release(&claim("k", first, 0)).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn renewals_answer_each_claim_for_itself() {
    let spoil = ["SET k8 foreign PX 5000", "RPUSH k120 foreign"];
    one_owner::renewals_answer_each_claim_for_itself(ClaimKind::Simple, &spoil).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_lock_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET string x").await;
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("RPUSH list x").await;
    store.acquire(&exclusive("mutex", owner(), 1)).await.unwrap();
    are_conflicts(&*store, &mut raw, ClaimKind::Simple, &["string", "hash", "list", "mutex"]).await;
    // And the other way round.
    store.acquire(&claim("simple", owner(), 1)).await.unwrap();
    are_conflicts(&*store, &mut raw, ClaimKind::Exclusive, &["simple"]).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn inspect_and_force_see_a_foreign_holder() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET k 5f4dcc3b5aa765d61d8327deb882cf99 PX 60000").await;
    let seen = store.inspect(ClaimKind::Simple, "k").await.unwrap();
    assert_eq!(seen.holders, [Holder::new("5f4dcc3b5aa765d61d8327deb882cf99", 1)]);
    assert!(seen.ttl.unwrap() > Duration::from_secs(50));
    assert_eq!(store.force(ClaimKind::Simple, "k").await.unwrap().holders, seen.holders);
    assert!(!store.force(ClaimKind::Simple, "k").await.unwrap().is_held());
    assert!(!raw.run::<bool>("EXISTS k").await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn nobody_is_told_of_a_release_and_nobody_needs_the_permission() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = "+hello +evalsha +script|load +set +get +pexpire +pttl +del ~*";
    raw.run::<()>(&format!("ACL SETUSER quiet on >word -@all {can}")).await;
    let url = format!("redis://quiet:word@127.0.0.1:{}", server.port());
    let (store, me) = (connect(&url).await.unwrap(), owner());
    assert_eq!(store.acquire(&claim("k", me, 1)).await.unwrap(), ACQUIRED);
    assert!(store.renew(&[claim("k", me, 1)]).await.remove(0).unwrap().is_held());
    assert!(store.inspect(ClaimKind::Simple, "k").await.unwrap().is_held());
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), FREED);
    assert_eq!(store.acquire(&claim("k", me, 1)).await.unwrap(), ACQUIRED);
    assert!(store.force(ClaimKind::Simple, "k").await.unwrap().is_held());
    let stats: String = raw.run("INFO commandstats").await;
    assert!(!stats.contains("cmdstat_publish") && !stats.contains("cmdstat_subscribe"), "{stats}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_stops_acquiring_but_nothing_else() {
    one_owner::out_of_memory_stops_acquiring_but_nothing_else(ClaimKind::Simple).await;
}
