//! What a server is.

use super::chart::Chart;
use crate::doctor::{Finding, Level};
use crate::redis::topology::Part;

/// The oldest that locks work with.
const OLDEST: (u32, u32) = (6, 2);

pub(super) fn role(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "role";
    let (mode, role) = match (chart.field("redis_mode"), chart.field("role")) {
        (Ok(mode), Ok(role)) => (mode, role),
        (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
    };
    let fault = |says: &str| chart.finding(Level::Fault, SUBJECT, says);
    let is_member = mode == "cluster" || chart.number("cluster_enabled").is_ok_and(|on| on == 1);
    let single = chart.somebody.part == Part::Single;
    let finding = match (mode, role) {
        ("sentinel", _) => fault("it is a sentinel")
            .means("It keeps no locks; every step is refused.")
            .change("Write redis+sentinel://host/NAME, with the name it has for the primary."),
        _ if is_member && !chart.cluster => fault("it is part of a cluster")
            .means("It serves some of the names and refuses the others (MOVED).")
            .change("Write redis+cluster:// instead of redis://."),
        (_, "slave") if single => fault("it is a replica")
            .means("It refuses every lock (READONLY), and what it shows may be old.")
            .change("Name the primary; or let somebody find it: redis+sentinel://, redis+replicated://."),
        (_, "slave") if chart.somebody.part == Part::Primary => chart
            .finding(Level::Warning, SUBJECT, "it is a replica, but others take it for the primary")
            .means("Somebody else is taking over, or was meant to: until all agree, steps are refused.")
            .change("Look again; if it stays so, look at the sentinels' or the cluster's log."),
        (_, "master") | (_, "slave") => {
            let word = if role == "master" { "a primary" } else { "a replica" };
            chart.finding(Level::Ok, SUBJECT, format!("it is {word}"))
        }
        (_, other) => {
            chart.finding(Level::Note, SUBJECT, format!("it calls itself {other:?}, which is not known"))
        }
    };
    vec![finding]
}

pub(super) fn version(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "version";
    let (valkey, redis) = match (chart.field("valkey_version"), chart.field("redis_version")) {
        (Ok(valkey), Ok(redis)) => (valkey, redis),
        (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
    };
    let (name, version) = if valkey.is_empty() { ("Redis", redis) } else { ("Valkey", valkey) };
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        let says = format!("it says no version that can be read ({version:?})");
        return vec![chart.finding(Level::Note, SUBJECT, says)];
    };
    if (major, minor) < OLDEST {
        let finding = chart.finding(Level::Fault, SUBJECT, format!("{name} {version}"));
        let finding = finding.means("Older than 6.2: commands that scripts use are missing.");
        return vec![finding.change("Update it to Redis 6.2 or later, or to Valkey.")];
    }
    let says = match major >= 7 {
        true => {
            format!("{name} {version}: RESP3, sharded channels, flags of scripts, ACL dry runs")
        }
        false => format!(
            "{name} {version}: RESP3; no sharded channels (a cluster calls out releases to every server), no ACL dry runs"
        ),
    };
    vec![chart.finding(Level::Ok, SUBJECT, says)]
}
