//! `distlock ls`: the locks that are held.

use crate::duration;
use crate::exit::{Exit, Failure};
use crate::plan::{Ls, Setup};
use crate::print;
use crate::view;

pub(super) async fn ls(plan: Ls) -> Result<Exit, Failure> {
    let stores = plan.store.connect(&Setup::default()).await?;
    let list = stores[0].list(&plan.names).await?;
    if plan.json {
        let list: Vec<_> =
            list.iter().map(|lock| view::json_of(view::kind_of(lock), lock)).collect();
        print::out(&format!("{}\n", serde_json::Value::from(list)))?;
        return Ok(Exit::Done);
    }
    if list.is_empty() {
        print::complain("no lock is held");
        return Ok(Exit::Done);
    }
    let mut rows =
        vec![["NAME", "KIND", "OWNER", "DEPTH", "TTL", "HOLDER"].map(String::from).to_vec()];
    for lock in &list {
        for holder in &lock.holders {
            rows.push(vec![
                print::name(&lock.name),
                view::kind_of(lock).word().to_owned() + view::manner(holder),
                print::name(&holder.owner),
                holder.depth.to_string(),
                lock.ttl.map(duration::show).unwrap_or_default(),
                holder.info.as_ref().map(|i| print::name(&i.to_string())).unwrap_or_default(),
            ]);
        }
    }
    let table = print::table(&rows);
    let (head, body) = table.split_once('\n').unwrap_or((&table, ""));
    print::out(&format!("{}\n{body}", print::Paint::stdout().head(head)))?;
    Ok(Exit::Done)
}
