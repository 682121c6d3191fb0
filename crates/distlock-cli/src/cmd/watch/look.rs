//! Looking at a store once.

use std::collections::HashSet;
use std::time::Duration;

use distlock::store::Snapshot;
use distlock::{Locks, Result};

use crate::args::Kind;
use crate::exit::Failure;
use crate::lock::Lock;
use crate::plan::{Setup, Watch};
use crate::print;
use crate::view;

/// Longer than an answer takes that is still of interest.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to look at.
pub(super) struct Eyes {
    stores: Vec<Locks>,
    prefixes: Vec<String>,
    named: Vec<(Kind, Lock)>,
}

/// What was seen: locks by name, or why nothing was.
pub(super) type Sight = std::result::Result<Vec<(Kind, Snapshot)>, String>;

impl Eyes {
    /// Does not wait for the store: it may come later.
    pub(super) async fn open(plan: &Watch) -> Result<Eyes, Failure> {
        let stores = plan.store.connect(&Setup { lazy: true, ..Setup::default() }).await?;
        let named = plan.locks.iter();
        let named = named.map(|choice| (choice.kind, Lock::over(stores.clone(), choice))).collect();
        Ok(Eyes { stores, prefixes: plan.prefixes.clone(), named })
    }

    pub(super) async fn look(&self) -> Sight {
        match tokio::time::timeout(PATIENCE, self.try_look()).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(error)) => Err(print::redact(&error.to_string())),
            Err(_) => Err("the store does not answer".to_owned()),
        }
    }

    async fn try_look(&self) -> Result<Vec<(Kind, Snapshot)>> {
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
        for (kind, lock) in &self.named {
            seen.push((*kind, lock.inspect().await?));
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
