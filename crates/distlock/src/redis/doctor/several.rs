//! Servers that serve locks between them, and those who watch over them.

use super::chart::Chart;
use crate::doctor::{Finding, Level, REACHABLE};
use crate::error::{Error, ErrorKind};
use crate::redis::topology::Part;

/// Fewer cannot choose when one is away.
const SENTINELS: u64 = 3;
/// After so many milliseconds at most a primary should be given up for dead.
const PATIENCE: u64 = 60_000;
const SLOTS: u64 = 16_384;

/// Nobody says who serves what.
pub(super) fn unknown(place: &str, trouble: &Error, nobody: bool) -> Finding {
    let subject = match trouble.kind() {
        ErrorKind::Config | ErrorKind::Unsupported | ErrorKind::InvalidName => "topology",
        _ if nobody => REACHABLE,
        _ => "topology",
    };
    let finding = Finding::new(Level::Fault, subject, place, trouble.to_string());
    let finding = finding
        .means("The client cannot find out which server stores a lock: no lock can be acquired.");
    finding.change(
        "See the findings of the servers below; correct the URL, or set up the cluster or the sentinels.",
    )
}

/// Of servers of which one is to be the primary, who says that he is.
pub(super) fn primaries(charts: &[Chart]) -> Option<Finding> {
    let is_primary = |chart: &&Chart| {
        let alone = chart.cluster || chart.is_sentinel() || chart.somebody.part == Part::Single;
        !alone && chart.field("role").is_ok_and(|role| role == "master")
    };
    let all: Vec<String> = charts.iter().filter(is_primary).map(Chart::place).collect();
    if all.len() < 2 {
        return None;
    }
    let says = format!("{} each report that they are the primary", all.join(" and "));
    let finding = Finding::new(Level::Fault, "primaries", all[0].clone(), says);
    let finding = finding
        .means("Each grants locks that the other does not know: two owners can hold one lock.");
    Some(finding.change(
        "Make all but one a replica (REPLICAOF), and set min-replicas-to-write, so that a primary that is cut off stops granting locks.",
    ))
}

pub(super) fn cluster(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "cluster";
    let slots = match &chart.slots {
        None => return Vec::new(),
        Some(Err(why)) => return vec![chart.unknown(SUBJECT, why)],
        Some(Ok(slots)) => slots,
    };
    let field = |name: &str| slots.get(name).map(String::as_str).unwrap_or_default();
    let served: u64 = field("cluster_slots_ok").parse().unwrap_or_default();
    let state = field("cluster_state");
    let says = format!("cluster_state is {state}, {served} of {SLOTS} slots are served");
    let mut findings = vec![match (state, served) {
        ("ok", SLOTS) => chart.finding(Level::Ok, SUBJECT, says),
        (state, _) => {
            let finding = chart.finding(Level::Fault, SUBJECT, says);
            let finding = match state {
                "ok" => finding.means(
                    "Locks in slots that no server serves can be neither acquired nor released.",
                ),
                _ => finding.means("This server refuses every lock (CLUSTERDOWN)."),
            };
            finding.change("Start the missing servers, or assign their slots to others: redis-cli --cluster fix.")
        }
    }];
    // Asked of those who serve: the others would say the same.
    if chart.serves() {
        findings.push(match chart.setting("cluster-require-full-coverage") {
            Ok("yes") => chart
                .finding(Level::Note, "coverage", "cluster-require-full-coverage is yes")
                .means("When one shard fails, all other shards refuse locks too.")
                .change(
                    "CONFIG SET cluster-require-full-coverage no: then only the locks of the failed shard stop.",
                ),
            Ok(_) => chart.finding(
                Level::Ok,
                "coverage",
                "a shard that fails stops only its own locks",
            ),
            Err(why) => chart.unknown("coverage", &why),
        });
    }
    findings
}

pub(super) fn sentinel(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "sentinels";
    let watched = match &chart.watched {
        None => return Vec::new(),
        Some(Err(why)) => return vec![chart.unknown(SUBJECT, why)],
        Some(Ok(watched)) => watched,
    };
    let number = |name: &str| watched.get(name).and_then(|n| n.parse::<u64>().ok());
    let (Some(others), Some(quorum)) = (number("num-other-sentinels"), number("quorum")) else {
        return vec![chart.finding(
            Level::Note,
            SUBJECT,
            "the sentinel does not report how many sentinels there are",
        )];
    };
    let all = others + 1;
    let says = format!("{all} sentinels, of which {quorum} must agree that the primary has failed");
    let mut findings = vec![match (all, quorum) {
        (..SENTINELS, _) => chart
            .finding(Level::Warning, SUBJECT, says)
            .means("When a sentinel fails, no new primary can be chosen: if the primary fails too, locks stop until it is back.")
            .change("Run three or more sentinels, each on its own machine."),
        (all, quorum) if quorum <= all / 2 => chart
            .finding(Level::Warning, SUBJECT, says)
            .means("A few sentinels that are cut off can report a healthy primary as failed.")
            .change(format!("SENTINEL SET NAME quorum {}, which is a majority.", all / 2 + 1)),
        (all, quorum) if quorum > all => chart
            .finding(Level::Fault, SUBJECT, says)
            .means("The quorum is larger than the number of sentinels: a primary that fails is not replaced.")
            .change(format!("SENTINEL SET NAME quorum {}, which is a majority.", all / 2 + 1)),
        _ => chart.finding(Level::Ok, SUBJECT, says),
    }];
    if let Some(patience) = number("down-after-milliseconds") {
        let says = format!(
            "the sentinels report a primary as failed after {:.1} s without a reply",
            patience as f64 / 1000.0
        );
        findings.push(match patience {
            PATIENCE.. => chart
                .finding(Level::Warning, "down_after", says)
                .means("Leases are shorter: when a primary fails, every holder loses its lock before there is a new primary.")
                .change("SENTINEL SET NAME down-after-milliseconds 5000."),
            _ => chart.finding(Level::Ok, "down_after", says),
        });
    }
    findings
}
