//! `distlock permits`: how many permits a semaphore has.

use distlock::Locks;
use distlock::store::Snapshot;
use serde_json::json;

use crate::args::Kind;
use crate::exit::{Exit, Failure};
use crate::find;
use crate::lock::Lock;
use crate::plan::{Choice, Permits, Setup};
use crate::print;
use crate::view;

pub(super) async fn permits(plan: Permits) -> Result<Exit, Failure> {
    let choice = Choice {
        kind: plan.kind.unwrap_or(Kind::LeasedSemaphore),
        names: vec![plan.name.clone()],
        read: false,
        permits: None,
    };
    let lock = Lock::open(&plan.store, &choice, &Setup::default()).await?;
    let found = super::found(&lock, &plan.store, &choice).await?;
    let kind = match (plan.kind, &found) {
        (Some(kind), Some(found)) => {
            find::check(found, kind, &plan.name)?;
            kind
        }
        (Some(kind), None) => kind,
        (None, Some(found)) => {
            let kind = find::certain(found, &plan.name)?;
            if !kind.has_permits() {
                let (name, kind) = (print::name(&plan.name), find::a(kind));
                return Err(Failure::Conflict(format!("{name} is {kind}, which has no permits")));
            }
            kind
        }
        // What `run --semaphore` makes.
        (None, None) => Kind::LeasedSemaphore,
    };
    let lock = Lock::over(lock.stores().to_vec(), &Choice { kind, ..choice });
    let mut seen = lock.inspect().await?;
    let before = view::permits(&seen);
    if let Some(permits) = plan.set {
        set(&lock.stores()[0], kind, &plan.name, permits, before).await?;
        seen = lock.inspect().await?;
    }
    print::out(&match plan.json {
        true => json_of(kind, &seen, plan.set.map(|_| before)),
        false => text_of(&seen, plan.set.and(before)),
    })?;
    Ok(Exit::Done)
}

/// Sets the number in all. Permits that are taken stay taken.
async fn set(
    locks: &Locks,
    kind: Kind,
    name: &str,
    permits: u32,
    before: Option<i64>,
) -> Result<(), Failure> {
    match (kind, before) {
        (Kind::Semaphore, None) => {
            // Another process may have been first.
            if !locks.semaphore(name).init(permits).await? {
                let name = print::name(name);
                return Err(Failure::Conflict(format!(
                    "the number of permits of {name} was set by another process just now; nothing was changed: try again"
                )));
            }
        }
        // Acquires and releases between reading and adding do not change the number in all.
        (Kind::Semaphore, Some(before)) => {
            locks.semaphore(name).add(i64::from(permits) - before).await?;
        }
        _ => {
            locks.leased_semaphore(name).set(permits).await?;
        }
    }
    Ok(())
}

fn json_of(kind: Kind, seen: &Snapshot, before: Option<Option<i64>>) -> String {
    let mut report = json!({
        "name": &*seen.name,
        "kind": kind.word(),
        "permits": view::permits(seen),
        "available": seen.count,
        "taken": view::taken(seen),
    });
    if let Some(before) = before {
        report["permits_before"] = json!(before);
    }
    format!("{report}\n")
}

fn text_of(seen: &Snapshot, before: Option<i64>) -> String {
    let name = print::name(&seen.name);
    let (Some(permits), Some(free)) = (view::permits(seen), seen.count) else {
        return format!("{name}: the number of permits is not set\n");
    };
    let taken = view::taken(seen);
    let before = before.map(|before| format!(" (before: {before})")).unwrap_or_default();
    let rest = match free {
        0.. => format!("{free} free"),
        short => format!("0 free, and {} too many are taken", -short),
    };
    let word = if permits == 1 { "permit" } else { "permits" };
    format!("{name}: {permits} {word}{before}, {taken} taken, {rest}\n")
}
