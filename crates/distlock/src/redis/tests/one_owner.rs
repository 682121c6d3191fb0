//! What the scripts of every lock of one owner at a time do to the server's data, whatever it looks like.

use std::time::Duration;

use super::server::{Raw, Server, claim as exclusive, owner};
use crate::ErrorKind;
use crate::store::{Attempt, Claim, ClaimKind, Released, Store};

pub(super) const ACQUIRED: Attempt =
    Attempt::Acquired { token: None, lease: Duration::from_secs(30) };
pub(super) const FREED: Released = Released::Freed { heard_by: 0 };

/// One that was deleted, one that is another's, one that is something else: each has its own answer, and none is touched.
///
/// `spoil` are the commands that make `k8` another's lock with five seconds to live, and `k120` no lock.
pub(super) async fn renewals_answer_each_claim_for_itself(what: ClaimKind, spoil: &[&str]) {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let claim = |i| Claim { kind: what, ..exclusive(&format!("k{i}"), me, 1) };
    let claims: Vec<Claim> = (0..250).map(claim).collect();
    for claim in &claims {
        let short = Claim { lease: Duration::from_secs(20), ..claim.clone() };
        store.acquire(&short).await.unwrap();
    }
    raw.run::<()>("DEL k7 k8 k120").await;
    for command in spoil {
        raw.run::<()>(command).await;
    }
    let before: Vec<u8> = raw.run("DUMP k120").await;
    let answers = store.renew(&claims).await;
    assert_eq!(answers.len(), 250);
    for (i, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().unwrap().is_held(), ![7, 8, 120].contains(&i), "k{i}");
    }
    assert!(raw.run::<i64>("PTTL k249").await > 20_000);
    assert!(!raw.run::<bool>("EXISTS k7").await);
    assert!(raw.run::<i64>("PTTL k8").await <= 5_000);
    assert_eq!(raw.run::<Vec<u8>>("DUMP k120").await, before);
    assert!(store.renew(&[]).await.is_empty());
}

/// Whatever stands under these names is no such lock, and stays as it is.
pub(super) async fn are_conflicts(
    store: &dyn Store,
    raw: &mut Raw,
    what: ClaimKind,
    names: &[&str],
) {
    for name in names {
        let before: Vec<u8> = raw.run(&format!("DUMP {name}")).await;
        let ttl: i64 = raw.run(&format!("PTTL {name}")).await;
        let claim = Claim { kind: what, ..exclusive(name, owner(), 1) };
        let errors = [
            store.acquire(&claim).await.unwrap_err(),
            store.inspect(what, name).await.unwrap_err(),
            store.force(what, name).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{name}: {error}");
        }
        assert_eq!(raw.run::<Vec<u8>>(&format!("DUMP {name}")).await, before, "{name}");
        let now: i64 = raw.run(&format!("PTTL {name}")).await;
        assert!(now <= ttl && (now < 0) == (ttl < 0), "{name}: {now} after {ttl}");
    }
}

/// A hold that is there can be renewed and released on a server without memory.
pub(super) async fn out_of_memory_stops_acquiring_but_nothing_else(what: ClaimKind) {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    let claim = |name: &str, owner, depth| Claim { kind: what, ..exclusive(name, owner, depth) };
    store.acquire(&claim("k", me, 1)).await.unwrap();
    store.acquire(&claim("k", me, 2)).await.unwrap();
    raw.run::<()>("CONFIG SET maxmemory 1").await;
    let error = store.acquire(&claim("new", owner(), 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!raw.run::<bool>("EXISTS new").await);
    assert!(store.renew(&[claim("k", me, 1)]).await.remove(0).unwrap().is_held());
    if what == ClaimKind::Simple {
        // Re-entering writes nothing but the time to live.
        assert_eq!(store.acquire(&claim("k", me, 3)).await.unwrap(), ACQUIRED);
    }
    assert_eq!(store.release(&claim("k", me, 1)).await.unwrap(), Released::StillHeld);
    assert_eq!(store.release(&claim("k", me, 0)).await.unwrap(), FREED);
}
