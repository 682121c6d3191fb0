//! Whether the server keeps what it is given.

use super::chart::Chart;
use crate::doctor::{Finding, Level};

/// Above this share of its memory, a server is nearly full.
const NEARLY: u64 = 90;

pub(super) fn eviction(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "eviction";
    let (policy, limit) = match (chart.field("maxmemory_policy"), chart.number("maxmemory")) {
        (Ok(policy), Ok(limit)) => (policy, limit),
        (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
    };
    if policy == "noeviction" || policy.is_empty() {
        return vec![chart.finding(Level::Ok, SUBJECT, "maxmemory-policy is noeviction")];
    }
    let change = "CONFIG SET maxmemory-policy noeviction; keep caches on another server.";
    let finding = match limit {
        0 => chart
            .finding(
                Level::Warning,
                SUBJECT,
                format!("maxmemory-policy is {policy}, and maxmemory is not set"),
            )
            .means("As soon as maxmemory is set, a full server removes held locks."),
        limit => chart
            .finding(
                Level::Fault,
                SUBJECT,
                format!("maxmemory-policy is {policy}, and maxmemory is {}", size(limit)),
            )
            .means(
                "A full server removes held locks (all have a time to live, so volatile-* removes them too): two owners can hold one \
                 lock, and fencing tokens may start again.",
            ),
    };
    vec![finding.change(change)]
}

pub(super) fn room(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "memory";
    let (used, limit) = match (chart.number("used_memory"), chart.number("maxmemory")) {
        (Ok(used), Ok(limit)) => (used, limit),
        (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
    };
    if limit == 0 {
        let says = format!("{} in use, no limit", size(used));
        return vec![chart.finding(Level::Ok, SUBJECT, says)];
    }
    let says = format!("{} of {} in use", size(used), size(limit));
    let share = used.saturating_mul(100) / limit;
    let level = match share {
        100.. => Level::Fault,
        NEARLY.. => Level::Warning,
        _ => return vec![chart.finding(Level::Ok, SUBJECT, says)],
    };
    let finding = chart.finding(level, SUBJECT, says);
    let finding = finding.means(
        "A full server refuses new locks (OOM); holders can still renew and release theirs.",
    );
    vec![finding.change("Raise maxmemory, or find the keys that fill it: redis-cli --bigkeys.")]
}

/// For people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}
