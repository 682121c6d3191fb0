//! A store in memory that fails as it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryStore;
use crate::store::{Attempt, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    /// Nothing arrives.
    Down,
    /// Everything is done, and no answer arrives.
    Mute,
    /// Everything is done this much later.
    Slow(Duration),
    /// Every answer arrives this much later.
    Distant(Duration),
    /// Something else stands under every name.
    Taken,
    /// Grants no longer leases than this.
    Grudging(Duration),
}

#[derive(Debug)]
pub(super) struct Flaky {
    memory: Mutex<Arc<MemoryStore>>,
    mood: Mutex<Mood>,
    env: Arc<dyn Env>,
}

impl Flaky {
    pub(super) fn new(env: &Arc<dyn Env>) -> Arc<Flaky> {
        let memory = Mutex::new(MemoryStore::new(env.clone()));
        Arc::new(Flaky { memory, mood: Mutex::new(Mood::Well), env: env.clone() })
    }

    pub(super) fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// Loses its memory.
    pub(super) fn forget(&self) {
        *self.memory.lock().unwrap() = MemoryStore::new(self.env.clone());
    }

    /// What stands there, whatever its mood.
    pub(super) async fn holder(&self, name: &str) -> Option<String> {
        let memory = self.memory.lock().unwrap().clone();
        let seen = memory.inspect(ClaimKind::Exclusive, name).await.unwrap();
        seen.holders.into_iter().next().map(|holder| holder.owner)
    }

    /// The claim as this store grants it.
    fn granted(&self, claim: &Claim) -> Claim {
        let lease = match *self.mood.lock().unwrap() {
            Mood::Grudging(most) => claim.lease.min(most),
            _ => claim.lease,
        };
        Claim { lease, ..claim.clone() }
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce(Arc<MemoryStore>) -> BoxFuture<'a, Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        let error = |kind, text: &str| Err(Error::new(kind, text));
        let mood = *self.mood.lock().unwrap();
        Box::pin(async move {
            let sleep = |time| self.env.sleep_until(self.env.now().after(time));
            match mood {
                Mood::Down => return error(ErrorKind::Unavailable, "nobody is there"),
                Mood::Taken => return error(ErrorKind::Conflict, "no lock stands there"),
                Mood::Slow(time) => sleep(time).await,
                _ => {}
            }
            let memory = self.memory.lock().unwrap().clone();
            let answer = step(memory).await;
            match mood {
                Mood::Mute => return error(ErrorKind::Indeterminate, "no reply in time"),
                Mood::Distant(time) => sleep(time).await,
                _ => {}
            }
            answer
        })
    }
}

impl Store for Flaky {
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        let claim = self.granted(claim);
        self.step(move |memory| Box::pin(async move { memory.acquire(&claim).await }))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        self.step(move |memory| Box::pin(async move { memory.release(claim).await }))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            let granted: Vec<Claim> = claims.iter().map(|claim| self.granted(claim)).collect();
            let renewed =
                self.step(move |memory| Box::pin(async move { Ok(memory.renew(&granted).await) }));
            renewed.await.unwrap_or_else(|e| vec![Err(e); claims.len()])
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        self.step(move |memory| Box::pin(async move { memory.listen(claim).await }))
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.step(move |memory| Box::pin(async move { memory.inspect(what, name).await }))
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.step(move |memory| Box::pin(async move { memory.force(what, name).await }))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        self.step(move |memory| Box::pin(async move { memory.list(prefix).await }))
    }
}
