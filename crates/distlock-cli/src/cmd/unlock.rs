//! `distlock unlock --force`: take a lock away from its holder.

use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::plan::Unlock;
use crate::print;

pub(super) async fn unlock(plan: Unlock) -> Result<Exit, Failure> {
    let locks = plan.store.connect(None).await?;
    let lock = locks.mutex(&plan.name);
    // Asked first, so that one can see whom it was taken from. Between the two calls the lock may change hands.
    let before = lock.inspect().await?;
    let freed = lock.force_unlock().await?;
    let name = print::name(&before.name);
    if plan.json {
        let mut after = super::json_of(&distlock::store::Snapshot::free(before.name.clone()));
        after["freed"] = json!(freed);
        after["former_holders"] = super::json_of(&before)["holders"].take();
        print::out(&format!("{after}\n"));
    } else if !freed {
        print::out(&format!("{name} was free\n"));
    } else {
        let owners: Vec<_> = before.holders.iter().map(|h| print::name(&h.owner)).collect();
        let from =
            if owners.is_empty() { String::new() } else { format!(" by {}", owners.join(", ")) };
        print::out(&format!("{name} is free; it was held{from}\n"));
    }
    Ok(Exit::Done)
}
