//! `distlock unlock --force`: take a lock away from its holder.

use std::io::{self, BufRead, Write};

use distlock::store::Snapshot;
use serde_json::json;

use crate::args::Kind;
use crate::audit::Entry;
use crate::exit::{Exit, Failure};
use crate::find;
use crate::lock::Lock;
use crate::plan::{Choice, Setup, Unlock};
use crate::print::{self, Paint};
use crate::view;

pub(super) async fn unlock(plan: Unlock) -> Result<Exit, Failure> {
    let (lock, kind) = open(&plan).await?;
    // Read first, to tell from whom it was taken. The lock may change hands between the two calls.
    let mut before = lock.inspect().await?;
    if plan.ask {
        let shown = before;
        let columns = print::columns(io::stderr());
        if !confirmed(&view::text_of(kind, &shown, Paint::stderr(), columns)) {
            print::complain("nothing was freed");
            return Ok(Exit::Declined);
        }
        // The answer was about the holders that were shown.
        before = lock.inspect().await?;
        let owners = |seen: &Snapshot| -> Vec<String> {
            seen.holders.iter().map(|holder| holder.owner.clone()).collect()
        };
        if owners(&before) != owners(&shown) {
            print::complain("the lock has changed hands since it was shown; nothing was freed");
            return Ok(Exit::Declined);
        }
    }

    let entry = Entry::new(&plan.store, kind, &before, plan.reason.as_deref());
    let cannot = |cause| Failure::System("write the audit log, so nothing was freed", cause);
    entry.begin(&plan.audit).map_err(cannot)?;
    print::complain(&entry.line());
    let freed = lock.force().await;
    if let Err(cause) = entry.end(&plan.audit, &freed) {
        print::complain(&format!("cannot write the outcome to the audit log: {cause}"));
    }
    let freed = freed?;

    if plan.json {
        // A waiter may hold it by now.
        let mut after = match lock.inspect().await {
            Ok(after) => view::json_of(kind, &after),
            // It is done. A script that takes an error for "not done" would do it again, to the next holder.
            Err(error) => {
                print::complain(&format!(
                    "the lock was freed; its state afterwards cannot be read: {error}"
                ));
                view::json_unseen(kind, &before)
            }
        };
        after["freed"] = json!(freed);
        after["former_holders"] = view::json_of(kind, &before)["holders"].take();
        if let Some(ttl) = before.ttl.filter(|_| freed) {
            after["may_run_ms"] = json!(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        print::out(&format!("{after}\n"))?;
    } else {
        let runs_on = view::runs_on(kind, &before).filter(|_| freed);
        let runs_on = runs_on.map(|text| text + "\n").unwrap_or_default();
        print::out(&format!("{}\n{runs_on}", view::freed(kind, &before, freed)))?;
    }
    Ok(Exit::Done)
}

/// The lock, and its kind: the one that the user named, or else the one that the name holds.
async fn open(plan: &Unlock) -> Result<(Lock, Kind), Failure> {
    let lock = Lock::open(&plan.store, &plan.lock, &Setup::default()).await?;
    let wanted = plan.lock.kind;
    let Some(found) = super::found(&lock, &plan.store, &plan.lock).await? else {
        return Ok((lock, wanted));
    };
    if plan.named {
        find::check(&found, wanted, &plan.lock.names[0])?;
        return Ok((lock, wanted));
    }
    let kind = find::certain(&found, &plan.lock.names[0])?;
    let choice = Choice { kind, ..plan.lock.clone() };
    Ok((Lock::over(lock.stores().to_vec(), &choice), kind))
}

/// Shows whom it would be taken from, and waits for a yes.
fn confirmed(lock: &str) -> bool {
    let mut err = io::stderr().lock();
    let _ = write!(err, "{lock}Take it away from its holder, which may be running? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
