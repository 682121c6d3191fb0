//! The table as a [`Store`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::table::{Kept, Table};
use crate::doctor::{Examine, Finding, Level};
use crate::env::{BoxFuture, Env};
use crate::error::Result;
use crate::store::state::{Around, fair, fenced, latch, leased, permits, rw, simple};
use crate::store::{Admin, Attempt, Claim, Listener, Released, Snapshot, Store, What};

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
    pub(crate) fn peek(&self, name: &str) -> Option<fair::Entry> {
        self.table.peek(name)
    }

    fn acquire_as<M: Kept>(&self, claim: &Claim) -> Result<Attempt> {
        let now = self.env.now();
        let step = |entry, around: &dyn Around| M::acquire(entry, claim, now, around);
        Ok(self.table.step(&claim.name, Some(claim), now, step)?.0)
    }

    fn release_as<M: Kept>(&self, claim: &Claim) -> Result<Released> {
        let now = self.env.now();
        let step = |entry, around: &dyn Around| M::release(entry, claim, now, around);
        Ok(match self.table.step(&claim.name, Some(claim), now, step)? {
            (Released::Freed { .. }, heard_by) => Released::Freed { heard_by },
            (other, _) => other,
        })
    }

    fn renew_as<M: Kept>(&self, claim: &Claim) -> Result<bool> {
        let now = self.env.now();
        let step = |entry, _: &dyn Around| M::renew(entry, claim, now);
        Ok(self.table.step(&claim.name, Some(claim), now, step)?.0)
    }

    fn give_up_as<M: Kept>(&self, claim: &Claim) -> Result<()> {
        let now = self.env.now();
        let step = |entry, around: &dyn Around| M::give_up(entry, claim, now, around);
        self.table.step(&claim.name, Some(claim), now, step).map(drop)
    }

    fn force_as<M: Kept>(&self, what: What, name: &str) -> Result<Snapshot> {
        let now = self.env.now();
        let mut before = None;
        let step = |entry: Option<M>, around: &dyn Around| {
            before = entry.as_ref().map(|entry| entry.view(name, now));
            let step = M::force(entry, what, now, around);
            // Still held: it is held in another way than was to be freed.
            if step.entry.as_ref().is_some_and(|after| after.view(name, now).is_held()) {
                before = None;
            }
            step
        };
        self.table.step(&Arc::from(name), None, now, step)?;
        Ok(before.unwrap_or_else(|| Snapshot::free(name)))
    }

    fn admin_as<M: Kept>(&self, name: &str, op: &Admin) -> Result<i64> {
        let now = self.env.now();
        Ok(self.table.step(&Arc::from(name), None, now, |entry, _| M::admin(entry, op, now))?.0)
    }
}

/// Runs a method for the machine that serves `what`.
macro_rules! by_kind {
    ($what:expr, $store:ident.$method:ident($($arg:expr),*)) => {
        match $what {
            What::Exclusive | What::Fenced | What::Fair { .. } => {
                $store.$method::<fair::Entry>($($arg),*)
            }
            What::Read | What::Write { .. } => $store.$method::<rw::Entry>($($arg),*),
            What::Simple => $store.$method::<simple::Entry>($($arg),*),
            What::Permits { .. } => $store.$method::<permits::Entry>($($arg),*),
            What::LeasedPermits { .. } => $store.$method::<leased::Entry>($($arg),*),
            What::LatchOpen => $store.$method::<latch::Entry>($($arg),*),
        }
    };
}

fn ready<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for MemoryStore {
    fn answers_at_once(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        format!("memory: ({:p})", Arc::as_ptr(&self.table))
    }

    fn examine<'a>(&'a self, _: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        let says = "locks of this process alone, and gone with it";
        ready(vec![Finding::new(Level::Ok, "process", "memory:", says)])
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        ready(by_kind!(claim.what, self.acquire_as(claim)))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        ready(by_kind!(claim.what, self.release_as(claim)))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        ready(claims.iter().map(|claim| by_kind!(claim.what, self.renew_as(claim))).collect())
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        ready(by_kind!(claim.what, self.give_up_as(claim)))
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        let waiter = matches!(claim.what, What::Fair { .. }).then_some(claim.owner);
        ready(Ok(self.table.listen(&claim.name, waiter)))
    }

    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        let (table, now) = (&self.table, self.env.now());
        ready(by_kind!(what, table.look(name, now)))
    }

    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        ready(by_kind!(what, self.force_as(what, name)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        ready(Ok(self.table.list(prefix, self.env.now())))
    }

    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        ready(match op {
            Admin::Permits(_) => self.admin_as::<permits::Entry>(name, op),
            Admin::Leased(_) => self.admin_as::<leased::Entry>(name, op),
            Admin::Latch(_) => self.admin_as::<latch::Entry>(name, op),
            // A gate has nothing to do with the lock of the same name.
            Admin::Fence { .. } | Admin::FenceForget => {
                self.admin_as::<fenced::Gate>(&format!("{name}\0fence"), op)
            }
        })
    }
}
