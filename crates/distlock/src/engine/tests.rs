//! What happens between a step and its answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::env::{BoxFuture, Virtual};
use crate::error::{ErrorKind, Result};
use crate::locks::Locks;
use crate::memory::MemoryStore;
use crate::store::{Attempt, Claim, Listener, Released, Snapshot, Store, What};

const LONG: Duration = Duration::from_secs(30);

/// A store that hears of a hand-over only when it is let.
#[derive(Debug)]
struct Gated {
    inner: Arc<MemoryStore>,
    gate: Semaphore,
}

impl Store for Gated {
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            if claim.heir_of.is_some() {
                self.gate.acquire().await.expect("it is never closed").forget();
            }
            self.inner.acquire(claim).await
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        self.inner.release(claim)
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        self.inner.renew(claims)
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        self.inner.listen(claim)
    }

    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.inner.inspect(what, name)
    }

    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.inner.force(what, name)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        self.inner.list(prefix)
    }
}

/// A lock that passed on in memory is taken away before the store has heard of that, and its heir unlocks meanwhile.
#[tokio::test(start_paused = true)]
async fn an_heir_of_what_is_gone_is_told_so_when_it_unlocks() {
    // On virtual time: a lock passes on in memory only for some milliseconds.
    let env = Virtual::new();
    let inner = MemoryStore::named("heirs", Arc::new(env.clone()));
    let gated = Arc::new(Gated { inner: inner.clone(), gate: Semaphore::new(0) });
    let locks = Locks::builder().store(gated.clone()).env(env.clone()).connect().await.unwrap();
    let other = Locks::builder().store(inner).env(env).connect().await.unwrap();
    for unlocked_first in [true, false] {
        let first = locks.mutex("k").lock().lease(LONG).await.unwrap();
        let heir = tokio::spawn(locks.mutex("k").lock().lease(LONG).into_future());
        while locks.mutex("k").waiting() == 0 {
            tokio::task::yield_now().await;
        }
        drop(first);
        let heir = heir.await.unwrap().unwrap();
        assert!(other.mutex("k").force_unlock().await.unwrap());
        let unlocked = if unlocked_first {
            let unlocking = tokio::spawn(heir.unlock());
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(!unlocking.is_finished(), "the store has not heard of it yet");
            gated.gate.add_permits(1);
            tokio::time::timeout(LONG, unlocking).await.expect("it ends").unwrap()
        } else {
            gated.gate.add_permits(1);
            tokio::time::timeout(LONG, heir.lost()).await.expect("it is told");
            heir.unlock().await
        };
        assert_eq!(unlocked.unwrap_err().kind(), ErrorKind::Lost);
        assert!(!other.mutex("k").is_locked().await.unwrap());
        locks.mutex("k").lock().wait(LONG).await.unwrap().unlock().await.unwrap();
    }
}
