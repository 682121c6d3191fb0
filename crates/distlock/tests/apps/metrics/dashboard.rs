//! The dashboard that comes with the library.

use serde_json::Value;

use super::scrape::Scrape;

const DASHBOARD: &str = include_str!("../../../../../docs/grafana-dashboard.json");

/// Each query names figures that exist, and each figure that users tune by is shown.
pub(crate) fn asks_for_nothing_that_is_not_there(seen: &Scrape) {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    collect(&dashboard, &mut queries);
    assert!(queries.len() >= 8, "{queries:?}");
    for query in &queries {
        let words = query.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let figures: Vec<&str> = words.filter(|word| word.starts_with("distlock_")).collect();
        assert!(!figures.is_empty(), "{query}");
        for figure in figures {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                figure.strip_suffix(end).filter(|family| family.ends_with("_seconds"))
            });
            let family = family.unwrap_or(figure);
            assert!(seen.text().contains(&format!("# TYPE {family} ")), "{figure} in {query}");
        }
    }
    let all = queries.join("\n");
    for wanted in [
        "distlock_acquire_total",
        "outcome=\"timeout\"",
        "distlock_wait_seconds_bucket",
        "distlock_wait_seconds_sum",
        "distlock_hold_seconds_bucket",
        "distlock_lost_total",
        "distlock_held",
        "distlock_waiting",
    ] {
        assert!(all.contains(wanted), "nothing shows {wanted}");
    }
}

fn collect(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(query) if key == "expr" => queries.push(query.clone()),
                    value => collect(value, queries),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, queries)),
        _ => {}
    }
}
