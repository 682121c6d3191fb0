//! `distlock latch`: set a count, count it down, print it.

use serde_json::json;

use crate::args::Kind;
use crate::exit::{Exit, Failure};
use crate::find;
use crate::lock::Lock;
use crate::plan::{Choice, Latch, LatchAct, Setup};
use crate::print;

pub(super) async fn latch(plan: Latch) -> Result<Exit, Failure> {
    let choice =
        Choice { kind: Kind::Latch, names: vec![plan.name.clone()], read: false, permits: None };
    let lock = Lock::open(&plan.store, &choice, &Setup::default()).await?;
    // On a server a semaphore with this name would be counted down as well.
    if let Some(found) = super::found(&lock, &plan.store, &choice).await? {
        find::check(&found, Kind::Latch, &plan.name)?;
    }
    let latch = lock.stores()[0].latch(&plan.name);
    let name = latch.name();
    let (count, set) = match plan.act {
        LatchAct::Init(count) => {
            let set = latch.init(count).await?;
            // The count that another process set stays: it is printed instead.
            let count = if set { i64::from(count) } else { latch.count().await? };
            (count, Some(set))
        }
        LatchAct::Down => (latch.count_down().await?, None),
        LatchAct::Count => (latch.count().await?, None),
    };
    if plan.json {
        let mut report =
            json!({ "name": name, "kind": "latch", "count": count, "open": count == 0 });
        if let Some(set) = set {
            report["set"] = json!(set);
        }
        print::out(&format!("{report}\n"))?;
    } else {
        let name = print::name(name);
        let kept = if set == Some(false) { " (the latch had a count before)" } else { "" };
        print::out(&match count {
            0 => format!("{name} is open{kept}\n"),
            1 => format!("{name} opens after 1 more count-down{kept}\n"),
            count => format!("{name} opens after {count} more count-downs{kept}\n"),
        })?;
    }
    Ok(Exit::Done)
}
