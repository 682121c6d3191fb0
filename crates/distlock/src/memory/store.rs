//! The table as a [`Store`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::table::Table;
use crate::doctor::{Examine, Finding, Level};
use crate::env::{BoxFuture, Env, Moment};
use crate::error::Result;
use crate::store::machine::MachineContext;
use crate::store::machine::entry::{self, AnyEntry, AnyTransition};
use crate::store::{
    Admin, Attempt, Capabilities, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store,
};

#[derive(Debug)]
pub(crate) struct MemoryStore {
    env: Arc<dyn Env>,
    table: Arc<Table>,
}

impl MemoryStore {
    pub(crate) fn new(env: Arc<dyn Env>) -> Arc<MemoryStore> {
        Arc::new(MemoryStore { env, table: Arc::default() })
    }

    /// The store that everybody in this process who asks for this name shares, for as long as anybody does.
    pub(crate) fn named(name: &str, env: Arc<dyn Env>) -> Arc<MemoryStore> {
        static NAMED: OnceLock<Mutex<HashMap<String, Weak<Table>>>> = OnceLock::new();
        let mut named =
            NAMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, table| table.strong_count() > 0);
        let table = named.get(name).and_then(Weak::upgrade).unwrap_or_default();
        named.insert(name.to_owned(), Arc::downgrade(&table));
        Arc::new(MemoryStore { env, table })
    }

    /// The hold and the queue under `name`, to compare a server's with.
    #[cfg(all(test, feature = "redis"))]
    pub(crate) fn peek(&self, name: &str) -> Option<crate::store::machine::fair::FairEntry> {
        match self.table.peek(name)? {
            AnyEntry::Hold(entry) => Some(entry),
            _ => None,
        }
    }

    fn step<T>(
        &self,
        name: &Arc<str>,
        claim: Option<&Claim>,
        step: impl FnOnce(Option<AnyEntry>, Moment, &dyn MachineContext) -> AnyTransition<T>,
    ) -> Result<(T, u32)> {
        self.table.step(name, claim, || self.env.now(), step)
    }

    fn renew_one(&self, claim: &Claim) -> Result<Renewed> {
        Ok(self.step(&claim.name, Some(claim), |entry, now, _| entry::renew(entry, claim, now))?.0)
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new().with_answers_at_once(true)
    }

    fn place(&self) -> String {
        format!("memory: ({:p})", Arc::as_ptr(&self.table))
    }

    fn examine<'a>(&'a self, _: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        let says = "locks of this process alone, and gone with it";
        ready(vec![Finding::new(Level::Ok, "process", "memory:", says)])
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        let step =
            |entry, now, context: &dyn MachineContext| entry::acquire(entry, claim, now, context);
        ready(self.step(&claim.name, Some(claim), step).map(|(answer, _)| answer))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        let step =
            |entry, now, context: &dyn MachineContext| entry::release(entry, claim, now, context);
        ready(self.step(&claim.name, Some(claim), step).map(|step| match step {
            (Released::Freed { .. }, heard_by) => Released::Freed { heard_by },
            (other, _) => other,
        }))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        ready(claims.iter().map(|claim| self.renew_one(claim)).collect())
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        let step =
            |entry, now, context: &dyn MachineContext| entry::give_up(entry, claim, now, context);
        ready(self.step(&claim.name, Some(claim), step).map(drop))
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        let waiter = matches!(claim.kind, ClaimKind::Fair { .. }).then_some(claim.owner);
        ready(Ok(self.table.listen(&claim.name, waiter)))
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        ready(self.table.look(what, name, || self.env.now()))
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        let step = |entry, now, context: &dyn MachineContext| {
            entry::force(entry, what, name, now, context)
        };
        ready(self.step(&Arc::from(name), None, step).map(|(before, _)| before))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        ready(Ok(self.table.list(prefix, || self.env.now())))
    }

    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        let place = Arc::from(entry::place_of(name, op));
        let step = self.step(&place, None, |entry, now, _| entry::admin(entry, op, now));
        ready(step.map(|(answer, _)| answer))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::env::System;
    use crate::owner::Owner;

    /// What one thread reads while another renews is never older than what it reads.
    #[test]
    fn nobody_is_seen_to_have_more_than_a_lease() {
        const ROUNDS: u32 = 50_000;
        let store = MemoryStore::new(Arc::new(System));
        let claim = Claim {
            name: "k".into(),
            owner: Owner::mint(uuid::Uuid::new_v4()),
            lease: Duration::from_secs(3600),
            depth: 1,
            heir_of: None,
            kind: ClaimKind::Exclusive,
            info: None,
        };
        let looked = |at: Snapshot| at.ttl.is_some_and(|ttl| ttl <= claim.lease);
        let here = tokio::runtime::Builder::new_current_thread().build().unwrap();
        here.block_on(store.acquire(&claim)).unwrap();
        std::thread::scope(|all| {
            all.spawn(|| {
                for _ in 0..ROUNDS {
                    assert!(store.renew_one(&claim).unwrap().is_held());
                }
            });
            for _ in 0..ROUNDS {
                assert!(looked(here.block_on(store.inspect(claim.kind, "k")).unwrap()));
                assert!(here.block_on(store.list("")).unwrap().into_iter().all(looked));
            }
        });
    }
}
