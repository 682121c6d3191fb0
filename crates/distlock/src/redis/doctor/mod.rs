//! Looking at servers: every one is visited, and what was seen becomes findings. Visiting asks, the checks only read.

mod chart;
mod clock;
mod connections;
mod identity;
mod listen;
mod memory;
mod permissions;
mod persistence;
mod replicas;
mod several;
#[cfg(test)]
mod tests;
mod visit;

use self::chart::Chart;
use self::visit::visit;
use super::RedisStore;
use super::topology::{Everybody, Part, Somebody};
use crate::doctor::{Examine, Finding, Level, REACHABLE};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind};
use crate::runtime::join::join_all;

impl RedisStore {
    /// Visits everybody at once: one that hangs keeps no other waiting. Then those whom a primary knows better than the others did.
    pub(super) async fn examined(&self, what: &Examine) -> Vec<Finding> {
        let Everybody { mut all, cluster, way, auto, trouble } = self.topology.everybody().await;
        let several = all.len() > 1;
        let (mut findings, mut charts) = (Vec::new(), Vec::<Chart>::new());
        for _ in 0..2 {
            let visits = std::mem::take(&mut all).into_iter().map(|somebody| {
                let visit: BoxFuture<'_, Result<Chart, (Somebody, Error)>> =
                    Box::pin(visit(somebody, cluster, (way, auto), what));
                visit
            });
            let mut known = Vec::new();
            for visited in join_all(visits.collect()).await {
                match visited {
                    Ok(chart) => charts.push(chart),
                    Err((somebody, error)) => {
                        findings.push(away(&somebody, &error, several));
                        known.push(somebody.dial.target);
                    }
                }
            }
            known.extend(charts.iter().map(|chart| chart.somebody.dial.target.clone()));
            all = charts.iter().flat_map(replicas::of_primary).collect();
            all.retain(|somebody| !known.contains(&somebody.dial.target));
        }
        if let Some(trouble) = trouble {
            findings.push(several::unknown(&self.topology.place(), &trouble, charts.is_empty()));
        }
        for chart in &charts {
            findings.extend(of_one(chart, what));
        }
        findings.extend(clock::between(&charts));
        findings.extend(several::primaries(&charts));
        findings
    }
}

/// What there is to say of one server.
fn of_one(chart: &Chart, what: &Examine) -> Vec<Finding> {
    let mut findings = vec![connections::round_trip(chart)];
    if chart.is_sentinel() {
        findings.extend(several::sentinel(chart));
        findings.extend(connections::security(chart));
        return findings;
    }
    findings.extend(identity::role(chart));
    findings.extend(identity::version(chart));
    findings.extend(memory::eviction(chart));
    findings.extend(memory::room(chart));
    findings.extend(replicas::replicas(chart));
    findings.extend(persistence::persistence(chart));
    findings.extend(persistence::disk(chart));
    findings.extend(clock::clock(chart));
    findings.extend(listen::pubsub(chart));
    findings.extend(connections::buffers(chart));
    findings.extend(connections::idle(chart));
    findings.extend(connections::clients(chart));
    findings.extend(connections::security(chart));
    // What a replica of a cluster would allow is not to be found out there.
    if !chart.cluster || chart.serves() {
        findings.extend(permissions::acl(chart, what));
        findings.extend(permissions::way(chart));
        findings.extend(permissions::client_kill(chart));
    }
    findings.extend(several::cluster(chart));
    findings
}

/// A server that could not be visited.
fn away(somebody: &Somebody, error: &Error, several: bool) -> Finding {
    let place = somebody.dial.target.to_string();
    let says = error.to_string();
    let refused = matches!(error.kind(), ErrorKind::Config | ErrorKind::Unsupported);
    if refused {
        let finding = Finding::new(Level::Fault, "login", place, says);
        let finding = match somebody.part {
            Part::Replica => finding.means("When this server takes over, it refuses every lock: users and passwords are not replicated."),
            _ => finding.means("Every lock is refused."),
        };
        return finding.change("Correct the user, the password, the database or the certificates, in the URL or on the server.");
    }
    // One of several may be away: that is what the others are for.
    let spare =
        several && matches!(somebody.part, Part::Replica | Part::Sentinel(_) | Part::Stranger);
    let level = if spare { Level::Warning } else { Level::Fault };
    let finding = Finding::new(level, REACHABLE, place, says);
    let finding = match somebody.part {
        Part::Replica => finding.means("This replica cannot take over."),
        Part::Sentinel(_) => finding.means("One sentinel less can vote for a new primary."),
        Part::Single | Part::Primary | Part::Stranger => {
            finding.means("Locks on this server can be neither acquired nor released; holders lose theirs when their leases end.")
        }
    };
    finding.change("Start the server, or correct the address; check the firewall, `bind` and `protected-mode`.")
}
