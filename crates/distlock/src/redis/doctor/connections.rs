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
    let says = format!("the server replies within {:.2} ms", trip.as_secs_f64() * 1000.0);
    let level = match trip {
        trip if trip >= TOO_LONG => Level::Warning,
        trip if trip >= LONG => Level::Note,
        _ => return chart.finding(Level::Ok, SUBJECT, says),
    };
    let finding = chart.finding(level, SUBJECT, says);
    let finding = finding
        .means("Every operation takes at least that long; leases must be many times as long.");
    finding.change(
        "Move the server closer, or find what is slow, the server or the network: SLOWLOG, LATENCY DOCTOR.",
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
            .means("After a burst of releases, or of other messages, the server closes the subscribers' connections: waiters notice a release only after a reconnect.")
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
            .finding(Level::Warning, SUBJECT, format!("the server closes connections that are idle for {seconds} s (timeout)"))
            .means(
                "An operation that is sent just then gets no reply and is retried, and the next one has to connect first: from time to \
                     time a lock takes much longer.",
            )
            .change("CONFIG SET timeout 0; tcp-keepalive closes connections whose client is gone."),
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
        "When none is left, a process that has to reconnect cannot renew its locks, and loses them.",
    );
    vec![finding.change(
        "Raise maxclients (and the limit of open files), or find the clients that hold so many: CLIENT LIST.",
    )]
}

/// Whether the connection is encrypted, and whether the server requires a password.
pub(super) fn security(chart: &Chart) -> Vec<Finding> {
    let target = &chart.somebody.dial.target;
    let encrypted = matches!(target.endpoint, Endpoint::Tls { .. });
    let mut findings = Vec::new();
    findings.push(match (encrypted, chart.is_local()) {
        (true, _) => chart.finding(Level::Ok, "tls", "the connection is encrypted"),
        (false, true) => chart.finding(Level::Ok, "tls", "the connection is not encrypted, and stays on this machine"),
        (false, false) => chart
            .finding(Level::Warning, "tls", "the connection is not encrypted")
            .means("A program that can read the network traffic gets the password, and can take and release every lock.")
            .change("Use rediss:// (or redis+…:// as rediss+…://), with tls-port on the server."),
    });
    if !target.has_credentials() && !chart.is_local() {
        let finding = chart.finding(Level::Warning, "password", "the server requires no password");
        let finding = finding.means(
            "Every program that can reach its port can take, release and delete every lock.",
        );
        let change = "Set a password, or create a user that has only the permissions that locks need: `distlock doctor --acl PREFIX`.";
        findings.push(finding.change(change));
    }
    findings
}
