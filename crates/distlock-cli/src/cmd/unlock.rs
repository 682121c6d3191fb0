//! `distlock unlock --force`: take a lock away from its holder.

use std::io::{self, BufRead, Write};

use distlock::store::Snapshot;
use serde_json::json;

use crate::audit::Entry;
use crate::exit::{Exit, Failure};
use crate::lock::Lock;
use crate::plan::{Setup, Unlock};
use crate::print::{self, Paint};
use crate::view;

pub(super) async fn unlock(plan: Unlock) -> Result<Exit, Failure> {
    let lock = Lock::open(&plan.store, &plan.lock, &Setup::default()).await?;
    let kind = plan.lock.kind;
    // Asked first, so that one can see whom it was taken from. Between the two calls the lock may change hands.
    let mut before = lock.inspect().await?;
    if plan.ask {
        let shown = before;
        if !confirmed(&view::text_of(kind, &shown, Paint::stderr())) {
            print::complain("nothing was freed");
            return Ok(Exit::Declined);
        }
        // The answer was about those who were inside then.
        before = lock.inspect().await?;
        let owners = |seen: &Snapshot| -> Vec<String> {
            seen.holders.iter().map(|holder| holder.owner.clone()).collect()
        };
        if owners(&before) != owners(&shown) {
            print::complain("it has changed hands since; nothing was freed");
            return Ok(Exit::Declined);
        }
    }

    let entry = Entry::new(&plan.store.place(), kind, &before, plan.reason.as_deref());
    let cannot = |cause| Failure::System("write the audit log, so nothing was freed", cause);
    entry.begin(&plan.audit).map_err(cannot)?;
    print::complain(&entry.line());
    let freed = lock.force().await;
    if let Err(cause) = entry.end(&plan.audit, &freed) {
        print::complain(&format!("cannot write into the audit log what came of it: {cause}"));
    }
    let freed = freed?;

    if plan.json {
        // Whoever waited may be inside by now.
        let mut after = match lock.inspect().await {
            Ok(after) => view::json_of(kind, &after),
            // It is done. Whoever were told otherwise might do it again, to the next holder.
            Err(error) => {
                print::complain(&format!("it cannot be seen what came after: {error}"));
                view::json_unseen(kind, &before)
            }
        };
        after["freed"] = json!(freed);
        after["former_holders"] = view::json_of(kind, &before)["holders"].take();
        print::out(&format!("{after}\n"))?;
    } else {
        print::out(&format!("{}\n", view::freed(kind, &before, freed)))?;
    }
    Ok(Exit::Done)
}

/// Shows whom it would be taken from, and waits for a yes.
fn confirmed(lock: &str) -> bool {
    let mut err = io::stderr().lock();
    let _ = write!(err, "{lock}Take it away? Whoever holds it may be at work. [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
