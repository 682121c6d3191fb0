//! `distlock doctor`: whether the store is fit for locks.

use std::fmt::Write as _;

use distlock::doctor::{Finding, Level, Report};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::plan::{Doctor, Setup};
use crate::print::{self, Paint};

pub(super) async fn doctor(plan: Doctor) -> Result<Exit, Failure> {
    if let Some(prefix) = &plan.acl {
        let acl = plan.store.acl(prefix, &plan.kinds);
        print::out(&format!("{}\n", acl.set_user("USER")))?;
        return Ok(Exit::Done);
    }
    let mut reports = Vec::new();
    for locks in plan.store.connect(&Setup { lazy: true, ..Setup::default() }).await? {
        reports.push(locks.doctor().kinds(&plan.kinds).await);
    }
    match plan.json {
        true => print::out(&format!("{}\n", json_of(&reports))),
        false => print::out(&text_of(&reports, Paint::stdout())),
    }?;
    let worst = worst(&reports);
    Ok(match reports.iter().any(Report::is_reached) {
        false => Exit::Unavailable,
        true if worst == Level::Fault => Exit::Faulty,
        true => Exit::Done,
    })
}

fn worst(reports: &[Report]) -> Level {
    reports.iter().map(Report::worst).max().unwrap_or(Level::Ok)
}

/// All findings, the worst first.
fn findings(reports: &[Report]) -> Vec<&Finding> {
    let mut all: Vec<&Finding> = reports.iter().flat_map(Report::findings).collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    all
}

fn json_of(reports: &[Report]) -> Value {
    let one = |finding: &&Finding| {
        json!({
            "level": finding.level.as_str(),
            "subject": finding.subject,
            "place": finding.place,
            "says": finding.says,
            "means": finding.means,
            "change": finding.change,
        })
    };
    json!({
        "reached": reports.iter().any(Report::is_reached),
        "worst": worst(reports).as_str(),
        "findings": findings(reports).iter().map(one).collect::<Vec<Value>>(),
    })
}

fn text_of(reports: &[Report], paint: Paint) -> String {
    let findings = findings(reports);
    let mut text = String::new();
    for finding in &findings {
        let level = format!("{:<8}", finding.level.as_str().to_uppercase());
        let level = match finding.level {
            Level::Fault => paint.bad(&level),
            Level::Warning => paint.warning(&level),
            Level::Ok => paint.good(&level),
            _ => level,
        };
        // Servers chose some of these words.
        let place = print::name(&finding.place);
        let says = print::redact(&print::name(&finding.says));
        let _ = writeln!(text, "{level} {}  {place}  {says}", paint.head(finding.subject));
        for (word, more) in [("means", &finding.means), ("change", &finding.change)] {
            if !more.is_empty() && finding.level > Level::Ok {
                let _ = writeln!(text, "         {word}: {}", print::name(more));
            }
        }
    }
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let _ = writeln!(
        text,
        "{} faults, {} warnings, {} notes, {} ok",
        count(Level::Fault),
        count(Level::Warning),
        count(Level::Note),
        count(Level::Ok),
    );
    text
}
