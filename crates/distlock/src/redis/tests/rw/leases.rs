//! How long holds last: everyone's own lease, and nobody else's.

use std::time::Duration;

use super::super::server::{Server, owner};
use super::{ACQUIRED, Attempt, LEFT, busy_for, fields, for_secs, hold, is_busy, read, write};
use crate::store::{Claim, Released, Store};

/// R#2144, R#1110, R#891.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_short_lease_does_not_shorten_anybody_elses() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (long, short) = (owner(), owner());

    store.acquire(&for_secs(read(long, 1), 600)).await.unwrap();
    store.acquire(&for_secs(read(short, 1), 50)).await.unwrap();
    assert!(raw.ttl("k").await > 590_000);
    assert!(raw.ttl(&hold(short, 1)).await <= 50_000);
    assert!(busy_for(store.acquire(&write(owner(), 1)).await.unwrap()) > 590_000);

    // Neither does its renewal; and when the long one leaves, the lock lasts as long as the short one.
    assert!(store.renew(&[for_secs(read(short, 1), 60)]).await.remove(0).unwrap().is_held());
    assert!(raw.ttl("k").await > 590_000);
    assert_eq!(store.release(&read(long, 0)).await.unwrap(), LEFT);
    let left = raw.ttl("k").await;
    assert!(left > 50_000 && left <= 60_000, "{left}");
    assert!(busy_for(store.acquire(&write(owner(), 1)).await.unwrap()) <= 60_000);
}

/// R#7098.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_renewal_is_nobodys_but_the_owners() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());
    store.acquire(&for_secs(read(me, 1), 20)).await.unwrap();
    store.acquire(&for_secs(read(me, 2), 20)).await.unwrap();
    store.acquire(&for_secs(read(other, 1), 20)).await.unwrap();
    assert!(store.renew(&[read(me, 2)]).await.remove(0).unwrap().is_held());
    for key in ["k", &hold(me, 1), &hold(me, 2)] {
        assert!(raw.ttl(key).await > 20_000, "{key}");
    }
    assert!(raw.ttl(&hold(other, 1)).await <= 20_000);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn renewals_answer_each_claim_for_itself() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let named = |claim: Claim, i: usize| Claim { name: format!("k{i}").into(), ..claim };
    let me = owner();
    let claims: Vec<Claim> =
        (0..150).map(|i| named(if i % 2 == 0 { read(me, 1) } else { write(me, 1) }, i)).collect();
    for claim in &claims {
        let taken = store.acquire(&for_secs(claim.clone(), 20)).await.unwrap();
        assert!(matches!(taken, Attempt::Acquired { .. }), "{taken:?}");
    }
    raw.run::<()>("DEL k6").await;
    raw.run::<()>("DEL k7").await;
    raw.run::<()>("SET k120 foreign").await;
    raw.run::<()>(&format!("DEL {{k130}}:{me}:rwlock_timeout:1")).await;
    let answers = store.renew(&claims).await;
    for (i, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().unwrap().is_held(), ![6, 7, 120, 130].contains(&i), "k{i}");
    }
    for key in ["k148", "k149", &format!("{{k148}}:{me}:rwlock_timeout:1")] {
        assert!(raw.ttl(key).await > 20_000, "{key}");
    }
    assert!(!raw.run::<bool>("EXISTS k6").await);
}

/// A reader that died: its field is there while others keep the lock, but its holds have ended.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_reader_whose_holds_have_ended_is_not_there() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (dead, alive) = (owner(), owner());
    store.acquire(&for_secs(read(dead, 1), 60)).await.unwrap();
    store.acquire(&read(alive, 1)).await.unwrap();
    raw.run::<()>(&format!("DEL {}", hold(dead, 1))).await;

    assert!(!store.renew(&[read(dead, 1)]).await.remove(0).unwrap().is_held());
    assert!(is_busy(&store.acquire(&read(dead, 2)).await.unwrap()));
    assert_eq!(store.release(&read(dead, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&alive.to_string(), "1")]));
    assert!(raw.ttl("k").await <= 30_000);
    assert!(busy_for(store.acquire(&write(owner(), 1)).await.unwrap()) <= 30_000);
    assert_eq!(store.release(&read(alive, 0)).await.unwrap(), LEFT);
    assert!(raw.all_keys().await.is_empty());
}

/// Redisson: testMultiInstanceReadLockZombieCleanup, which waits for the live reader; here nobody needs to leave.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn dead_readers_do_not_keep_a_writer_out() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    for dead in [owner(), owner()] {
        store.acquire(&read(dead, 1)).await.unwrap();
        raw.run::<()>(&format!("DEL {}", hold(dead, 1))).await;
    }
    assert!(!store.inspect(crate::store::ClaimKind::Read, "k").await.unwrap().is_held());
    assert_eq!(store.acquire(&write(me, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.hash().await, fields([("mode", "write"), (&format!("{me}:write"), "1")]));
}

/// Redisson: testMultiInstanceZombieReadLockPerformance. Readers that die do not pile up behind those who come and go.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn the_fields_of_dead_readers_are_swept() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let stays = owner();
    store.acquire(&read(stays, 1)).await.unwrap();
    for _ in 0..60 {
        let dead = owner();
        store.acquire(&read(dead, 1)).await.unwrap();
        raw.run::<()>(&format!("DEL {}", hold(dead, 1))).await;
    }
    let goes = owner();
    store.acquire(&read(goes, 1)).await.unwrap();
    store.release(&read(goes, 0)).await.unwrap();
    assert_eq!(raw.hash().await, fields([("mode", "read"), (&stays.to_string(), "1")]));
}

/// All levels of one owner last as long as its longest lease, in whatever order they end: the engine keeps one life for
/// all of them, and the server must not know a shorter one.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn one_level_less_leaves_the_rest_as_long_as_before() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    store.acquire(&for_secs(read(me, 1), 20)).await.unwrap();
    store.acquire(&for_secs(read(me, 2), 60)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.release(&read(me, 1)).await.unwrap(), Released::StillHeld);
        assert!(raw.ttl(&hold(me, 1)).await > 40_000);
        assert!(raw.ttl("k").await > 40_000);
    }
    // Nor does a shorter lease on top, or a step that is sent again.
    store.acquire(&for_secs(read(me, 2), 20)).await.unwrap();
    store.acquire(&for_secs(read(me, 1), 20)).await.unwrap();
    assert!(raw.ttl(&hold(me, 1)).await > 40_000);
    assert_eq!(raw.all_keys().await.len(), 2);
}

/// Redisson adds the two leases.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn writing_again_lasts_as_long_as_the_longer_lease() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    store.acquire(&for_secs(write(me, 1), 100)).await.unwrap();
    for lease in [100, 10] {
        store.acquire(&for_secs(write(me, 2), lease)).await.unwrap();
        let ttl = raw.ttl("k").await;
        assert!(ttl > 80_000 && ttl <= 100_000, "{ttl}");
    }
    store.acquire(&for_secs(write(me, 2), 200)).await.unwrap();
    assert!(raw.ttl("k").await > 180_000);
    store.release(&write(me, 1)).await.unwrap();
    assert!(raw.ttl("k").await > 180_000);
}

/// Redisson cuts the writer's time to live to what the reads have left, and a writer's renewal cuts that of the reads.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn reading_inside_a_write_shortens_neither() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    store.acquire(&write(me, 1)).await.unwrap();
    store.acquire(&for_secs(read(me, 1), 15)).await.unwrap();
    store.acquire(&for_secs(read(me, 2), 15)).await.unwrap();
    store.release(&read(me, 1)).await.unwrap();
    assert!(raw.ttl("k").await > 15_000);

    store.renew(&[for_secs(read(me, 1), 60)]).await.remove(0).unwrap().is_held();
    assert!(raw.ttl("k").await > 40_000);
    assert!(store.renew(&[write(me, 1)]).await.remove(0).unwrap().is_held());
    assert!(raw.ttl("k").await > 40_000);

    store.release(&read(me, 0)).await.unwrap();
    assert!(store.renew(&[write(me, 1)]).await.remove(0).unwrap().is_held());
    assert!(raw.ttl("k").await > 40_000, "what the stay was promised, it keeps");
}

/// R#4217.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn going_on_to_read_lasts_as_long_as_the_read() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    for (written, reads) in [(600, 60), (60, 600)] {
        let me = owner();
        store.acquire(&for_secs(write(me, 1), written)).await.unwrap();
        store.acquire(&for_secs(read(me, 1), reads)).await.unwrap();
        store.release(&write(me, 0)).await.unwrap();
        let expected = i64::try_from(Duration::from_secs(reads).as_millis()).unwrap();
        let ttl = raw.ttl("k").await;
        assert!(ttl > expected - 20_000 && ttl <= expected, "{ttl}");
        store.release(&read(me, 0)).await.unwrap();
    }
}
