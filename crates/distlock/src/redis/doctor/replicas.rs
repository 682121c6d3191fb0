//! Who has a copy, and whether a primary that nobody follows any more stops.

use super::chart::Chart;
use crate::doctor::{Finding, Level};
use crate::locks::Durability;
use crate::redis::topology::{Part, Somebody};

/// A replica that has not been heard of for so many seconds is behind.
const BEHIND: u64 = 10;

pub(super) fn replicas(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "replicas";
    match chart.field("role") {
        Ok("master") => {}
        Ok(_) => return link(chart),
        Err(why) => return vec![chart.unknown(SUBJECT, &why)],
    }
    let count = match chart.number("connected_slaves") {
        Ok(count) => count,
        Err(why) => return vec![chart.unknown(SUBJECT, &why)],
    };
    let mut findings = Vec::new();
    if let Durability::Acks(acks) = chart.somebody.dial.durability
        && count < u64::from(acks)
    {
        let says = format!("{count} connected, but Durability::Acks({acks}) needs {acks}");
        let finding = chart.finding(Level::Fault, SUBJECT, says);
        let finding =
            finding.means("No lock can be acquired: each acquire is rolled back (NotDurable).");
        findings
            .push(finding.change("Start the missing replicas, or require fewer acknowledgements."));
    } else if count == 0 {
        // By itself it may be meant so; of several, one that has nobody is the one that will be missed.
        let alone = chart.somebody.part == Part::Single;
        let level = if alone { Level::Note } else { Level::Warning };
        let finding = chart.finding(level, SUBJECT, "no replica is connected");
        let finding = finding.means(
            "If this server fails, its locks can be neither acquired nor renewed until it is back.",
        );
        findings
            .push(finding.change("Add a replica if locks must survive the loss of this server."));
    } else {
        let says = format!("{count} connected");
        findings.push(chart.finding(Level::Ok, SUBJECT, says));
        findings.extend(behind(chart, count));
    }
    findings.extend(guard(chart, count));
    findings
}

/// What a primary says of one of its replicas.
fn said<'a>(chart: &'a Chart, replica: u64, field: &str) -> Option<&'a str> {
    let line = chart.field(&format!("slave{replica}")).ok()?;
    let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == field).map(|(_, value)| value)
}

/// The replicas of one of several primaries, by the addresses that it has for them.
pub(super) fn of_primary(chart: &Chart) -> Vec<Somebody> {
    if chart.somebody.part != Part::Primary {
        return Vec::new();
    }
    let count = chart.number("connected_slaves").unwrap_or_default();
    let replica = |at: u64| {
        let port = said(chart, at, "port")?.parse().ok()?;
        let target = chart.somebody.dial.target.at(said(chart, at, "ip")?, port);
        Some(Somebody { dial: chart.somebody.dial.to(target), part: Part::Replica })
    };
    (0..count).filter_map(replica).collect()
}

/// Replicas that are not up to date.
fn behind(chart: &Chart, count: u64) -> Vec<Finding> {
    let late = |at: u64| {
        let state = said(chart, at, "state")?;
        let lag = said(chart, at, "lag")?.parse::<u64>().unwrap_or_default();
        let (ip, port) = (said(chart, at, "ip")?, said(chart, at, "port")?);
        let late = state != "online" || lag >= BEHIND;
        late.then(|| format!("{ip}:{port} is {state}; its last acknowledgement was {lag} s ago"))
    };
    let late: Vec<String> = (0..count).filter_map(late).collect();
    if late.is_empty() {
        return Vec::new();
    }
    let finding = chart.finding(Level::Warning, "replica_lag", late.join("; "));
    let finding = finding
        .means("If it takes over now, it lacks the latest locks: two owners can hold one lock.");
    vec![finding.change("Read its log, and check the network between the two.")]
}

/// Whether a primary that was replaced without knowing stops taking locks.
fn guard(chart: &Chart, count: u64) -> Vec<Finding> {
    const SUBJECT: &str = "min_replicas";
    let (least, lag) =
        match (chart.setting("min-replicas-to-write"), chart.setting("min-replicas-max-lag")) {
            (Ok(least), Ok(lag)) => (least, lag),
            (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
        };
    let least: u64 = least.parse().unwrap_or_default();
    let says = format!("min-replicas-to-write is {least}, min-replicas-max-lag {lag}");
    let change = "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 1, with at least two replicas, so that one may fail.";
    let finding = match least {
        0 if count == 0 => return Vec::new(),
        0 if chart.cluster => chart
            .finding(Level::Note, SUBJECT, says)
            .means("A primary that is cut off goes on granting locks until cluster-node-timeout; no other server has these locks.")
            .change(change),
        0 => chart
            .finding(Level::Warning, SUBJECT, says)
            .means(
                "A primary that was paused or cut off, and replaced meanwhile, goes on granting locks for some ten seconds: two owners \
                 can hold one lock.",
            )
            .change(change),
        least if count < least => chart
            .finding(Level::Fault, SUBJECT, format!("{says}, but {count} connected"))
            .means("The server refuses every lock now (NOREPLICAS), and holders lose theirs when their leases end.")
            .change("Start the missing replicas; or lower min-replicas-to-write, after which a primary that is cut off goes on granting locks."),
        _ if lag.parse::<u64>().is_ok_and(|lag| lag == 0) => chart
            .finding(Level::Warning, SUBJECT, says)
            .means("With a lag of 0, min-replicas-to-write has no effect.")
            .change(change),
        _ => chart.finding(Level::Ok, SUBJECT, says),
    };
    vec![finding]
}

/// What a replica says of its primary.
fn link(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "replica_link";
    let finding = match chart.field("master_link_status") {
        Ok("up") => chart.finding(Level::Ok, SUBJECT, "the replica follows its primary"),
        Ok(status) => chart
            .finding(Level::Warning, SUBJECT, format!("the link of the replica to its primary is {status}"))
            .means("The replica falls behind: if it takes over now, locks are lost, and two owners can hold one lock.")
            .change("Read its log: the cause is often masterauth, masteruser or the network."),
        Err(why) => chart.unknown(SUBJECT, &why),
    };
    vec![finding]
}
