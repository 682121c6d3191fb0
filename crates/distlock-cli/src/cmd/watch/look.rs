//! Looking at a store once.

use std::collections::HashSet;
use std::time::Duration;

use distlock::store::Snapshot;
use distlock::{Locks, Result};

use crate::args::Kind;
use crate::duration;
use crate::exit::Failure;
use crate::find;
use crate::lock::Lock;
use crate::plan::{Choice, Setup, Watch};
use crate::print;
use crate::view;

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to look at.
pub(super) struct Eyes {
    stores: Vec<Locks>,
    in_files: bool,
    prefixes: Vec<String>,
    named: Vec<(Choice, Lock)>,
}

/// What was seen: locks by name, or why none could be read.
pub(super) type Sight = std::result::Result<Vec<(Kind, Snapshot)>, String>;

impl Eyes {
    /// Does not wait for the store, which may be reached later.
    pub(super) async fn open(plan: &Watch) -> Result<Eyes, Failure> {
        let stores = plan.store.connect(&Setup { lazy: true, ..Setup::default() }).await?;
        let named = plan.locks.iter();
        let named =
            named.map(|choice| (choice.clone(), Lock::over(stores.clone(), choice))).collect();
        Ok(Eyes { stores, in_files: plan.store.is_file(), prefixes: plan.prefixes.clone(), named })
    }

    pub(super) async fn look(&self) -> Sight {
        match tokio::time::timeout(PATIENCE, self.try_look()).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(failure)) => Err(print::redact(&failure.to_string())),
            Err(_) => Err(format!("no reply from the store within {}", duration::show(PATIENCE))),
        }
    }

    async fn try_look(&self) -> Result<Vec<(Kind, Snapshot)>, Failure> {
        let mut seen = Vec::new();
        let mut known = HashSet::new();
        for prefix in &self.prefixes {
            for lock in self.stores[0].list(prefix).await? {
                // Prefixes may overlap.
                if known.insert(lock.name.clone()) {
                    seen.push((view::kind_of(&lock), lock));
                }
            }
        }
        for (choice, lock) in &self.named {
            match lock.inspect().await {
                Ok(lock) => seen.push((choice.kind, lock)),
                Err(error) => {
                    return Err(find::explain(&self.stores, self.in_files, choice, error).await);
                }
            }
        }
        seen.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        Ok(seen)
    }

    pub(super) async fn close(&self) {
        for locks in &self.stores {
            crate::cmd::close(locks).await;
        }
    }
}
