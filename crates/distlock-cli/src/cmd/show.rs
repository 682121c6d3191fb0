//! `distlock show`: the kind of a lock, its holders and its time to live.

use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::find;
use crate::lock::Lock;
use crate::plan::{Setup, Show};
use crate::print::{self, Paint};
use crate::view;

pub(super) async fn show(plan: Show) -> Result<Exit, Failure> {
    let lock = Lock::open(&plan.store, &plan.lock, &Setup::default()).await?;
    let name = &plan.lock.names[0];
    let columns = print::columns(std::io::stdout());
    let found = super::found(&lock, &plan.store, &plan.lock).await?;
    let (kind, seen, doubt) = match found {
        Some(found) if !plan.named => {
            let doubt = found.doubt().map(<[_]>::to_vec);
            (found.kind(), found.seen, doubt)
        }
        found => {
            if let Some(found) = &found {
                find::check(found, plan.lock.kind, name)?;
            }
            (plan.lock.kind, lock.inspect().await?, None)
        }
    };
    let text = if plan.json {
        let mut shown = view::json_of(kind, &seen);
        if let Some(kinds) = doubt {
            shown["possible_kinds"] = kinds.iter().map(|kind| json!(kind.word())).collect();
        }
        format!("{shown}\n")
    } else {
        match doubt {
            Some(kinds) => view::text_of_number(&kinds, &seen, columns),
            None => view::text_of(kind, &seen, Paint::stdout(), columns),
        }
    };
    print::out(&text)?;
    Ok(Exit::Done)
}
