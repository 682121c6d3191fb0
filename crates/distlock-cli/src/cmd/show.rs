//! `distlock show`: who holds a lock.

use distlock::store::Snapshot;

use crate::duration;
use crate::exit::{Exit, Failure};
use crate::plan::Show;
use crate::print::{self, Paint};

pub(super) async fn show(plan: Show) -> Result<Exit, Failure> {
    let locks = plan.store.connect(None).await?;
    let lock = locks.mutex(&plan.name).inspect().await?;
    if plan.json {
        print::out(&format!("{}\n", super::json_of(&lock)));
    } else {
        print::out(&text_of(&lock, Paint::stdout()));
    }
    Ok(Exit::Done)
}

fn text_of(lock: &Snapshot, paint: Paint) -> String {
    let state = if lock.is_held() { paint.bad("held") } else { paint.good("free") };
    let mut rows = vec![
        vec!["name".to_owned(), print::name(&lock.name)],
        vec!["kind".to_owned(), "mutex".to_owned()],
        vec!["state".to_owned(), state],
    ];
    for holder in &lock.holders {
        let depth =
            if holder.depth > 1 { format!(" ({} deep)", holder.depth) } else { String::new() };
        rows.push(vec!["holder".to_owned(), print::name(&holder.owner) + &depth]);
    }
    if let Some(ttl) = lock.ttl {
        rows.push(vec!["ttl".to_owned(), format!("{} unless renewed", duration::show(ttl))]);
    }
    print::table(&rows)
}
