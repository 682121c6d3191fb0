//! What a user may not do, found by trying it: that needs no permission of its own, and the server decides, by whatever rules it has.

use std::collections::BTreeSet;

use redis::{Cmd, Value};

use super::chart::{Chart, LACKS, Refused, Told, Unknown};
use super::visit::{Line, text, why};
use crate::doctor::{Examine, Finding, Level};
use crate::locks::Durability;
use crate::redis::acl::{self, Channels, NEEDS, Needs};
use crate::redis::pubsub::Way;
use crate::redis::refusal;

const PROBE: &str = include_str!("probe.lua");

/// How many names are tried for one that this server of a cluster serves: with a hundred shards one in a hundred is.
const NAMES: usize = 1000;

/// What is tried outside of scripts, with the rule that allows it; the answer does not matter.
type Plain = (&'static str, &'static [&'static str]);
const PLAIN: [Plain; 3] = [
    ("+ping", &["PING"]),
    ("+client|info", &["CLIENT", "INFO"]),
    // An id that no client has: they are counted from 1.
    ("+client|kill", &["CLIENT", "KILL", "ID", "9223372036854775807", "ADDR", "0.0.0.0:0"]),
];
const PLAIN_WITH_ACKS: [Plain; 1] = [("+wait", &["WAIT", "0", "0"])];
const PLAIN_IN_CLUSTERS: [Plain; 4] = [
    ("+cluster|slots", &["CLUSTER", "SLOTS"]),
    ("+cluster|info", &["CLUSTER", "INFO"]),
    ("+asking", &["ASKING"]),
    ("+pubsub|shardnumsub", &["PUBSUB", "SHARDNUMSUB"]),
];

/// A name that nobody uses.
pub(super) fn unused(what: &Examine, chart: &Chart) -> String {
    format!("{}distlock:doctor:{:016x}", what.prefix, chart.somebody.dial.env.random())
}

/// Tries everything.
pub(super) async fn tried(
    line: &mut Line,
    way: Way,
    what: &Examine,
    chart: &Chart,
) -> Told<Refused> {
    let mut refused = Refused::default();
    let acks = chart.somebody.dial.durability != Durability::Primary;
    let in_cluster = PLAIN_IN_CLUSTERS.iter().filter(|_| chart.cluster);
    let with_acks = PLAIN_WITH_ACKS.iter().filter(|_| acks);
    for (rule, words) in PLAIN.iter().chain(in_cluster).chain(with_acks) {
        if let Err(no) = line.try_it(&command(words)).await?
            && refusal::lacks(&no).is_some()
        {
            refused.names.insert((*rule).to_owned());
        }
    }
    let sha = match line.try_it(&command(&["SCRIPT", "LOAD", PROBE])).await? {
        Ok(sha) => text(&sha),
        Err(no) if refusal::lacks(&no).is_some() => {
            refused.names.insert("+script|load".to_owned());
            refused.scripts = true;
            return Ok(refused);
        }
        Err(no) => return Err(why(&no)),
    };
    for _ in 0..NAMES {
        let lock = unused(what, chart);
        let (mut keys, channels) = names(what, &lock);
        if chart.somebody.dial.holder_info {
            keys.push(acl::holders_key(&lock));
        }
        let mut call = command(&["EVALSHA", &sha, "1", &lock, word(way)]);
        call.arg(keys.len()).arg(&keys).arg(&channels);
        match line.try_it(&call).await? {
            Ok(reply) => {
                let missing = lacking(&reply, way);
                refused.names.extend(missing.iter().map(|name| general(name, &lock, what)));
                return Ok(refused);
            }
            // Another server's.
            Err(no) if no.code() == "MOVED" => {}
            Err(no) if refusal::lacks(&no).is_some() => {
                // The key is looked at before the script runs.
                let command = refusal::lacks(&no).is_some_and(|rule| rule.starts_with('+'));
                let missing = if command { "evalsha" } else { &lock };
                refused.names.insert(general(missing, &lock, what));
                refused.scripts = true;
                return Ok(refused);
            }
            Err(no) => return Err(why(&no)),
        }
    }
    Err(Unknown("no lock name was found whose slot this server serves".to_owned()))
}

/// The keys beside the lock's own, and the channels.
fn names(what: &Examine, lock: &str) -> (Vec<String>, Vec<String>) {
    let (mut keys, mut channels) = (BTreeSet::new(), BTreeSet::new());
    for needs in wanted(what) {
        let (own, channel) = needs.names(lock);
        keys.extend(own);
        channels.extend(channel);
    }
    (keys.into_iter().collect(), channels.into_iter().collect())
}

pub(super) fn wanted(what: &Examine) -> impl Iterator<Item = &'static Needs> {
    NEEDS.iter().filter(|needs| what.kinds.contains(&needs.kind))
}

/// What was refused for want of a permission; the other errors are meant. A key or channel that is refused because of the command is
/// not missing itself.
fn lacking(reply: &Value, way: Way) -> Vec<String> {
    let Value::Array(pairs) = reply else { return Vec::new() };
    let pairs = pairs.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1])));
    let mut all = Vec::new();
    for (what, why) in pairs.filter(|(_, why)| refusal::is_acl(why)) {
        let is_channel = why.contains(" channel");
        let is_name = what.contains(':');
        match (is_name, is_channel || why.contains(" key")) {
            (false, _) | (true, true) => all.push(what),
            // Only keys are tried by a command that is tried by itself, too.
            (true, false) => all.extend(said(&what, way)),
        }
    }
    all
}

/// The commands that a channel was tried with.
fn said(name: &str, way: Way) -> Vec<String> {
    let is_channel = NEEDS.iter().any(|needs| needs.has_channel(name));
    let words: &[&str] = match way {
        _ if !is_channel => &[],
        Way::Classic => &["publish"],
        Way::Sharded => &["spublish"],
        Way::Both => &["publish", "spublish"],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The rule that is missing: a pattern where a name was refused.
fn general(name: &str, lock: &str, what: &Examine) -> String {
    if name == acl::holders_key(lock) {
        let rules = acl::holders_rules(&what.prefix, Channels::Classic);
        return rules.into_iter().find(|rule| rule.starts_with('~')).unwrap_or_default();
    }
    for needs in &NEEDS {
        if let Some(rule) = needs.rule(name, lock, &what.prefix) {
            return rule;
        }
    }
    format!("+{name}")
}

/// What each kind lacks.
pub(super) fn acl(chart: &Chart, what: &Examine) -> Vec<Finding> {
    const SUBJECT: &str = "acl";
    let refused = match &chart.refused {
        Ok(refused) => refused,
        Err(why) => return vec![chart.unknown(SUBJECT, why)],
    };
    let channels = match chart.way {
        Way::Classic => Channels::Classic,
        Way::Sharded => Channels::Sharded,
        Way::Both => Channels::Both,
    };
    // Subscribing is tried with a message.
    let mut names = refused.names.clone();
    for (_, heard) in &chart.heard {
        if let Err(Unknown(why)) = heard {
            names.extend(why.strip_prefix(LACKS).map(str::to_owned));
        }
    }
    let mut lacks: Vec<(String, Vec<&str>)> = Vec::new();
    for needs in wanted(what) {
        let mut rules = needs.rules(&what.prefix, channels, chart.cluster);
        rules.push("+wait".to_owned()); // not tried unless it is needed
        let missing: Vec<&str> =
            rules.iter().filter_map(|rule| names.get(rule)).map(String::as_str).collect();
        if missing.is_empty() {
            continue;
        }
        let missing = missing.join(" ");
        match lacks.iter_mut().find(|(other, _)| *other == missing) {
            Some((_, kinds)) => kinds.push(needs.kind.as_str()),
            None => lacks.push((missing, vec![needs.kind.as_str()])),
        }
    }
    if chart.somebody.dial.holder_info {
        let rules = acl::holders_rules(&what.prefix, channels);
        let missing: Vec<&str> =
            rules.iter().filter_map(|rule| names.get(rule)).map(String::as_str).collect();
        if !missing.is_empty() {
            lacks.push((missing.join(" "), vec!["holder_info"]));
        }
    }
    if lacks.is_empty() {
        let kinds: Vec<&str> = wanted(what).map(|needs| needs.kind.as_str()).collect();
        let says =
            format!("this user has the permissions that these kinds need: {}", kinds.join(" "));
        return vec![chart.finding(Level::Ok, SUBJECT, says)];
    }
    let says: Vec<String> = lacks
        .iter()
        .map(|(missing, kinds)| format!("{} lacks {missing}", kinds.join(", ")))
        .collect();
    let mut says = says.join("; ");
    if refused.scripts {
        says += "; the commands inside scripts could not be checked";
    }
    let prefix = &what.prefix;
    let only_names = lacks.iter().all(|(missing, _)| !missing.contains('+'));
    if prefix.is_empty() && only_names {
        let says = format!("lock names without a prefix are refused: {says}");
        let change = "Give the prefix of your locks (Builder::prefix, --prefix): the doctor then tries names that this user may use.";
        return vec![chart.finding(Level::Note, SUBJECT, says).change(change)];
    }
    let finding = chart.finding(Level::Fault, SUBJECT, says);
    let finding = finding.means("Operations on these kinds are refused with ErrorKind::Config.");
    vec![finding.change(format!(
        "ACL SETUSER with the rules of `distlock doctor --acl {prefix:?}`, on every server: users are not replicated."
    ))]
}

/// Whether this user may end a connection whose command got no reply.
pub(super) fn client_kill(chart: &Chart) -> Option<Finding> {
    const SUBJECT: &str = "client_kill";
    let refused = chart.refused.as_ref().ok()?;
    let rules = acl::KILLING.iter().map(|command| format!("+{command}"));
    let missing: Vec<String> = rules.filter(|rule| refused.names.contains(rule)).collect();
    if missing.is_empty() {
        let says = "this user may close a connection whose command got no reply";
        return Some(chart.finding(Level::Ok, SUBJECT, says));
    }
    let missing = missing.join(" ");
    let finding = chart.finding(Level::Warning, SUBJECT, format!("this user lacks {missing}"));
    let finding = finding.means(
        "A command that got no reply in time may still arrive, minutes later, and run after newer ones: a lock that the caller no \
         longer waits for is then acquired, and stays held until its lease ends.",
    );
    Some(
        finding
            .change(format!("ACL SETUSER … {missing} on every server: users are not replicated.")),
    )
}

/// Whether this user finds out that there are sharded channels. One who may not ask takes it that there are none.
pub(super) fn way(chart: &Chart) -> Option<Finding> {
    let refused = chart.refused.as_ref().ok()?;
    let asked = refused.names.contains("+pubsub|shardnumsub");
    let has_them = chart.field("redis_version").is_ok_and(|version| !version.starts_with('6'));
    if !(chart.cluster && chart.auto && chart.way == Way::Classic && asked && has_them) {
        return None;
    }
    let says = "this user lacks +pubsub|shardnumsub, so pubsub=auto uses plain channels, although the server has sharded ones";
    let finding = chart.finding(Level::Fault, "channels", says);
    let finding = finding.means(
        "Other clients, and Redisson, publish releases on sharded channels: neither receives the messages of the other, and \
         waiters acquire the lock only at their next poll.",
    );
    Some(finding.change("ACL SETUSER … +pubsub|shardnumsub on every server; or use pubsub=classic in the URL of every client."))
}

fn word(way: Way) -> &'static str {
    match way {
        Way::Classic => "classic",
        Way::Sharded => "sharded",
        Way::Both => "both",
    }
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}
