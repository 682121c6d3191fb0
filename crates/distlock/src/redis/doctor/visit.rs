//! Going to one server and asking it everything.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushInfo, ServerError, Value};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;

use super::chart::{Chart, LACKS, Told, Unknown};
use super::{listen, permissions};
use crate::doctor::Examine;
use crate::error::{Error, Result};
use crate::locks::config;
use crate::redis::acl::Needs;
use crate::redis::pubsub::Way;
use crate::redis::refusal;
use crate::redis::topology::{Part, Somebody};

/// What is asked of `CONFIG GET`, one by one: Redis 6.2 takes no more at a time.
const SETTINGS: [&str; 8] = [
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "save",
    "stop-writes-on-bgsave-error",
    "timeout",
];

/// How often the clock is read; the quickest answer says most.
const READINGS: usize = 5;

/// A connection of the doctor's own: what locks do on theirs is not disturbed, and a topology that cannot be made out does not
/// stand in the way.
pub(super) struct Line {
    connection: MultiplexedConnection,
    pub(super) pushes: UnboundedReceiver<PushInfo>,
    pub(super) patience: Duration,
    driver: JoinHandle<()>,
}

impl Line {
    async fn open(somebody: &Somebody) -> Result<Line> {
        // More patient than locks can be: one that is slow should be told from one that is not there.
        let patience = config::COMMAND_TIMEOUT;
        let dial = &somebody.dial;
        let (sender, pushes) = mpsc::unbounded_channel();
        let opened = tokio::time::timeout(patience, dial.open(Some(sender), Some(patience))).await;
        let (connection, work) = opened.unwrap_or_else(|_| Err(dial.too_slow(patience)))?;
        Ok(Line { connection, pushes, patience, driver: tokio::spawn(work) })
    }

    /// Every reply may be a refusal; no reply at all is one as well.
    pub(super) async fn all(&mut self, commands: &Pipeline, count: usize) -> Vec<Told<Value>> {
        let replies = self.connection.send_packed_commands(commands, 0, count).await;
        match replies {
            Ok(replies) => replies.into_iter().map(told).collect(),
            Err(why) => {
                let unknown = Unknown(format!("no reply ({why})"));
                (0..count).map(|_| Err(unknown.clone())).collect()
            }
        }
    }

    pub(super) async fn ask(&mut self, command: &Cmd) -> Told<Value> {
        match self.connection.send_packed_command(command).await {
            Ok(reply) => told(reply),
            Err(why) => Err(Unknown(format!("no reply ({why})"))),
        }
    }

    /// The same, with the server's own words for a refusal.
    pub(super) async fn try_it(
        &mut self,
        command: &Cmd,
    ) -> Told<std::result::Result<Value, ServerError>> {
        match self.connection.send_packed_command(command).await {
            Ok(Value::ServerError(refused)) => Ok(Err(refused)),
            Ok(reply) => Ok(Ok(reply)),
            Err(why) => Err(Unknown(format!("no reply ({why})"))),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn told(reply: Value) -> Told<Value> {
    match reply {
        Value::ServerError(refused) => Err(why(&refused)),
        reply => Ok(reply),
    }
}

/// In words, what kept us from looking.
pub(super) fn why(refused: &ServerError) -> Unknown {
    let text = refused.details().unwrap_or_default();
    match refusal::lacks(refused) {
        Some(permission) => Unknown(format!("{LACKS}{permission}")),
        None => Unknown(format!("{} {text}", refused.code())),
    }
}

/// Asks everything. An error says that there was nobody to ask.
pub(super) async fn visit(
    somebody: Somebody,
    cluster: bool,
    (way, auto): (Way, bool),
    what: &Examine,
) -> std::result::Result<Chart, (Somebody, Error)> {
    let mut line = match Line::open(&somebody).await {
        Ok(line) => line,
        Err(error) => return Err((somebody, error)),
    };
    let (mut questions, mut count) = (Pipeline::new(), 1 + SETTINGS.len());
    questions.cmd("INFO");
    for setting in SETTINGS {
        questions.cmd("CONFIG").arg("GET").arg(setting);
    }
    if cluster {
        questions.cmd("CLUSTER").arg("INFO");
        count += 1;
    }
    let sentinel = match &somebody.part {
        Part::Sentinel(name) => Some(name),
        _ => None,
    };
    if let Some(name) = sentinel {
        questions.cmd("SENTINEL").arg("MASTER").arg(name);
        count += 1;
    }
    let mut answers = line.all(&questions, count).await.into_iter();
    let mut answer = || answers.next().unwrap_or_else(|| Err(Unknown("no reply".to_owned())));
    let info = answer().map(|reply| fields(&text(&reply)));
    let mut settings = HashMap::new();
    for name in SETTINGS {
        let told = answer().map(|reply| pairs(reply).remove(name));
        match told {
            Ok(Some(value)) => drop(settings.insert(name, Ok(value))),
            Ok(None) => {}
            Err(why) => drop(settings.insert(name, Err(why))),
        }
    }
    let slots = cluster.then(|| answer().map(|reply| fields(&text(&reply))));
    let watched = sentinel.map(|_| answer().map(pairs));
    let (clock, trip) = clock(&mut line).await;
    let mut chart = Chart {
        cluster,
        way,
        auto,
        info,
        settings,
        clock,
        trip,
        refused: Ok(Default::default()),
        heard: Vec::new(),
        slots,
        watched,
        somebody,
    };
    // A replica of a cluster sends everybody away.
    if !chart.is_sentinel() && (!cluster || chart.serves()) {
        chart.refused = permissions::tried(&mut line, way, what, &chart).await;
        if chart.serves() && permissions::wanted(what).any(Needs::listens) {
            chart.heard = listen::heard(&mut line, way, what, &chart).await;
        }
    }
    Ok(chart)
}

/// By how much its clock is ahead, and how long a round trip takes.
async fn clock(line: &mut Line) -> (Told<i64>, Duration) {
    let (mut best, mut clock) = (Duration::MAX, Err(Unknown("no reply".to_owned())));
    for _ in 0..READINGS {
        let (ours, since) = (SystemTime::now(), Instant::now());
        let reply = line.ask(&redis::cmd("TIME")).await;
        let trip = since.elapsed();
        if trip >= best {
            continue;
        }
        best = trip;
        clock = reply.and_then(|reply| {
            let theirs = time(&reply)
                .ok_or_else(|| Unknown("the reply to TIME cannot be parsed".to_owned()))?;
            let ours = ours.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + trip / 2;
            Ok(theirs - i64::try_from(ours.as_millis()).unwrap_or(i64::MAX))
        });
    }
    (clock, best)
}

/// In milliseconds.
fn time(reply: &Value) -> Option<i64> {
    let Value::Array(parts) = reply else { return None };
    let number = |at: usize| text(parts.get(at)?).parse::<i64>().ok();
    Some(number(0)?.checked_mul(1000)? + number(1)? / 1000)
}

pub(super) fn text(reply: &Value) -> String {
    match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Lines of `name:value`.
fn fields(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A map, in either form.
fn pairs(reply: Value) -> HashMap<String, String> {
    match reply {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        Value::Array(all) => {
            all.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        _ => HashMap::new(),
    }
}
