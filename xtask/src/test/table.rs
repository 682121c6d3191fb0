//! Prints the matrix: `cargo xtask test --list`.

use std::collections::{BTreeMap, BTreeSet};

use super::list::Test;
use super::matrix::{self, PLACES, Tier};
use super::programs::Kind;

/// The matrix as it applies to these tests, a line each.
pub(crate) fn table(tests: &[Test]) -> Result<Vec<String>, String> {
    let mut lines = promises(tests)?;
    lines.extend(others(tests)?);
    let (mut totals, mut ignored) = ([0, 0], 0);
    for test in tests {
        let assigned = matrix::assign(test)?;
        match assigned.is_long {
            true => ignored += 1,
            false => totals[assigned.tier as usize] += 1,
        }
    }
    let [one, two] = totals;
    lines.push(format!("tier 1: {one} tests; tier 2: {two} more; long tier (ignored): {ignored}"));
    Ok(lines)
}

/// A row for each promise: the tier at each place, then its name.
fn promises(tests: &[Test]) -> Result<Vec<String>, String> {
    let mut rows: BTreeMap<&str, Vec<Option<Tier>>> = BTreeMap::new();
    for test in tests {
        let Some(promise) = matrix::promise(test) else { continue };
        let (promise, place) = promise?;
        let row = rows.entry(promise).or_insert_with(|| vec![None; PLACES.len()]);
        let column = PLACES.iter().position(|known| known.name == place.name);
        if let Some(column) = column {
            row[column] = Some(matrix::assign(test)?.tier);
        }
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines = vec!["Promises: the tier at each place; `-`: not tested there.".to_owned()];
    // A column is two characters wide: each place's name stands on a line of its own, above its column.
    for (column, place) in PLACES.iter().enumerate() {
        lines.push(format!("{}{}", "| ".repeat(column), place.name));
    }
    for (promise, row) in rows {
        let tiers: Vec<String> =
            row.iter().map(|tier| tier.map_or("-".into(), |tier| tier.to_string())).collect();
        lines.push(format!("{}  {promise}", tiers.join(" ")));
    }
    lines.push(String::new());
    Ok(lines)
}

/// The other executables: how many tests in each tier, and the rules that apply.
fn others(tests: &[Test]) -> Result<Vec<String>, String> {
    #[derive(Default)]
    struct Row {
        tiers: [usize; 2],
        ignored: usize,
        rules: BTreeSet<String>,
    }
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for test in tests.iter().filter(|test| matrix::promise(test).is_none()) {
        let executable = test.name.split("::").next().unwrap_or_default();
        let kind = if test.kind == Kind::Unit { " (unit tests)" } else { "" };
        let row = rows.entry(format!("{executable}{kind}")).or_default();
        let assigned = matrix::assign(test)?;
        if assigned.is_long {
            row.ignored += 1;
            continue;
        }
        row.tiers[assigned.tier as usize] += 1;
        if let Some(rule) = assigned.rule {
            let alone = if rule.alone { ", alone" } else { "" };
            row.rules
                .insert(format!("{}: tier {}{alone}: {}", rule.pattern, rule.tier, rule.reason));
        }
    }
    let mut lines = vec!["Other tests: how many in tier 1, in tier 2, ignored.".to_owned()];
    for (executable, row) in rows {
        let [one, two] = row.tiers;
        lines.push(format!("{one:5} {two:5} {:5}  {executable}", row.ignored));
        lines.extend(row.rules.iter().map(|rule| format!("{:21}{rule}", "")));
    }
    lines.push(String::new());
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_have_a_row_and_other_executables_a_count() {
        let test = |name: &str, kind, is_ignored| Test {
            executable: 0,
            kind,
            path: name.split_once("::").unwrap().1.into(),
            name: format!("distlock/{name}"),
            is_ignored,
        };
        let promise = "mutex::exclusion::a_held_lock_refuses_everybody_else";
        let tests = [
            test(&format!("promises::{promise}::memory"), Kind::Integration, false),
            test("promises::mutex::x::y::redis", Kind::Integration, false),
            test("promises::mutex::x::y::valkey", Kind::Integration, false),
            test("it::scale::many", Kind::Integration, false),
            test("it::late::kernel", Kind::Integration, true),
            test("distlock::a::b", Kind::Unit, false),
        ];
        let lines = table(&tests).unwrap();
        let has = |line: &str| assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
        let rest = "- ".repeat(PLACES.len() - 5);
        has(&format!("1 - - - - {rest} {promise}"));
        has(&format!("- - - 1 2 {rest} mutex::x::y"));
        has("| | | redis");
        has("    0     1     1  distlock/it");
        has("    1     0     0  distlock/distlock (unit tests)");
        has("tier 1: 3 tests; tier 2: 2 more; long tier (ignored): 1");
        assert!(lines.iter().any(|line| line.contains("scale::: tier 2, alone")), "{lines:#?}");
    }
}
