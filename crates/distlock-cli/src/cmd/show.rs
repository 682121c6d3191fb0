//! `distlock show`: who holds a lock.

use crate::exit::{Exit, Failure};
use crate::lock::Lock;
use crate::plan::{Setup, Show};
use crate::print::{self, Paint};
use crate::view;

pub(super) async fn show(plan: Show) -> Result<Exit, Failure> {
    let lock = Lock::open(&plan.store, &plan.lock, &Setup::default()).await?;
    let seen = lock.inspect().await?;
    if plan.json {
        print::out(&format!("{}\n", view::json_of(plan.lock.kind, &seen)))?;
    } else {
        print::out(&view::text_of(plan.lock.kind, &seen, Paint::stdout()))?;
    }
    Ok(Exit::Done)
}
