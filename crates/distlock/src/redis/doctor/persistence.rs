//! What a restart leaves.

use super::chart::Chart;
use crate::doctor::{Finding, Level};

pub(super) fn persistence(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "persistence";
    let finding = match chart.number("aof_enabled") {
        Err(why) => chart.unknown(SUBJECT, &why),
        Ok(0) => match chart.setting("save") {
            Ok("") => chart
                .finding(Level::Warning, SUBJECT, "neither an append-only file nor snapshots")
                .means(
                    "A restart forgets every lock: whoever asks next gets in while the old holder still works, until its \
                     next renewal. Fences, semaphores and latches start again. A primary that restarts by itself empties its \
                     replicas too.",
                )
                .change("CONFIG SET appendonly yes; or do not restart it by itself within the longest lease."),
            Ok(save) => chart
                .finding(Level::Note, SUBJECT, format!("snapshots only (save {save})"))
                .means("A crash goes back to the last snapshot: newer locks are forgotten, released ones stand again.")
                .change("CONFIG SET appendonly yes."),
            Err(why) => chart.unknown(SUBJECT, &why),
        },
        Ok(_) => match chart.setting("appendfsync") {
            Ok("always") => chart.finding(Level::Ok, SUBJECT, "append-only file, written at every step"),
            Ok("everysec") => chart
                .finding(Level::Ok, SUBJECT, "append-only file, written every second")
                .means("A crash of the machine, not of the server, may forget the locks of the last second."),
            Ok(other) => chart
                .finding(Level::Note, SUBJECT, format!("append-only file, appendfsync {other}"))
                .means("A crash of the machine may forget the locks of half a minute.")
                .change("CONFIG SET appendfsync everysec."),
            Err(why) => chart.unknown(SUBJECT, &why),
        },
    };
    vec![finding]
}

/// Whether it can write what it should.
pub(super) fn disk(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "disk";
    let (aof, rdb) =
        match (chart.field("aof_last_write_status"), chart.field("rdb_last_bgsave_status")) {
            (Ok(aof), Ok(rdb)) => (aof, rdb),
            (Err(why), _) | (_, Err(why)) => return vec![chart.unknown(SUBJECT, &why)],
        };
    let means = "It refuses to take, renew and release locks (MISCONF): holders lose theirs when their leases end.";
    let change =
        "Look at its log: a full disk, a directory that it may not write to, or no memory to fork.";
    if aof == "err" {
        let finding =
            chart.finding(Level::Fault, SUBJECT, "the last write of the append-only file failed");
        return vec![finding.means(means).change(change)];
    }
    if rdb != "err" {
        return vec![chart.finding(Level::Ok, SUBJECT, "the last writes succeeded")];
    }
    let finding = match chart.setting("stop-writes-on-bgsave-error") {
        Ok("no") => chart
            .finding(Level::Warning, SUBJECT, "the last snapshot failed")
            .means("Nothing is saved; a restart forgets locks.")
            .change(change),
        // With snapshots switched off, an old failure stops nobody.
        _ if chart.setting("save").is_ok_and(str::is_empty) => {
            chart.finding(Level::Note, SUBJECT, "the last snapshot failed, and none are to be made")
        }
        _ => chart
            .finding(Level::Fault, SUBJECT, "the last snapshot failed")
            .means(means)
            .change(change),
    };
    vec![finding]
}
