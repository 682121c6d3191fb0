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
    let finding = finding.means("Nobody can say which server keeps a lock: none can be taken.");
    finding.change(
        "See what the servers say below; correct the URL, or set up the cluster or the sentinels.",
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
    let says = format!("{} say that they are the primary", all.join(" and "));
    let finding = Finding::new(Level::Fault, "primaries", all[0].clone(), says);
    let finding = finding.means("Each takes locks that the other does not know of: two get in.");
    Some(finding.change(
        "Make all but one a replica (REPLICAOF), and set min-replicas-to-write, so that one who is cut off stops.",
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
                "ok" => finding
                    .means("Locks whose slots nobody serves can be neither taken nor released."),
                _ => finding.means("This server refuses every lock (CLUSTERDOWN)."),
            };
            finding.change("Bring back the missing servers, or give their slots to others: redis-cli --cluster fix.")
        }
    }];
    // Asked of those who serve: the others would say the same.
    if chart.serves() {
        findings.push(match chart.setting("cluster-require-full-coverage") {
            Ok("yes") => chart
                .finding(Level::Note, "coverage", "cluster-require-full-coverage is yes")
                .means("When one shard is gone, locks on all others stop too.")
                .change(
                    "CONFIG SET cluster-require-full-coverage no, so that only its own locks do.",
                ),
            Ok(_) => chart.finding(
                Level::Ok,
                "coverage",
                "a shard that is gone stops only its own locks",
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
        return vec![chart.finding(Level::Note, SUBJECT, "it does not say how many there are")];
    };
    let all = others + 1;
    let says = format!("{all} sentinels, of which {quorum} must agree that the primary is dead");
    let mut findings = vec![match (all, quorum) {
        (..SENTINELS, _) => chart
            .finding(Level::Warning, SUBJECT, says)
            .means("When one of them is away, nobody can choose a new primary: locks stop until the old one is back.")
            .change("Run three or more, on machines of their own."),
        (all, quorum) if quorum <= all / 2 => chart
            .finding(Level::Warning, SUBJECT, says)
            .means("A few that are cut off can give up a primary that is well.")
            .change(format!("SENTINEL SET NAME quorum {}, which is most of them.", all / 2 + 1)),
        (all, quorum) if quorum > all => chart
            .finding(Level::Fault, SUBJECT, says)
            .means("So many never agree: a primary that dies is not replaced.")
            .change(format!("SENTINEL SET NAME quorum {}, which is most of them.", all / 2 + 1)),
        _ => chart.finding(Level::Ok, SUBJECT, says),
    }];
    if let Some(patience) = number("down-after-milliseconds") {
        let says =
            format!("a primary is given up after {:.1} s of silence", patience as f64 / 1000.0);
        findings.push(match patience {
            PATIENCE.. => chart
                .finding(Level::Warning, "down_after", says)
                .means("Leases are shorter: when a primary dies, every holder loses its lock before there is a new one.")
                .change("SENTINEL SET NAME down-after-milliseconds 5000."),
            _ => chart.finding(Level::Ok, "down_after", says),
        });
    }
    findings
}
