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
        ("sentinel", _) => fault("the server is a sentinel")
            .means("It stores no locks, and refuses every operation.")
            .change("Write redis+sentinel://host/NAME, with the name under which it watches the primary."),
        _ if is_member && !chart.cluster => fault("the server is part of a cluster")
            .means("It serves some lock names and refuses the others (MOVED).")
            .change("Write redis+cluster:// instead of redis://."),
        (_, "slave") if single => fault("the server is a replica")
            .means("It refuses every lock (READONLY), and its data may be out of date.")
            .change("Name the primary in the URL; or use redis+sentinel:// or redis+replicated://, which find it."),
        (_, "slave") if chart.somebody.part == Part::Primary => chart
            .finding(Level::Warning, SUBJECT, "the server is a replica, but the other servers name it as the primary")
            .means("Another server is taking over, or a failover was not completed: until all servers agree, operations are refused.")
            .change("Run the doctor again; if it stays so, read the log of the sentinels or of the cluster."),
        (_, "master") | (_, "slave") => {
            let word = if role == "master" { "a primary" } else { "a replica" };
            chart.finding(Level::Ok, SUBJECT, format!("the server is {word}"))
        }
        (_, other) => {
            chart.finding(Level::Note, SUBJECT, format!("the server reports the role {other:?}, which this client does not know"))
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
        let says = format!("the server reports a version that cannot be parsed ({version:?})");
        return vec![chart.finding(Level::Note, SUBJECT, says)];
    };
    if (major, minor) < OLDEST {
        let finding = chart.finding(Level::Fault, SUBJECT, format!("{name} {version}"));
        let finding = finding.means("Versions before 6.2 lack commands that the scripts use.");
        return vec![finding.change("Upgrade to Redis 6.2 or later, or to Valkey.")];
    }
    let says = match major >= 7 {
        true => {
            format!("{name} {version}: RESP3, sharded channels, script flags, ACL dry runs")
        }
        false => format!(
            "{name} {version}: RESP3; no sharded channels (a cluster publishes releases to every server), no ACL dry runs"
        ),
    };
    vec![chart.finding(Level::Ok, SUBJECT, says)]
}
