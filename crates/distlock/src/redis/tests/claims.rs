//! What the scripts do to the server's data.

use std::collections::HashMap;
use std::time::Duration;

use super::one_owner::{self, ACQUIRED, FREED, are_conflicts};
use super::server::{Server, claim, connect, owner};
use crate::ErrorKind;
use crate::store::{Attempt, Claim, ClaimKind, Holder, Released, Store};

fn is_busy(answer: &Attempt) -> bool {
    matches!(answer, Attempt::Busy { .. })
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_hold_is_set_to_its_depth_however_often_it_is_sent() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());

    for depth in [1, 1, 2, 2] {
        assert_eq!(store.acquire(&claim("k", me, depth)).await.unwrap(), ACQUIRED);
        let fields: HashMap<String, u32> = raw.run("HGETALL k").await;
        assert_eq!(fields, HashMap::from([(me.to_string(), depth)]));
    }
    let Attempt::Busy { ttl } = store.acquire(&claim("k", other, 1)).await.unwrap() else {
        panic!("two holders");
    };
    assert!(ttl > Duration::from_secs(20) && ttl <= Duration::from_secs(30));

    assert_eq!(store.release(&claim("k", other, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&claim("k", me, 1)).await.unwrap(), Released::StillHeld);
    assert_eq!(raw.run::<u32>(&format!("HGET k {me}")).await, 1);
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), FREED);
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.release(&claim("k", me, 1)).await.unwrap(), Released::NotHeld);
    assert!(!raw.run::<bool>("EXISTS k").await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_lost_hold_cannot_be_reentered() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let answer = store.acquire(&claim("k", owner(), 2)).await.unwrap();
    assert_eq!(answer, Attempt::Busy { ttl: Duration::ZERO });
    assert!(!raw.run::<bool>("EXISTS k").await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_hold_passes_only_from_the_owner_it_is_inherited_from() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (first, second, third) = (owner(), owner(), owner());
    let heir = |me, before| Claim { heir_of: Some(before), ..claim("k", me, 1) };

    // Nothing to inherit.
    assert!(is_busy(&store.acquire(&heir(second, first)).await.unwrap()));
    assert!(!raw.run::<bool>("EXISTS k").await);

    store.acquire(&claim("k", first, 1)).await.unwrap();
    assert!(is_busy(&store.acquire(&heir(third, second)).await.unwrap()));
    for _ in 0..2 {
        assert_eq!(store.acquire(&heir(second, first)).await.unwrap(), ACQUIRED);
        let fields: HashMap<String, u32> = raw.run("HGETALL k").await;
        assert_eq!(fields, HashMap::from([(second.to_string(), 1)]));
    }
    assert_eq!(store.release(&claim("k", first, 0)).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_lease_below_a_millisecond_is_one_and_ends() {
    let server = Server::start().await;
    let store = server.store().await;
    let short = Claim { lease: Duration::from_nanos(1), ..claim("k", owner(), 1) };
    let granted = Attempt::Acquired { token: None, lease: short.lease };
    assert_eq!(store.acquire(&short).await.unwrap(), granted);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(store.acquire(&claim("k", owner(), 1)).await.unwrap(), ACQUIRED);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn renewals_answer_each_claim_for_itself() {
    let spoil = ["HSET k8 foreign 1", "PEXPIRE k8 5000", "SET k120 foreign"];
    one_owner::renewals_answer_each_claim_for_itself(ClaimKind::Exclusive, &spoil).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_script_the_server_forgot_is_loaded_again() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    for _ in 0..3 {
        raw.run::<()>("SCRIPT FLUSH").await;
        assert_eq!(store.acquire(&claim("k", me, 1)).await.unwrap(), ACQUIRED);
        raw.run::<()>("SCRIPT FLUSH").await;
        let renewed = store.renew(&[claim("k", me, 1)]).await;
        assert!(renewed.into_iter().all(|answer| answer.unwrap().is_held()));
        raw.run::<()>("SCRIPT FLUSH").await;
        let released = store.release(&claim("k", me, 0)).await.unwrap();
        assert_eq!(released, FREED);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn what_is_no_lock_is_a_conflict_and_stays_as_it_is() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("SET string x").await;
    raw.run::<()>("SET mortal x PX 60000").await;
    raw.run::<()>("HSET hash field 1").await;
    raw.run::<()>("RPUSH list x").await;
    let names = ["string", "mortal", "hash", "list"];
    are_conflicts(&*store, &mut raw, ClaimKind::Exclusive, &names).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn inspect_force_and_list_see_what_is_held() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    for name in ["app:b", "app:a", "app*", "other"] {
        store.acquire(&claim(name, me, 1)).await.unwrap();
    }
    store.acquire(&claim("app:a", me, 2)).await.unwrap();
    raw.run::<()>("HSET app:data x 1").await;
    raw.run::<()>("HSET app:mortal x 1").await;
    raw.run::<()>("PEXPIRE app:mortal 60000").await;

    let names = async |prefix| -> Vec<String> {
        let found = store.list(prefix).await.unwrap();
        found.iter().map(|lock| lock.name.to_string()).collect()
    };
    assert_eq!(names("app").await, ["app*", "app:a", "app:b"]);
    assert_eq!(names("app*").await, ["app*"]);
    assert_eq!(names("").await.len(), 4);

    let held = store.inspect(ClaimKind::Exclusive, "app:a").await.unwrap();
    assert_eq!(held.holders, [Holder::new(me.to_string(), 2)]);
    assert!(held.ttl.unwrap() > Duration::from_secs(20));
    assert!(!store.inspect(ClaimKind::Exclusive, "free").await.unwrap().is_held());

    assert_eq!(store.force(ClaimKind::Exclusive, "app:a").await.unwrap().depth_of(&me), 2);
    assert!(!store.force(ClaimKind::Exclusive, "app:a").await.unwrap().is_held());
    assert!(!raw.run::<bool>("EXISTS app:a").await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn listing_goes_through_many_keys() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    raw.run::<()>("DEBUG POPULATE 5000 noise").await;
    let me = owner();
    for i in 0..300 {
        store.acquire(&claim(&format!("lock:{i}"), me, 1)).await.unwrap();
    }
    assert_eq!(store.list("lock:").await.unwrap().len(), 300);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn out_of_memory_stops_acquiring_but_nothing_else() {
    one_owner::out_of_memory_stops_acquiring_but_nothing_else(ClaimKind::Exclusive).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn missing_permissions_leave_no_immortal_lock_and_hide_no_release() {
    let server = Server::start().await;
    let mut raw = server.raw().await;
    let can = "+hello +evalsha +script|load +pttl +hset +hdel +hexists ~*";
    raw.run::<()>(&format!("ACL SETUSER mute on >word -@all {can} +pexpire")).await;
    raw.run::<()>(&format!("ACL SETUSER brief on >word -@all {can}")).await;
    let url = |user| format!("redis://{user}:word@127.0.0.1:{}", server.port());

    let brief = connect(&url("brief")).await.unwrap();
    let error = brief.acquire(&claim("k", owner(), 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!raw.run::<bool>("EXISTS k").await);

    let (mute, me) = (connect(&url("mute")).await.unwrap(), owner());
    assert_eq!(mute.acquire(&claim("k", me, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(mute.release(&claim("k", me, 0)).await.unwrap(), FREED);
    assert!(!raw.run::<bool>("EXISTS k").await);
}
