//! `distlock unlock --force`: take a lock away from its holder.

use distlock::store::Snapshot;
use serde_json::json;

use crate::args::Kind;
use crate::exit::{Exit, Failure};
use crate::lock::Lock;
use crate::plan::Unlock;
use crate::print;
use crate::view;

pub(super) async fn unlock(plan: Unlock) -> Result<Exit, Failure> {
    let lock = Lock::open(&plan.store, &plan.lock, None).await?;
    // Asked first, so that one can see whom it was taken from. Between the two calls the lock may change hands.
    let before = lock.inspect().await?;
    let freed = lock.force().await?;
    let kind = plan.lock.kind;
    if plan.json {
        let after = match kind {
            // How many permits there are in all is not for us to work out.
            Kind::Semaphore | Kind::LeasedSemaphore => lock.inspect().await?,
            _ => Snapshot::free(before.name.clone()),
        };
        let mut after = view::json_of(kind, &after);
        after["freed"] = json!(freed);
        after["former_holders"] = view::json_of(kind, &before)["holders"].take();
        print::out(&format!("{after}\n"));
    } else {
        print::out(&format!("{}\n", view::freed(kind, &before, freed)));
    }
    Ok(Exit::Done)
}
