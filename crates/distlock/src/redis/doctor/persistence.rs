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
                    "A restart loses every lock: the next caller acquires a lock that the old holder still uses, until the old holder's \
                     next renewal. Fencing tokens, semaphores and latches start again. A primary that restarts without a failover \
                     empties its replicas too.",
                )
                .change("CONFIG SET appendonly yes; or start a stopped server again only after the longest lease."),
            Ok(save) => chart
                .finding(Level::Note, SUBJECT, format!("snapshots only (save {save})"))
                .means("After a crash the server has the data of the last snapshot: newer locks are lost, released ones are held again.")
                .change("CONFIG SET appendonly yes."),
            Err(why) => chart.unknown(SUBJECT, &why),
        },
        Ok(_) => match chart.setting("appendfsync") {
            Ok("always") => chart.finding(Level::Ok, SUBJECT, "append-only file, synced to disk at every write"),
            Ok("everysec") => chart
                .finding(Level::Ok, SUBJECT, "append-only file, synced to disk every second")
                .means("A crash of the machine (not of the server alone) may lose the locks of the last second."),
            Ok(other) => chart
                .finding(Level::Note, SUBJECT, format!("append-only file, appendfsync {other}"))
                .means("A crash of the machine may lose the locks of the last half minute.")
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
    let means = "The server refuses to acquire, renew and release locks (MISCONF): holders lose theirs when their leases end.";
    let change = "Read its log: the disk is full, its directory is not writable, or there is no memory to fork.";
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
            .means("Nothing is saved: a restart loses the locks since the last snapshot.")
            .change(change),
        // With snapshots switched off, an old failure stops nobody.
        _ if chart.setting("save").is_ok_and(str::is_empty) => chart.finding(
            Level::Note,
            SUBJECT,
            "the last snapshot failed, and snapshots are switched off",
        ),
        _ => chart
            .finding(Level::Fault, SUBJECT, "the last snapshot failed")
            .means(means)
            .change(change),
    };
    vec![finding]
}
