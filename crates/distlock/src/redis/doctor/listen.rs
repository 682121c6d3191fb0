//! Whether messages arrive.

use redis::{Cmd, PushKind, Value};

use super::chart::{Chart, LACKS, Told, Unknown};
use super::permissions::{unused, wanted};
use super::visit::{Line, why};
use crate::doctor::{Examine, Finding, Level};
use crate::redis::pubsub::Way;
use crate::redis::refusal;

/// How many names are tried for one that this server of a cluster serves.
const NAMES: usize = 1000;

/// Subscribes to a channel that nobody uses and says something there, in each way that locks do here.
pub(super) async fn heard(
    line: &mut Line,
    way: Way,
    what: &Examine,
    chart: &Chart,
) -> Vec<(&'static str, Told<bool>)> {
    let mut all = Vec::new();
    if way != Way::Sharded {
        all.push((
            "SUBSCRIBE",
            one(line, ["SUBSCRIBE", "PUBLISH", "UNSUBSCRIBE"], what, chart).await,
        ));
    }
    if way != Way::Classic {
        let verbs = ["SSUBSCRIBE", "SPUBLISH", "SUNSUBSCRIBE"];
        all.push(("SSUBSCRIBE", one(line, verbs, what, chart).await));
    }
    all
}

async fn one(
    line: &mut Line,
    [join, say, leave]: [&str; 3],
    what: &Examine,
    chart: &Chart,
) -> Told<bool> {
    let mut channel = String::new();
    for _ in 0..NAMES {
        // One that this user may use: of a kind that must work.
        let lock = unused(what, chart);
        let Some(one) =
            wanted(what).filter(|needs| needs.listens()).find_map(|needs| needs.names(&lock).1)
        else {
            return Err(Unknown("none of the checked kinds subscribes".to_owned()));
        };
        channel = one;
        match line.try_it(&command(&[join, &channel])).await? {
            Err(no) if no.code() == "MOVED" => continue,
            Err(no) => return Err(why(&no)),
            Ok(_) => break,
        }
    }
    line.ask(&command(&[say, &channel, "0"])).await?;
    let arrives = async {
        while let Some(push) = line.pushes.recv().await {
            let is_message = matches!(push.kind, PushKind::Message | PushKind::SMessage);
            let is_ours = matches!(push.data.first(), Some(Value::BulkString(at)) if *at == channel.as_bytes());
            if is_message && is_ours {
                return true;
            }
        }
        false
    };
    let patience = line.patience;
    let heard = tokio::time::timeout(patience, arrives).await.unwrap_or(false);
    // Whether it is allowed is said by name.
    match line.try_it(&command(&[leave, &channel])).await? {
        Err(no) if refusal::lacks(&no).is_some() => Err(why(&no)),
        Err(_) | Ok(_) => Ok(heard),
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

pub(super) fn pubsub(chart: &Chart) -> Vec<Finding> {
    const SUBJECT: &str = "pubsub";
    let finding = |(verb, heard): &(&'static str, Told<bool>)| {
        match heard {
        Ok(true) => {
            let chosen = if chart.auto { ", chosen by pubsub=auto" } else { "" };
            let says = format!("a test message on a channel arrives ({verb}{chosen})");
            chart.finding(Level::Ok, SUBJECT, says)
        }
        Ok(false) => chart
            .finding(Level::Fault, SUBJECT, format!("a test message was published and did not arrive ({verb})"))
            .means("Waiters are not notified of releases: they acquire the lock only at their next poll, after seconds.")
            .change("Look for a proxy that does not forward Pub/Sub; or use the kinds spin and simple, which poll."),
        Err(Unknown(why)) if why.starts_with(LACKS) => chart
            .finding(Level::Fault, SUBJECT, format!("Pub/Sub cannot be used: {why}"))
            .means("Waiters get ErrorKind::Config; without the permission to unsubscribe, the server keeps sending messages that no waiter needs.")
            .change("Give this user the missing permission: `distlock doctor --acl PREFIX` prints the rules."),
        Err(why) => chart.unknown(SUBJECT, why),
    }
    };
    chart.heard.iter().map(finding).collect()
}
