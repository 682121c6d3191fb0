//! Whether clocks agree.

use super::chart::Chart;
use crate::doctor::{Finding, Level};

/// From this many milliseconds on, clocks disagree.
const APART: u64 = 500;
/// From this many on, it does harm by itself.
const FAR: u64 = 5000;

fn level(apart: u64) -> Level {
    match apart {
        FAR.. => Level::Fault,
        APART.. => Level::Warning,
        _ => Level::Ok,
    }
}

fn seconds(millis: i64) -> String {
    format!("{:.3} s", millis as f64 / 1000.0)
}

/// Against ours.
pub(super) fn clock(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "clock";
    let ahead = match &chart.clock {
        Ok(ahead) => *ahead,
        Err(why) => return vec![chart.unknown(SUBJECT, why)],
    };
    // Somewhere on the way there and back it was read.
    let doubt = u64::try_from(chart.trip.as_millis()).unwrap_or(u64::MAX) / 2;
    let level = level(ahead.unsigned_abs().saturating_sub(doubt));
    let says = match ahead {
        0.. => format!("the server's clock is {} ahead of this machine's", seconds(ahead)),
        _ => format!("the server's clock is {} behind this machine's", seconds(-ahead)),
    };
    let finding = chart.finding(level, SUBJECT, says);
    if level == Level::Ok {
        return vec![finding];
    }
    vec![
        finding
            .means(
                "One of the two is wrong, and will be corrected some day. When a server's clock is set forward, leases end early and two \
                 owners can hold one lock; when it is set back, locks of dead processes stay longer by that much. Fencing tokens, \
                 places in fair queues and leased permits depend on the server's clock; Redisson's clients mix it with their own.",
            )
            .change("Run chrony or ntpd on both, slewing and not stepping."),
    ]
}

/// Of servers against each other: a replica that takes over goes on with its own.
pub(super) fn between(charts: &[Chart]) -> Option<Finding> {
    let read =
        |chart: &Chart| chart.clock.as_ref().ok().map(|ahead| (*ahead, chart.place(), chart.trip));
    let clocks: Vec<_> =
        charts.iter().filter(|chart| !chart.is_sentinel()).filter_map(read).collect();
    let first = clocks.iter().min_by_key(|(ahead, ..)| *ahead)?;
    let last = clocks.iter().max_by_key(|(ahead, ..)| *ahead)?;
    if clocks.len() < 2 {
        return None;
    }
    let doubt = u64::try_from((first.2 + last.2).as_millis()).unwrap_or(u64::MAX) / 2;
    let level = level(last.0.abs_diff(first.0).saturating_sub(doubt));
    let says = format!(
        "the clock of {} is {} ahead of that of {}",
        last.1,
        seconds(last.0 - first.0),
        first.1
    );
    let finding = Finding::new(level, "clocks", last.1.clone(), says);
    if level == Level::Ok {
        return Some(finding);
    }
    let finding = finding.means(
        "When one server takes over from the other, leases end early or late by that much, fencing tokens may go back, and \
         places in fair queues end too soon.",
    );
    Some(finding.change("Run chrony or ntpd on both, slewing and not stepping."))
}
