//! The way to a server, and what it does to connections.

use std::time::Duration;

use super::chart::Chart;
use super::memory::size;
use crate::doctor::{Finding, Level};
use crate::redis::connect::Endpoint;

/// Round trips above this are worth knowing of.
const LONG: Duration = Duration::from_millis(25);
/// Above this, a step takes noticeably long.
const TOO_LONG: Duration = Duration::from_millis(250);
/// Above this share of all connections, there may soon be none left.
const NEARLY: u64 = 80;
/// A buffer that a burst of releases could fill.
const SMALL: u64 = 1 << 20;

pub(super) fn round_trip(chart: &Chart) -> Finding {
    const SUBJECT: &str = "round_trip";
    let trip = chart.trip;
    let says = format!("it answers within {:.2} ms", trip.as_secs_f64() * 1000.0);
    let level = match trip {
        trip if trip >= TOO_LONG => Level::Warning,
        trip if trip >= LONG => Level::Note,
        _ => return chart.finding(Level::Ok, SUBJECT, says),
    };
    let finding = chart.finding(level, SUBJECT, says);
    let finding =
        finding.means("Every step takes at least that long; leases must be many times as long.");
    finding.change(
        "Put the server nearer, or look for what is slow on the way (SLOWLOG, LATENCY DOCTOR).",
    )
}

pub(super) fn buffers(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "pubsub_buffer";
    let limits = match chart.setting("client-output-buffer-limit") {
        Ok(limits) => limits,
        Err(why) => return vec![chart.unknown(SUBJECT, &why)],
    };
    let mut words = limits.split_whitespace().skip_while(|word| *word != "pubsub").skip(1);
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
    let (hard, soft) = (number(), number());
    let smallest = [hard, soft].into_iter().filter(|limit| *limit > 0).min();
    let finding = match smallest {
        Some(limit) if limit < SMALL => chart
            .finding(Level::Warning, SUBJECT, format!("client-output-buffer-limit pubsub is {}", size(limit)))
            .means("A burst of releases, or of other messages, cuts those who listen: waiters find out only after a reconnect.")
            .change("CONFIG SET client-output-buffer-limit \"pubsub 33554432 8388608 60\", which is the default."),
        Some(limit) => chart.finding(Level::Ok, SUBJECT, format!("client-output-buffer-limit pubsub is {}", size(limit))),
        None => chart.finding(Level::Ok, SUBJECT, "client-output-buffer-limit pubsub has no limit"),
    };
    vec![finding]
}

pub(super) fn idle(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "idle_timeout";
    let finding = match chart.setting("timeout") {
        Ok("0") => chart.finding(Level::Ok, SUBJECT, "idle connections are kept"),
        Ok(seconds) => chart
            .finding(Level::Warning, SUBJECT, format!("connections that are idle for {seconds} s are cut (timeout)"))
            .means(
                "A step that meets the cut has an unknown outcome and is asked again, and the next one connects first: now and then a \
                 lock takes much longer.",
            )
            .change("CONFIG SET timeout 0; tcp-keepalive finds connections whose other end is gone."),
        Err(why) => chart.unknown(SUBJECT, &why),
    };
    vec![finding]
}

pub(super) fn clients(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "clients";
    let (count, limit) = match (chart.number("connected_clients"), chart.number("maxclients")) {
        (Ok(count), Ok(limit)) => (count, limit),
        (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
    };
    if limit == 0 {
        return Vec::new();
    }
    let says = format!("{count} of {limit} connections in use");
    if count.saturating_mul(100) / limit < NEARLY {
        return vec![chart.finding(Level::Ok, SUBJECT, says)];
    }
    let finding = chart.finding(Level::Warning, SUBJECT, says);
    let finding = finding.means(
        "When they are used up, a process that has to reconnect cannot renew: it loses its locks.",
    );
    vec![finding.change(
        "Raise maxclients (and the limit of open files), or find who has so many: CLIENT LIST.",
    )]
}

/// Who can listen in, and who can come in.
pub(super) fn security(chart: &Chart) -> Vec<Finding> {
    let target = &chart.somebody.dial.target;
    let encrypted = matches!(target.endpoint, Endpoint::Tls { .. });
    let mut findings = Vec::new();
    findings.push(match (encrypted, chart.is_local()) {
        (true, _) => chart.finding(Level::Ok, "tls", "what is said is encrypted"),
        (false, true) => chart.finding(Level::Ok, "tls", "what is said stays on this machine"),
        (false, false) => chart
            .finding(Level::Warning, "tls", "what is said crosses the network as plain text")
            .means("Whoever can listen has the password, and can take and release every lock.")
            .change("Use rediss:// (or redis+…:// as rediss+…://), with tls-port on the server."),
    });
    if !target.has_credentials() && !chart.is_local() {
        let finding =
            chart.finding(Level::Warning, "password", "it lets everybody in without a password");
        let finding = finding
            .means("Whoever reaches its port can take and release every lock, and delete them.");
        let change = "Set a password, or a user with no more than locks need: `distlock doctor --acl PREFIX`.";
        findings.push(finding.change(change));
    }
    findings
}
