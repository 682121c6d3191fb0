//! The commands.

mod bench;
mod demo;
mod doctor;
mod latch;
mod ls;
mod manual;
mod permits;
mod run;
mod show;
mod unlock;
mod watch;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use distlock::Locks;
use tokio::runtime::Builder;

use crate::exit::{Exit, Failure};
use crate::find::{self, Found};
use crate::lock::Lock;
use crate::plan::{Choice, Plan, Store};

/// Carries out the plan.
pub(crate) fn run(plan: Plan) -> Result<Exit, Failure> {
    match plan {
        // One thread: what is started must be started by the main thread, and only one thing is.
        Plan::Run(plan) => on(Builder::new_current_thread(), run::run(plan)),
        Plan::Ls(plan) => on(Builder::new_current_thread(), ls::ls(plan)),
        Plan::Show(plan) => on(Builder::new_current_thread(), show::show(plan)),
        Plan::Unlock(plan) => on(Builder::new_current_thread(), unlock::unlock(plan)),
        Plan::Permits(plan) => on(Builder::new_current_thread(), permits::permits(plan)),
        Plan::Latch(plan) => on(Builder::new_current_thread(), latch::latch(plan)),
        Plan::Doctor(plan) => on(Builder::new_current_thread(), doctor::doctor(plan)),
        Plan::Watch(plan) => on(Builder::new_current_thread(), watch::watch(plan)),
        Plan::Bench(plan) => on(Builder::new_multi_thread(), bench::bench(plan)),
        Plan::Demo(plan) => on(Builder::new_multi_thread(), demo::demo(plan)),
        Plan::Completions(shell) => manual::completions(shell),
        Plan::Man(dir) => manual::man(dir),
    }
}

fn on(
    mut runtime: Builder,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|cause| Failure::System("start the runtime", cause))?;
    let exit = runtime.block_on(work);
    // Name look-ups and other blocking work that may still be under way must not keep us.
    runtime.shutdown_background();
    exit
}

/// How long the last release may take before the program exits.
const FAREWELL: Duration = Duration::from_secs(3);

/// Releases what is still held, unless the store takes too long: then the leases do it.
pub(crate) async fn close(locks: &Locks) {
    drop(tokio::time::timeout(FAREWELL, locks.close()).await);
}

/// What the lock's name holds, whatever its kind; `None` if that is nothing, or in several stores, where the lock itself tells.
async fn found(lock: &Lock, store: &Store, choice: &Choice) -> Result<Option<Found>, Failure> {
    match lock.stores() {
        [locks] => match find::find(locks, &choice.names[0]).await {
            Ok(found) => Ok(found),
            Err(error) => Err(find::explain(lock.stores(), store.is_file(), choice, error).await),
        },
        _ => Ok(None),
    }
}

/// Ends a trial: releases what is held, takes away what stays. In this order: who is still on the way in could bring it back.
async fn clean(clients: &[Arc<Lock>]) {
    for lock in clients {
        lock.close().await;
    }
    if let Some(lock) = clients.first() {
        // Left behind it would do no harm.
        let _ = lock.remove().await;
    }
}
