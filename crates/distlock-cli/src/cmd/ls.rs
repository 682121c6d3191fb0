//! `distlock ls`: the locks that are held.

use crate::cells;
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
        print::complain(nothing(plan.store.is_file()));
        return Ok(Exit::Done);
    }
    let mut rows = vec![["NAME", "KIND", "TTL", "HOLDER"].map(String::from)];
    for lock in &list {
        for holder in &lock.holders {
            rows.push([
                print::name(&lock.name),
                view::kind_of(lock).word().to_owned() + view::manner(holder),
                lock.ttl.map(duration::show).unwrap_or_default(),
                view::brief(holder) + &view::depth(holder),
            ]);
        }
    }
    let table = print::table(&fitted(rows, print::columns(std::io::stdout())));
    let (head, body) = table.split_once('\n').unwrap_or((&table, ""));
    print::out(&format!("{}\n{body}", print::Paint::stdout().head(head)))?;
    Ok(Exit::Done)
}

/// Says that the list is empty, and what a server cannot list.
fn nothing(is_file: bool) -> &'static str {
    match is_file {
        true => "no lock is held",
        false => {
            "no lock is held, as far as this store can list them: `distlock show NAME` also finds simple locks, semaphores and latches"
        }
    }
}

/// The rows with holders, and if need be names, on several lines, so that no line is wider than the terminal.
fn fitted(rows: Vec<[String; 4]>, columns: Option<usize>) -> Vec<Vec<String>> {
    let Some(columns) = columns else { return rows.into_iter().map(Vec::from).collect() };
    let widest =
        |column: usize| rows.iter().map(|row| cells::width(&row[column])).max().unwrap_or(0);
    let name = widest(0).min(columns / 3).max(1);
    // Two spaces behind each of three columns.
    let holder = columns.saturating_sub(name + widest(1) + widest(2) + 6).max(1);
    let lines = |[full_name, kind, ttl, full_holder]: &[String; 4]| {
        let (names, holders) = (cells::wrap(full_name, name), cells::wrap(full_holder, holder));
        let part = |parts: &[String], index: usize| parts.get(index).cloned().unwrap_or_default();
        let line = |index: usize| {
            let (kind, ttl) =
                if index == 0 { (kind.clone(), ttl.clone()) } else { Default::default() };
            vec![part(&names, index), kind, ttl, part(&holders, index)]
        };
        (0..names.len().max(holders.len())).map(line).collect::<Vec<_>>()
    };
    rows.iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let holder =
            "distlock run on a-host-with-a-long-name.example, pid 4242, \"./report.sh\" (2 deep)";
        let row = ["a:rather-long-name-of-a-lock-of-somewhere", "rw read", "29.9 s", holder];
        let rows = vec![row.map(String::from)];
        for columns in [60, 80, 132] {
            let table = print::table(&fitted(rows.clone(), Some(columns)));
            assert!(table.lines().all(|line| cells::width(line) <= columns), "{table}");
            // Nothing is lost.
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            assert_eq!(letters(&table), letters(&row.concat()), "{table}");
        }
        assert_eq!(print::table(&fitted(rows, None)).lines().count(), 1);
    }
}
